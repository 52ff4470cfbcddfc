"""read_checkpoint: what is accepted, what is refused, and that nothing is ever executed."""

import argparse
import contextlib
import pickle
import random
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from fairseq.logging import meters

from fairseq_plugins.checkpoints import CheckpointError, read_checkpoint
from fairseq_plugins.checkpoints.reading import allowed_globals
from fairseq_plugins.compat import reading as stock_reading

from .hostile import HOSTILE

pytestmark = pytest.mark.filterwarnings("ignore:Detected pickle protocol")


class Intruder:
    """Pickles as a call that would create a file."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return Path.touch, (self.trace,)


class Evaluator:
    """Pickles as a call of ``eval``."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return eval, (f"open({str(self.trace)!r}, 'w').close()",)


def test_options_numpy_and_meters_are_read(tmp_path):
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
def test_names_of_numpy_1_and_2_are_read(tmp_path, module):
    torch.save({"score": np.float64(0.5)}, tmp_path / "model.pt", _use_new_zipfile_serialization=False)
    content = (tmp_path / "model.pt").read_bytes()
    assert content.count(b"numpy._core.multiarray") == 1
    (tmp_path / "model.pt").write_bytes(content.replace(b"numpy._core.multiarray", module.encode()))
    assert read_checkpoint(tmp_path / "model.pt")["score"] == 0.5


def test_old_name_of_meters_is_read(tmp_path):
    torch.save({"meter": meters.AverageMeter()}, tmp_path / "model.pt", _use_new_zipfile_serialization=False)
    content = (tmp_path / "model.pt").read_bytes()
    assert b"cfairseq.logging.meters\n" in content
    (tmp_path / "model.pt").write_bytes(content.replace(b"cfairseq.logging.meters\n", b"cfairseq.meters\n"))
    assert isinstance(read_checkpoint(tmp_path / "model.pt")["meter"], meters.AverageMeter)


@pytest.mark.parametrize("intruder", [Intruder, Evaluator])
@pytest.mark.parametrize("zipped", [True, False])
def test_untrusted_object_is_refused_named_and_not_executed(tmp_path, intruder, zipped):
    trace, file = tmp_path / "trace", tmp_path / "model.pt"
    torch.save({"model": {}, "extra": intruder(trace)}, file, _use_new_zipfile_serialization=zipped)
    name = "pathlib|getattr" if intruder is Intruder else "eval"
    with pytest.raises(CheckpointError, match=rf"model\.pt: refused.*pickled object .*({name})"):
        read_checkpoint(file)
    assert not trace.exists()
    torch.load(file, weights_only=False)  # the bait works: full unpickling does execute it
    assert trace.exists()


@pytest.mark.parametrize("protocol", [2, 4])
def test_plain_pickle_is_refused_and_not_executed(tmp_path, protocol):
    trace, file = tmp_path / "trace", tmp_path / "model.pt"
    file.write_bytes(pickle.dumps({"model": Evaluator(trace)}, protocol=protocol))
    with pytest.raises(CheckpointError, match=r"model\.pt: refused.*eval"):
        read_checkpoint(file)
    assert not trace.exists()


def test_unsafe_module_object_is_refused(tmp_path):
    torch.save(torch.nn.Linear(2, 2), tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match=r"refused.*torch\.nn\.modules\.linear\.Linear"):
        read_checkpoint(tmp_path / "model.pt")


def test_the_allow_list_of_the_process_is_left_as_it_was(tmp_path):
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


def test_missing_empty_folder_and_no_dictionary(tmp_path):
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
def test_truncated_and_damaged_files(tmp_path, zipped):
    file = tmp_path / "model.pt"
    saved = {"args": argparse.Namespace(a=1), "model": {"w": torch.randn(40)}}
    torch.save(saved, file, _use_new_zipfile_serialization=zipped)
    content = file.read_bytes()
    for length in [1, 20, len(content) // 3, len(content) // 2, len(content) - 70, len(content) - 1]:
        file.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=rf"model\.pt: truncated, damaged .*\({length:,} bytes"):
            read_checkpoint(file)
    draw = random.Random(1)
    for _ in range(60):  # any byte may be wrong: a clear error or a dictionary, no other exception
        damaged = bytearray(content)
        for _ in range(3):
            damaged[draw.randrange(len(content))] = draw.randrange(256)
        file.write_bytes(bytes(damaged))
        with contextlib.suppress(CheckpointError):
            assert isinstance(read_checkpoint(file), dict)


def test_truncated_safetensors(tmp_path):
    file = tmp_path / "model.safetensors"
    safetensors.torch.save_file({"w": torch.randn(40)}, file)
    content = file.read_bytes()
    assert torch.is_tensor(read_checkpoint(file)["w"])
    huge = b'{"w":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,160]}}'
    deep = b'{"w":' * 10_000 + b"1" + b"}" * 10_000
    hostile = [len(header).to_bytes(8, "little") + header + bytes(160) for header in (huge, deep)]
    for damaged in [content[:3], content[:30], content[:-1], *hostile]:
        file.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"model\.safetensors: truncated, damaged"):
            read_checkpoint(file)


def test_the_allow_list_entry_by_entry():
    """Whoever adds a name here has looked at what it does with hostile arguments and a hostile state."""
    expected = {
        "argparse.Namespace",
        *(f"numpy.{core}.multiarray.{name}" for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
        "numpy.ndarray",
        "numpy.dtype",
        *(
            f"fairseq.{place}.{name}Meter"
            for place in ("meters", "logging.meters")
            for name in ("Average", "Sum", "Time", "Stopwatch")
        ),
    }
    listed = allowed_globals()
    numbers = {type(np.dtype(code)) for code in "?bhilqBHILQefdgFD"}
    others = [(thing, name) for thing, name in listed if thing not in numbers]
    assert {thing for thing, name in listed} >= numbers
    assert {name for _, name in others} == expected
    for thing, name in others:  # no name leads to another thing than it says
        assert thing.__name__ == name.rsplit(".", 1)[-1]


@pytest.mark.parametrize("read", [read_checkpoint, stock_reading.load])
@pytest.mark.parametrize("kind", HOSTILE)
def test_more_than_a_file_can_hold_is_refused_by_name(tmp_path, kind, read):
    write, says = HOSTILE[kind]
    write(tmp_path / "model.pt")
    with pytest.raises(ValueError, match=rf"model\.pt.*{says}"):
        read(tmp_path / "model.pt")


@pytest.mark.parametrize("zipped", [True, False])
def test_what_training_stores_is_within_bounds(tmp_path, zipped):
    """Views, ties, scalars, empty and expanded tensors, optimizers' states; numpy numbers in either byte order."""
    weight = torch.arange(12.0).reshape(3, 4)
    saved = {
        "model": {
            "w": weight,
            "tied": weight,
            "view": weight[1:, ::2],
            "one": torch.tensor(1.0),
            "none": torch.empty(0, 5),
        },
        "half": [weight.to(dtype) for dtype in (torch.float16, torch.bfloat16, torch.int64, torch.bool)],
        "new": torch.ones(3).to(torch.uint16) if zipped else None,  # the old format cannot hold it
        "parameter": torch.nn.Parameter(weight),
        "expanded": torch.ones(1, 1).expand(500, 500),
        "shape": torch.Size([2**20, 2**20]),
        "numbers": {2**31, 2**32, 2**33},
        "numpy": [np.ones(3).astype(code) for code in (">i4", "<f8", "f2", "c16")],
    }
    torch.save(saved, tmp_path / "model.pt", _use_new_zipfile_serialization=zipped)
    found = read_checkpoint(tmp_path / "model.pt")
    assert torch.equal(found["model"]["view"], weight[1:, ::2])
    assert [one.tolist() for one in found["numpy"]] == [[1, 1, 1]] * 4
    assert found["expanded"].shape == (500, 500)
    assert found["shape"] == saved["shape"]


@pytest.mark.parametrize("read", [read_checkpoint, stock_reading.load])
def test_every_flipped_bit_of_a_tensor_is_found(tmp_path, read):
    file, draw = tmp_path / "model.pt", random.Random(3)
    torch.save({"model": {"w": torch.arange(300.0), "v": torch.ones(70)}}, file)
    content = file.read_bytes()
    begin = content.index(torch.arange(300.0).numpy().tobytes())
    for _ in range(20):
        damaged = bytearray(content)
        damaged[begin + draw.randrange(1200)] ^= 1 << draw.randrange(8)
        file.write_bytes(bytes(damaged))
        with pytest.raises(ValueError, match=r"model\.pt.*checksum of record model/data/0 is wrong"):
            read(file)


def test_files_without_checksums_are_read_and_told(tmp_path, caplog):
    torch.save({"model": {}, "w": torch.ones(3)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    before = torch.serialization.get_crc32_options()
    try:
        torch.serialization.set_crc32_options(False)
        torch.save({"model": {}, "w": torch.ones(3)}, tmp_path / "without.pt")
    finally:
        torch.serialization.set_crc32_options(before)
    for name in ("old.pt", "without.pt"):
        caplog.clear()
        with caplog.at_level("INFO"):
            assert torch.equal(read_checkpoint(tmp_path / name)["w"], torch.ones(3))
        assert f"{name}: " in caplog.text
        assert "checksums" in caplog.text
