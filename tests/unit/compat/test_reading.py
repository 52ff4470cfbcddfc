"""Reading checkpoints: what is refused, what is reported, and that nothing of an untrusted file runs."""

import argparse
import os
import pickle
import tarfile
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils, file_utils, meters
from fairseq.dataclass.configs import CheckpointConfig, DistributedTrainingConfig
from fairseq.trainer import Trainer

from fairseq_plugins.compat import reading


class Attack:
    """Runs a command when it is unpickled in full."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def checkpoint(**more):
    """The least that fairseq reads as a checkpoint."""
    history = [{"optimizer_name": "x", "lr_scheduler_state": {}, "num_updates": 1}]
    extra = {"train_iterator": {"epoch": 1}}
    return {"model": {"weight": torch.ones(3)}, "optimizer_history": history, "extra_state": extra, "cfg": None, **more}


def test_the_check_cannot_be_argued_away(tmp_path):
    """Newer fairseq passes weights_only=False; a pickle module would do the same."""
    file = tmp_path / "model.pt"
    torch.save(checkpoint(more=Attack(os.system, f"touch {tmp_path / 'ran'}")), file)
    for read in (
        lambda: checkpoint_utils.torch.load(file, weights_only=False, pickle_module=pickle),
        lambda: checkpoint_utils.load_ema_from_checkpoint(str(file)),
        lambda: checkpoint_utils.load_checkpoint_to_cpu(str(file)),
    ):
        with pytest.raises(ValueError, match=r"model\.pt: refused.*posix\.system") as caught:
            read()
        assert "weights_only" not in str(caught.value)  # no advice to load it without the check
        assert not (tmp_path / "ran").exists()


def test_what_fairseq_writes_is_read(tmp_path, monkeypatch):
    for meter in (meters.AverageMeter, meters.TimeMeter, meters.StopwatchMeter):
        monkeypatch.setattr(meter, "__module__", "fairseq.meters")  # where they were before 0.10
    numbers = {code: np.ones(2, dtype=code) for code in "?bhilBHILefd"}
    old = {"args": None, "numbers": numbers, "scalar": np.float32(0.5), "namespace": argparse.Namespace(lr=1)}
    old["meters"] = [meters.AverageMeter(), meters.TimeMeter(), meters.StopwatchMeter()]
    for new_format in (True, False):
        torch.save(checkpoint(**old), tmp_path / "old.pt", _use_new_zipfile_serialization=new_format)
        state = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "old.pt"))
        assert state["namespace"].lr == 1
        assert state["scalar"] == np.float32(0.5)
        assert {code: array.dtype.char for code, array in state["numbers"].items()} == {code: code for code in numbers}
        assert [type(meter).__name__ for meter in state["meters"]] == ["AverageMeter", "TimeMeter", "StopwatchMeter"]


def test_a_damaged_file_is_reported_with_the_way_out(tmp_path):
    damaged = tmp_path / "checkpoint_last.pt"
    damaged.write_text("not a checkpoint\n")
    for name, way in (
        ("none", "There is no other checkpoint beside it"),
        ("checkpoint3", "newest first: checkpoint3.pt"),
    ):
        if name != "none":
            torch.save(checkpoint(), tmp_path / f"{name}.pt")
        with pytest.raises(
            ValueError, match=rf"checkpoint_last\.pt: truncated, damaged .*\(17 bytes; .*{way}"
        ) as caught:
            checkpoint_utils.load_checkpoint_to_cpu(str(damaged))
        assert caught.value.__suppress_context__  # torch's own text recommends to load it without the check


def test_a_missing_file_stays_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "none.pt"))


def test_old_torch_is_told(monkeypatch, caplog):
    monkeypatch.setattr(checkpoint_utils, "torch", torch)
    monkeypatch.setattr(torch, "__version__", "2.7.1+cpu")
    assert reading.SAFE_LOADING.needed()
    reading.SAFE_LOADING.apply()
    assert "torch 2.7.1+cpu" in caplog.text
    assert not reading.SAFE_LOADING.needed()


@pytest.mark.parametrize(
    ("raised", "shown"), [(ValueError("other frozen model"), ValueError), (RuntimeError("size mismatch"), Exception)]
)
def test_errors_of_load_state_dict(tmp_path, raised, shown):
    """Only a ValueError is taken out of fairseq's own message."""

    def refuse(*args, **kwargs):
        raise raised

    torch.save(checkpoint(), tmp_path / "model.pt")
    model = SimpleNamespace(set_num_updates=lambda number: None, load_state_dict=refuse)
    cfg = SimpleNamespace(checkpoint=CheckpointConfig(), distributed_training=DistributedTrainingConfig(), model=None)
    trainer = SimpleNamespace(
        cfg=cfg,
        model=model,
        tpu=False,
        is_fsdp=False,
        data_parallel_rank=0,
        data_parallel_world_size=1,
        checkpoint_suffix="",
    )
    with pytest.raises(shown) as caught:
        Trainer.load_checkpoint(trainer, str(tmp_path / "model.pt"))
    assert (caught.value is raised) == (shown is ValueError)
    if caught.value is not raised:
        assert "Cannot load model parameters" in str(caught.value)


def test_an_archive_is_neither_replaced_nor_unpacked_elsewhere(tmp_path):
    """Stock puts the content in the place of the archive; members may name a folder outside of the one they go to."""
    (tmp_path / "model.pt").write_bytes(b"0")
    archive = tmp_path / "model.tar.gz"
    with tarfile.open(archive, "w:gz") as made:
        made.add(tmp_path / "model.pt", "../model.pt")
    with pytest.raises(ValueError, match=r"model\.tar\.gz: is a file"):
        file_utils.load_archive_file(str(archive))
    assert archive.is_file()
    (tmp_path / "model.pt").unlink()
    with tarfile.open(archive) as read, pytest.raises(tarfile.OutsideDestinationError):
        read.extractall(tmp_path / "folder")
    assert not (tmp_path / "model.pt").exists()
