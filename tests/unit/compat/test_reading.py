"""Test reading checkpoints as fairseq does: no code of a file runs, and errors name the file."""

import os
import pickle
import tarfile
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils, file_utils
from fairseq.trainer import Trainer

import fairseq_plugins  # noqa: F401  patches the stock functions
from tests.unit.checkpoints.hostile import Call, good
from tests.unit.compat.applying import apply_again


def test_no_argument_switches_the_check_off(tmp_path):
    """Newer fairseq passes weights_only=False; a pickle module would do the same."""
    file = tmp_path / "model.pt"
    torch.save(good(more=Call(os.system, f"touch {tmp_path / 'ran'}")), file)
    for load in (
        lambda: checkpoint_utils.torch.load(file, weights_only=False, pickle_module=pickle),
        lambda: checkpoint_utils.load_ema_from_checkpoint(str(file)),
        lambda: checkpoint_utils.load_checkpoint_to_cpu(str(file)),
    ):
        with pytest.raises(ValueError, match=r"model\.pt: refused.*posix\.system") as error:
            load()
        assert "weights_only" not in str(error.value)  # no advice to load it without the check
        assert not (tmp_path / "ran").exists()


def test_a_damaged_file_is_named(tmp_path):
    damaged = tmp_path / "checkpoint_last.pt"
    with pytest.raises(FileNotFoundError):
        checkpoint_utils.load_checkpoint_to_cpu(str(damaged))
    damaged.write_text("not a checkpoint\n")
    with pytest.raises(ValueError, match=r"checkpoint_last\.pt: truncated.*\(17 byt") as error:
        checkpoint_utils.load_checkpoint_to_cpu(str(damaged))
    assert error.value.__suppress_context__  # torch's text recommends to load without the check


def test_an_archive_is_neither_replaced_nor_unpacked_elsewhere(tmp_path):
    """Stock replaces an archive by its content, whose paths may leave the folder."""
    model, archive = tmp_path / "model.pt", tmp_path / "model.tar.gz"
    model.write_bytes(b"0")
    with tarfile.open(archive, "w:gz") as target:
        target.add(model, "../model.pt")
    with pytest.raises(ValueError, match=r"model\.tar\.gz: is a file"):
        file_utils.load_archive_file(str(archive))
    assert file_utils.load_archive_file(str(tmp_path)) == str(tmp_path)
    assert archive.is_file()
    model.unlink()
    outside = getattr(tarfile, "OutsideDestinationError", ValueError)  # old Pythons unpack nothing
    with tarfile.open(archive) as source, pytest.raises(outside):
        source.extractall(tmp_path / "folder")
    assert not model.exists()


@pytest.mark.cases("attributes", {"state_file": None}, {})
def test_a_model_with_a_state_file_learns_its_path_before_it_is_read(monkeypatch, attributes):
    model = SimpleNamespace(**attributes)
    trainer = SimpleNamespace(get_model=lambda: model)

    def load(trainer, filename, *args, **kwargs):
        return filename, vars(model).copy(), args, kwargs

    monkeypatch.setattr(Trainer, "load_checkpoint", load)
    apply_again("state_files")
    call = Trainer.load_checkpoint(trainer, "model.pt", True, reset_meters=False)
    expected = dict.fromkeys(attributes, "model.pt")
    assert call == ("model.pt", expected, (True,), {"reset_meters": False})
