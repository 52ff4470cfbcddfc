"""Reading checkpoints as fairseq does: nothing of an untrusted file runs, and errors say what to do."""

import os
import pickle
import tarfile
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils, file_utils, utils
from fairseq.trainer import Trainer

import fairseq_plugins  # noqa: F401  patches the stock functions
from tests.unit.checkpoints.hostile import Call, good
from tests.unit.compat.applying import apply_again


def test_the_check_cannot_be_argued_away(tmp_path):
    """Newer fairseq passes weights_only=False; a pickle module would do the same."""
    file = tmp_path / "model.pt"
    torch.save(good(more=Call(os.system, f"touch {tmp_path / 'ran'}")), file)
    for read in (
        lambda: checkpoint_utils.torch.load(file, weights_only=False, pickle_module=pickle),
        lambda: checkpoint_utils.load_ema_from_checkpoint(str(file)),
        lambda: checkpoint_utils.load_checkpoint_to_cpu(str(file)),
    ):
        with pytest.raises(ValueError, match=r"model\.pt: refused.*posix\.system") as caught:
            read()
        assert "weights_only" not in str(caught.value)  # no advice to load it without the check
        assert not (tmp_path / "ran").exists()


def test_a_damaged_file_is_named(tmp_path):
    damaged = tmp_path / "checkpoint_last.pt"
    with pytest.raises(FileNotFoundError):
        checkpoint_utils.load_checkpoint_to_cpu(str(damaged))
    damaged.write_text("not a checkpoint\n")
    with pytest.raises(ValueError, match=r"checkpoint_last\.pt: truncated.*\(17 bytes") as caught:
        checkpoint_utils.load_checkpoint_to_cpu(str(damaged))
    assert caught.value.__suppress_context__  # torch's own text recommends to load it without the check


def test_an_option_is_a_literal_and_no_code(tmp_path):
    assert utils.eval_str_list("[1, 2]") == [1.0, 2.0]
    with pytest.raises(ValueError, match="literal|malformed"):
        utils.eval_str_list(f"[__import__('os').mkdir('{tmp_path}/ran')]")
    assert not (tmp_path / "ran").exists()


def test_an_archive_is_neither_replaced_nor_unpacked_elsewhere(tmp_path):
    """Stock puts the content in the place of the archive; members may name a folder outside of the one they go to."""
    (tmp_path / "model.pt").write_bytes(b"0")
    archive = tmp_path / "model.tar.gz"
    with tarfile.open(archive, "w:gz") as made:
        made.add(tmp_path / "model.pt", "../model.pt")
    with pytest.raises(ValueError, match=r"model\.tar\.gz: is a file"):
        file_utils.load_archive_file(str(archive))
    assert file_utils.load_archive_file(str(tmp_path)) == str(tmp_path)
    assert archive.is_file()
    (tmp_path / "model.pt").unlink()
    outside = getattr(tarfile, "OutsideDestinationError", ValueError)  # a Python without filters unpacks none
    with tarfile.open(archive) as read, pytest.raises(outside):
        read.extractall(tmp_path / "folder")
    assert not (tmp_path / "model.pt").exists()


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
