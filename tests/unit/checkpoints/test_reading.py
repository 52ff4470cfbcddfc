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

from .hostile import HOSTILE, Call

pytestmark = pytest.mark.filterwarnings("ignore:Detected pickle protocol")


def baits(trace):
    """What pickles as a call that would create a file, and what a refusal calls it."""
    return (Call(Path.touch, trace), "pathlib|getattr"), (Call(eval, f"open({str(trace)!r}, 'w').close()"), "eval")


@pytest.mark.parametrize(
    ("value", "written", "other"),
    [
        (np.float64(0.5), b"numpy._core.multiarray", b"numpy.core.multiarray"),
        (np.float64(0.5), b"numpy._core.multiarray", b"numpy._core.multiarray"),
        (meters.AverageMeter(), b"cfairseq.logging.meters\n", b"cfairseq.meters\n"),
    ],
)
def test_names_of_old_and_new_modules_are_read(tmp_path, value, written, other):
    torch.save({"value": value}, tmp_path / "model.pt", _use_new_zipfile_serialization=False)
    content = (tmp_path / "model.pt").read_bytes()
    assert content.count(written) == 1
    (tmp_path / "model.pt").write_bytes(content.replace(written, other))
    actual = read_checkpoint(tmp_path / "model.pt")["value"]
    assert type(actual) is type(value) and (actual == 0.5 or written.startswith(b"cfairseq"))


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("write", ["zip", "legacy", "pickle 2", "pickle 4"])
def test_untrusted_object_is_refused_named_and_not_executed(tmp_path, number, write):
    trace, file = tmp_path / "trace", tmp_path / "model.pt"
    bait, name = baits(trace)[number]
    state = {"model": {}, "extra": bait}
    if write.startswith("pickle"):
        file.write_bytes(pickle.dumps(state, protocol=int(write[-1])))
    else:
        torch.save(state, file, _use_new_zipfile_serialization=write == "zip")
    with pytest.raises(CheckpointError, match=rf"model\.pt: refused.*pickled object .*({name})"):
        read_checkpoint(file)
    assert not trace.exists()
    if write == "zip":
        torch.load(file, weights_only=False)  # the bait works: full unpickling does execute it
        assert trace.exists()


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


NO_CHECKPOINTS = [
    ("absent.pt", None, r"absent\.pt: no such file"),
    ("empty.pt", b"", r"empty\.pt: is empty"),
    ("", None, "is a folder, expected a file"),
    ("list.pt", [1, 2], r"list\.pt: expected a dictionary, found list"),
    ("linear.pt", torch.nn.Linear(2, 2), r"refused.*torch\.nn\.modules\.linear\.Linear"),
    ("lfs.pt", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", r"lfs\.pt: is a git-lfs pointer"),
    ("text.pt", b"hello", r"text\.pt: truncated, damaged or no checkpoint"),
]


@pytest.mark.parametrize(("name", "content", "message"), NO_CHECKPOINTS)
def test_what_is_no_checkpoint(tmp_path, name, content, message):
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    elif content is not None:
        torch.save(content, tmp_path / name)
    with pytest.raises(CheckpointError, match=message):
        read_checkpoint(tmp_path / name)


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
    expected = {"argparse.Namespace", "numpy.ndarray", "numpy.dtype"}
    for core in ("core", "_core"):
        expected |= {f"numpy.{core}.multiarray._reconstruct", f"numpy.{core}.multiarray.scalar"}
    for place in ("meters", "logging.meters"):
        expected |= {f"fairseq.{place}.{name}Meter" for name in ("Average", "Sum", "Time", "Stopwatch")}
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
def test_what_training_stores_is_read(tmp_path, zipped):
    """Views, ties, scalars, empty and expanded tensors, optimizers' states, options; numpy numbers in either byte order."""
    weight, meter = torch.arange(12.0).reshape(3, 4), meters.AverageMeter()
    meter.update(3.0)
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
        "args": argparse.Namespace(arch="xlmr_base"),
        "score": np.float64(0.5),
        "meters": {"loss": meter},
    }
    torch.save(saved, tmp_path / "model.pt", _use_new_zipfile_serialization=zipped)
    actual = read_checkpoint(tmp_path / "model.pt")
    assert torch.equal(actual["model"]["view"], weight[1:, ::2])
    assert [array.tolist() for array in actual["numpy"]] == [[1, 1, 1]] * 4
    assert actual["expanded"].shape == (500, 500)
    assert all(actual[name] == saved[name] for name in ("shape", "numbers", "args", "score"))
    assert actual["meters"]["loss"].avg == 3.0


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


def test_a_file_without_checksums_is_read_with_a_note(tmp_path, caplog):
    caplog.set_level("INFO", "fairseq_plugins")
    for legacy in (False, True):
        torch.save({"x": torch.ones(3)}, tmp_path / "model.pt", _use_new_zipfile_serialization=not legacy)
        assert torch.equal(read_checkpoint(tmp_path / "model.pt")["x"], torch.ones(3))
        assert ("model.pt: has no checksums" in caplog.text) is legacy
