"""read_checkpoint: what is accepted, what is refused, and that nothing is ever executed."""

import argparse
import contextlib
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from fairseq.logging import meters

from fairseq_plugins.checkpoints import CheckpointError, read_checkpoint

pytestmark = pytest.mark.filterwarnings("ignore:Detected pickle protocol")


class Intruder:
    """Pickles as a call that would create a file."""

    def __init__(self, trace: Path):
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


class Evaluator:
    """Pickles as a call of ``eval``."""

    def __init__(self, trace: Path):
        self.trace = trace

    def __reduce__(self) -> Any:
        return eval, (f"open({str(self.trace)!r}, 'w').close()",)


def test_options_numpy_and_meters_are_read(tmp_path: Path) -> None:
    meter = meters.AverageMeter()
    meter.update(3.0)
    saved = {
        "args": argparse.Namespace(arch="xlmr_base"),
        "counts": np.array([1, 2, 3]),
        "score": np.float64(0.5),
        "meters": {"loss": meter},
        "model": {"weight": torch.ones(2)},
    }
    torch.save(saved, tmp_path / "model.pt")
    found = read_checkpoint(tmp_path / "model.pt")
    assert found["args"].arch == "xlmr_base"
    assert found["counts"].tolist() == [1, 2, 3]
    assert found["score"] == 0.5
    assert found["meters"]["loss"].avg == 3.0
    assert torch.equal(found["model"]["weight"], torch.ones(2))


@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_names_of_numpy_1_and_2_are_read(tmp_path: Path, module: str) -> None:
    torch.save({"score": np.float64(0.5)}, tmp_path / "model.pt", _use_new_zipfile_serialization=False)
    content = (tmp_path / "model.pt").read_bytes()
    assert content.count(b"numpy._core.multiarray") == 1
    (tmp_path / "model.pt").write_bytes(content.replace(b"numpy._core.multiarray", module.encode()))
    assert read_checkpoint(tmp_path / "model.pt")["score"] == 0.5


def test_old_name_of_meters_is_read(tmp_path: Path) -> None:
    torch.save({"meter": meters.AverageMeter()}, tmp_path / "model.pt", _use_new_zipfile_serialization=False)
    content = (tmp_path / "model.pt").read_bytes()
    assert b"cfairseq.logging.meters\n" in content
    (tmp_path / "model.pt").write_bytes(content.replace(b"cfairseq.logging.meters\n", b"cfairseq.meters\n"))
    assert isinstance(read_checkpoint(tmp_path / "model.pt")["meter"], meters.AverageMeter)


@pytest.mark.parametrize("intruder", [Intruder, Evaluator])
@pytest.mark.parametrize("zipped", [True, False])
def test_untrusted_object_is_refused_named_and_not_executed(tmp_path: Path, intruder: Any, zipped: bool) -> None:
    trace, file = tmp_path / "trace", tmp_path / "model.pt"
    torch.save({"model": {}, "extra": intruder(trace)}, file, _use_new_zipfile_serialization=zipped)
    name = "pathlib|getattr" if intruder is Intruder else "eval"
    with pytest.raises(CheckpointError, match=rf"model\.pt: refused.*pickled object .*({name})"):
        read_checkpoint(file)
    assert not trace.exists()
    torch.load(file, weights_only=False)  # the bait works: full unpickling does execute it
    assert trace.exists()


@pytest.mark.parametrize("protocol", [2, 4])
def test_plain_pickle_is_refused_and_not_executed(tmp_path: Path, protocol: int) -> None:
    trace, file = tmp_path / "trace", tmp_path / "model.pt"
    file.write_bytes(pickle.dumps({"model": Evaluator(trace)}, protocol=protocol))
    with pytest.raises(CheckpointError, match=r"model\.pt: refused.*eval"):
        read_checkpoint(file)
    assert not trace.exists()


def test_unsafe_module_object_is_refused(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match=r"refused.*torch\.nn\.modules\.linear\.Linear"):
        read_checkpoint(tmp_path / "model.pt")


def test_the_allow_list_of_the_process_is_left_as_it_was(tmp_path: Path) -> None:
    torch.save({"args": argparse.Namespace()}, tmp_path / "model.pt")
    allowed = set(torch.serialization.get_safe_globals())
    mine = [(argparse.Namespace, "argparse.Namespace")]
    try:
        torch.serialization.clear_safe_globals()
        read_checkpoint(tmp_path / "model.pt")
        assert torch.serialization.get_safe_globals() == []
        torch.serialization.add_safe_globals(mine)  # what somebody else allowed stays allowed
        read_checkpoint(tmp_path / "model.pt")
        assert torch.serialization.get_safe_globals() == mine
    finally:
        torch.serialization.add_safe_globals(list(allowed))


def test_missing_empty_folder_and_no_dictionary(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"absent\.pt: no such file"):
        read_checkpoint(tmp_path / "absent.pt")
    (tmp_path / "empty.pt").touch()
    with pytest.raises(CheckpointError, match=r"empty\.pt: is empty"):
        read_checkpoint(tmp_path / "empty.pt")
    with pytest.raises(CheckpointError, match="is a folder, expected a file"):
        read_checkpoint(tmp_path)
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(CheckpointError, match=r"list\.pt: expected a dictionary, found list"):
        read_checkpoint(tmp_path / "list.pt")
    (tmp_path / "pointer.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(CheckpointError, match=r"pointer\.safetensors: is a git-lfs pointer"):
        read_checkpoint(tmp_path / "pointer.safetensors")
    (tmp_path / "text.pt").write_text("hello")
    with pytest.raises(CheckpointError, match=r"text\.pt: truncated, damaged or no checkpoint"):
        read_checkpoint(tmp_path / "text.pt")


@pytest.mark.parametrize("zipped", [True, False])
def test_truncated_and_damaged_files(tmp_path: Path, zipped: bool) -> None:
    file = tmp_path / "model.pt"
    saved = {"args": argparse.Namespace(a=1), "model": {"w": torch.randn(40)}}
    torch.save(saved, file, _use_new_zipfile_serialization=zipped)
    content = file.read_bytes()
    for length in [1, 20, len(content) // 3, len(content) // 2, len(content) - 70, len(content) - 1]:
        file.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=rf"model\.pt: truncated, damaged .*\({length} bytes"):
            read_checkpoint(file)
    draw = random.Random(1)
    for _ in range(60):  # any byte may be wrong: a clear error or a dictionary, no other exception
        damaged = bytearray(content)
        for _ in range(3):
            damaged[draw.randrange(len(content))] = draw.randrange(256)
        file.write_bytes(bytes(damaged))
        with contextlib.suppress(CheckpointError):
            assert isinstance(read_checkpoint(file), dict)


def test_truncated_safetensors(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    safetensors.torch.save_file({"w": torch.randn(40)}, file)
    content = file.read_bytes()
    assert torch.is_tensor(read_checkpoint(file)["w"])
    for length in [3, 30, len(content) - 1]:
        file.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=r"model\.safetensors: truncated, damaged"):
            read_checkpoint(file)
