"""Reading checkpoints: what is refused, what is reported, and that nothing of an untrusted file runs."""

import argparse
import os
import pickle
import random
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils, file_utils, meters
from fairseq.dataclass.configs import CheckpointConfig, DistributedTrainingConfig
from fairseq.trainer import Trainer

from fairseq_plugins.compat import reading


class Attack:
    """Runs a command when it is unpickled in full."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


class Custom:
    """Any class of someone's own code."""


def checkpoint(**more: Any) -> dict:
    """The least that fairseq reads as a checkpoint."""
    history = [{"optimizer_name": "x", "lr_scheduler_state": {}, "num_updates": 1}]
    extra = {"train_iterator": {"epoch": 1}}
    return {"model": {"weight": torch.ones(3)}, "optimizer_history": history, "extra_state": extra, "cfg": None, **more}


@pytest.mark.parametrize("new_format", [True, False])
@pytest.mark.parametrize(
    ("thing", "name"),
    [
        (lambda marker: Attack(os.system, f"touch {marker}"), "posix.system"),
        (lambda marker: Attack(eval, f"open({str(marker)!r}, 'w')"), "builtins.eval"),
        (lambda marker: Custom(), "Custom"),
        (lambda marker: Path("x"), "pathlib"),
    ],
)
def test_other_objects_are_refused_by_name(tmp_path: Path, thing: Any, name: str, new_format: bool) -> None:
    file, marker = tmp_path / "model.pt", tmp_path / "ran"
    torch.save(checkpoint(more=thing(marker)), file, _use_new_zipfile_serialization=new_format)
    with pytest.raises(ValueError, match="refused") as caught:
        checkpoint_utils.load_checkpoint_to_cpu(str(file))
    assert str(file) in str(caught.value)
    assert name in str(caught.value)
    assert "weights_only" not in str(caught.value)  # no advice to load it without the check
    assert not marker.exists()


def test_the_check_cannot_be_argued_away(tmp_path: Path) -> None:
    """Newer fairseq passes weights_only=False; a pickle module would do the same."""
    file = tmp_path / "model.pt"
    torch.save(checkpoint(more=Attack(os.system, f"touch {tmp_path / 'ran'}")), file)
    with pytest.raises(ValueError, match="posix.system"):
        checkpoint_utils.torch.load(file, weights_only=False, pickle_module=pickle)
    assert not (tmp_path / "ran").exists()


def test_averages_of_moving_models_are_read_safely(tmp_path: Path) -> None:
    file = tmp_path / "model.pt"
    torch.save(checkpoint(more=Attack(os.system, f"touch {tmp_path / 'ran'}")), file)
    with pytest.raises(ValueError, match="posix.system"):
        checkpoint_utils.load_ema_from_checkpoint(str(file))
    assert not (tmp_path / "ran").exists()


def test_what_fairseq_writes_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("new_format", [True, False])
def test_truncated_files_are_reported_with_the_way_out(tmp_path: Path, new_format: bool) -> None:
    whole, earlier = tmp_path / "checkpoint_last.pt", tmp_path / "checkpoint3.pt"
    torch.save(checkpoint(more=torch.rand(5000)), earlier)
    torch.save(checkpoint(more=torch.rand(5000)), whole, _use_new_zipfile_serialization=new_format)
    content = whole.read_bytes()
    rng = random.Random(1)
    for length in [0, 1, 3, len(content) - 1, *(rng.randrange(len(content)) for _ in range(12))]:
        whole.write_bytes(content[:length])
        with pytest.raises(ValueError, match="truncated, damaged or no checkpoint") as caught:
            checkpoint_utils.load_checkpoint_to_cpu(str(whole))
        report = str(caught.value)
        assert f"checkpoint {whole} ({length:,} bytes) cannot be read" in report
        assert "newest first: checkpoint3.pt" in report
        assert "copy it over this file" in report


def test_a_text_file_alone_in_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "model.pt"
    file.write_text("not a checkpoint\n")
    with pytest.raises(ValueError, match="There is no other checkpoint beside it"):
        checkpoint_utils.load_checkpoint_to_cpu(str(file))


def test_a_missing_file_stays_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "none.pt"))


def test_old_torch_is_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(checkpoint_utils, "torch", torch)
    monkeypatch.setattr(torch, "__version__", "2.7.1+cpu")
    assert reading.SAFE_LOADING.needed()
    reading.SAFE_LOADING.apply()
    assert "torch 2.7.1+cpu" in caplog.text
    assert not reading.SAFE_LOADING.needed()


@pytest.mark.parametrize(
    ("raised", "shown"),
    [(ValueError("other frozen model"), ValueError), (RuntimeError("size mismatch"), Exception)],
)
def test_errors_of_load_state_dict(tmp_path: Path, raised: Exception, shown: type) -> None:
    """Only a ValueError is taken out of fairseq's own message."""

    def refuse(*args: Any, **kwargs: Any) -> None:
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


def test_an_archive_is_neither_replaced_nor_unpacked_elsewhere(tmp_path: Path) -> None:
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
