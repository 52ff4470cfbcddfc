"""A model that asks for it learns which file its next state comes from."""

from types import SimpleNamespace

import pytest
from fairseq.trainer import Trainer

from tests.unit.compat.applying import apply_again


@pytest.mark.parametrize("asks", [True, False])
def test_a_model_is_told_the_file_before_it_is_read(monkeypatch, asks):
    model = SimpleNamespace(**({"state_file": None} if asks else {}))
    trainer = SimpleNamespace(get_model=lambda: model)

    def read(trainer, filename, *args, **kwargs):
        return filename, vars(model).copy(), args, kwargs

    monkeypatch.setattr(Trainer, "load_checkpoint", read)
    apply_again("state_files")
    called = Trainer.load_checkpoint(trainer, "model.pt", True, reset_meters=False)
    told = {"state_file": "model.pt"} if asks else {}
    assert called == ("model.pt", told, (True,), {"reset_meters": False})
