"""Test reading files: untrusted objects run nothing, damage and excess are refused by name."""

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
from tests.unit.checkpoints.hostile import HOSTILE, Call

pytestmark = pytest.mark.filterwarnings("ignore:Detected pickle protocol")
NUMPY = b"numpy._core.multiarray"
READERS = [read_checkpoint, stock_reading.load]


@pytest.mark.cases(
    "value module old_module",
    (np.float64(0.5), NUMPY, b"numpy.core.multiarray"),
    (np.float64(0.5), NUMPY, NUMPY),
    (meters.AverageMeter(), b"cfairseq.logging.meters\n", b"cfairseq.meters\n"),
)
def test_old_and_new_names_of_modules_are_read(tmp_path, value, module, old_module):
    file = tmp_path / "model.pt"
    torch.save({"value": value}, file, _use_new_zipfile_serialization=False)
    assert file.read_bytes().count(module) == 1
    file.write_bytes(file.read_bytes().replace(module, old_module))
    actual = read_checkpoint(file)["value"]
    assert type(actual) is type(value)
    assert module != NUMPY or actual == 0.5


@pytest.mark.cases(
    "call form",
    ("touch", "zip"),
    ("eval", "legacy"),
    ("eval", "pickle 2"),
    ("touch", "pickle 4"),
)
def test_an_untrusted_object_is_refused_and_not_executed(tmp_path, call, form):
    """An object pickles as a call that would create a file."""
    trace, file = tmp_path / "trace", tmp_path / "model.pt"
    bait, name = Call(eval, f"open({str(trace)!r}, 'w').close()"), "eval"
    if call == "touch":
        bait, name = Call(Path.touch, trace), "pathlib|getattr"
    state = {"model": {}, "extra": bait}
    if form.startswith("pickle"):
        file.write_bytes(pickle.dumps(state, protocol=int(form[-1])))
    else:
        torch.save(state, file, _use_new_zipfile_serialization=form == "zip")
    with pytest.raises(CheckpointError, match=rf"model\.pt: refused.*({name})"):
        read_checkpoint(file)
    assert not trace.exists()
    if form == "zip":
        torch.load(file, weights_only=False)  # unrestricted unpickling does run it
        assert trace.exists()


def test_the_allow_list_of_torch_is_left_unchanged(tmp_path):
    torch.save({"args": argparse.Namespace()}, tmp_path / "model.pt")
    before = list(torch.serialization.get_safe_globals())
    allowed = [(argparse.Namespace, "argparse.Namespace")]
    try:
        torch.serialization.clear_safe_globals()
        read_checkpoint(tmp_path / "model.pt")
        assert torch.serialization.get_safe_globals() == []
        torch.serialization.add_safe_globals(allowed)
        read_checkpoint(tmp_path / "model.pt")
        assert torch.serialization.get_safe_globals() == allowed
    finally:
        torch.serialization.add_safe_globals(before)


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"


@pytest.mark.cases(
    "name content message",
    ("absent.pt", None, r"absent\.pt: no such file"),
    ("", None, "is a folder"),
    ("empty.pt", b"", r"empty\.pt: is empty"),
    ("list.pt", [1, 2], r"list\.pt: .*found list"),
    ("linear.pt", torch.nn.Linear(2, 2), r"refused.*torch\.nn\.modules\.linear\.Linear"),
    ("lfs.pt", POINTER, r"lfs\.pt: is a git-lfs pointer"),
    ("text.pt", b"hello", r"text\.pt: truncated, damaged or no checkpoint"),
)
def test_other_files_are_refused(tmp_path, name, content, message):
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    elif content is not None:
        torch.save(content, tmp_path / name)
    with pytest.raises(CheckpointError, match=message):
        read_checkpoint(tmp_path / name)


@pytest.mark.parametrize("zipped", [True, False])
def test_truncated_and_damaged_files_are_refused(tmp_path, zipped):
    """With random bytes changed, a file may be read or refused; nothing else is raised."""
    file = tmp_path / "model.pt"
    state = {"args": argparse.Namespace(a=1), "model": {"w": torch.randn(40)}}
    torch.save(state, file, _use_new_zipfile_serialization=zipped)
    content = file.read_bytes()
    size = len(content)
    for length in [1, 20, size // 3, size // 2, size - 70, size - 1]:
        file.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=rf"model\.pt: truncated.*\({length:,} bytes"):
            read_checkpoint(file)
    draw = random.Random(1)
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(3):
            damaged[draw.randrange(size)] = draw.randrange(256)
        file.write_bytes(bytes(damaged))
        with contextlib.suppress(CheckpointError):
            assert isinstance(read_checkpoint(file), dict)


def test_truncated_and_hostile_safetensors_are_refused(tmp_path):
    file = tmp_path / "model.safetensors"
    safetensors.torch.save_file({"w": torch.randn(40)}, file)
    content = file.read_bytes()
    assert torch.is_tensor(read_checkpoint(file)["w"])
    huge = b'{"w":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,160]}}'
    deep = b'{"w":' * 10_000 + b"1" + b"}" * 10_000
    hostile = [len(head).to_bytes(8, "little") + head + bytes(160) for head in (huge, deep)]
    for damaged in [content[:3], content[:30], content[:-1], *hostile]:
        file.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"model\.safetensors: truncated, damaged"):
            read_checkpoint(file)


def test_the_allow_list_has_no_other_entries():
    """Before you add a name, check what it does with hostile arguments and a hostile state."""
    expected = {"argparse.Namespace", "numpy.ndarray", "numpy.dtype"}
    for core in ("core", "_core"):
        expected |= {f"numpy.{core}.multiarray.{name}" for name in ("_reconstruct", "scalar")}
    for place in ("meters", "logging.meters"):
        kinds = ("Average", "Sum", "Time", "Stopwatch")
        expected |= {f"fairseq.{place}.{kind}Meter" for kind in kinds}
    dtypes = {type(np.dtype(code)) for code in "?bhilqBHILQefdgFD"}
    listed = allowed_globals()
    assert {entry for entry, _ in listed} >= dtypes
    names = {name: entry for entry, name in listed if entry not in dtypes}
    assert set(names) == expected
    for name, entry in names.items():
        assert entry.__name__ == name.rsplit(".", 1)[-1]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_are_refused(tmp_path, kind, reader):
    write, message = HOSTILE[kind]
    write(tmp_path / "model.pt")
    with pytest.raises(ValueError, match=rf"model\.pt.*{message}"):
        reader(tmp_path / "model.pt")


@pytest.mark.parametrize("zipped", [True, False])
def test_the_content_of_training_checkpoints_is_read(tmp_path, zipped):
    """Read views, expanded and empty tensors, numpy numbers of both byte orders, meters."""
    weight, meter = torch.arange(12.0).reshape(3, 4), meters.AverageMeter()
    meter.update(3.0)
    model = {"w": weight, "tied": weight, "view": weight[1:, ::2], "scalar": torch.tensor(1.0)}
    dtypes = (torch.float16, torch.bfloat16, torch.int64, torch.bool)
    if zipped:  # the old format has no such type
        dtypes += (torch.uint16,)
    state = {
        "model": {**model, "empty": torch.empty(0, 5)},
        "dtypes": [weight.to(dtype) for dtype in dtypes],
        "parameter": torch.nn.Parameter(weight),
        "expanded": torch.ones(1, 1).expand(500, 500),
        "shape": torch.Size([2**20, 2**20]),
        "numbers": {2**31, 2**32, 2**33},
        "numpy": [np.ones(3).astype(code) for code in (">i4", "<f8", "f2", "c16")],
        "args": argparse.Namespace(arch="xlmr_base"),
        "score": np.float64(0.5),
        "meters": {"loss": meter},
    }
    torch.save(state, tmp_path / "model.pt", _use_new_zipfile_serialization=zipped)
    actual = read_checkpoint(tmp_path / "model.pt")
    assert torch.equal(actual["model"]["view"], weight[1:, ::2])
    assert [array.tolist() for array in actual["numpy"]] == [[1, 1, 1]] * 4
    assert actual["expanded"].shape == (500, 500)
    assert all(actual[name] == state[name] for name in ("shape", "numbers", "args", "score"))
    assert actual["meters"]["loss"].avg == 3.0


@pytest.mark.parametrize("reader", READERS)
def test_every_flipped_bit_of_a_tensor_is_detected(tmp_path, reader):
    file, draw = tmp_path / "model.pt", random.Random(3)
    values = torch.arange(300.0)
    torch.save({"model": {"w": values, "v": torch.ones(70)}}, file)
    content = file.read_bytes()
    begin = content.index(values.numpy().tobytes())
    for _ in range(20):
        damaged = bytearray(content)
        damaged[begin + draw.randrange(1200)] ^= 1 << draw.randrange(8)
        file.write_bytes(bytes(damaged))
        with pytest.raises(ValueError, match=r"model\.pt.*checksum of record model/data/0"):
            reader(file)
