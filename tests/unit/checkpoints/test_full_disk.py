"""Commands that write checkpoints on a full disk: the file and the reason are named, nothing of the attempt stays.

A limit on the size of files takes the place of the disk: the system refuses the write in the same way.
"""

import contextlib
import resource
from pathlib import Path

import pytest
import torch

import fairseq_plugins  # noqa: F401  makes stock fairseq read checkpoints with options
from data_prep.pieces import cut_checkpoint
from fairseq_plugins.__main__ import main
from fairseq_plugins.checkpoints import write_masked_lm
from tests.unit.checkpoints.builders import SIZES, masked_lm_tensors

LIMIT = 2000
STATE = {"args": None, "cfg": {"model": {}}, "model": {"w": torch.arange(10_000.0)}}


@contextlib.contextmanager
def full_disk():
    """No file grows beyond LIMIT bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def cut(folder, **config):
    state = STATE["model"] if config else STATE
    cut_checkpoint.write_checkpoint(
        cut_checkpoint.OpenCheckpoint(folder / "1.pt", dict(state), config=config), folder / "out"
    )


# What writes; the file it writes to.
REFUSED_BEFORE = ("model.safetensors", "imported.pt")  # the command replaces nothing
WRITERS = {
    "average.pt": lambda at: main(["average", "--inputs", f"{at}/1.pt", "--output", f"{at}/out/average.pt"]),
    "model.safetensors": lambda at: main(["export", "--format", "safetensors", f"{at}/1.pt", f"{at}/out"]),
    "imported.pt": lambda at: main(["import", f"{at}/exported", f"{at}/out/imported.pt"]),
    "1.pt": cut,
    "cut/model.safetensors": lambda at: cut(at, vocab_size=7),
    "lm/model.safetensors": lambda at: write_masked_lm(at / "out", SIZES, masked_lm_tensors(), torch.float32),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk(tmp_path, capsys, name):
    torch.save(STATE, tmp_path / "1.pt")
    main(["export", "--format", "safetensors", str(tmp_path / "1.pt"), str(tmp_path / "exported"), "--no-dictionaries"])
    (tmp_path / "dict.txt").write_text("a 1\n")
    out = tmp_path / "out"
    out.mkdir()
    target = out / Path(name).name
    if name not in REFUSED_BEFORE:
        target.write_bytes(b"the previous one")
    with full_disk(), pytest.raises((SystemExit, OSError)) as stopped:
        WRITERS[name](tmp_path)
    # What is no exit is shown in one line by data_prep's commands: they catch OSError.
    shown = capsys.readouterr().err if isinstance(stopped.value, SystemExit) else str(stopped.value)
    assert str(target) in shown
    assert "File too large" in shown
    assert [path.read_bytes() for path in out.iterdir()] == [b"the previous one"] * (name not in REFUSED_BEFORE)
