"""Test commands that write checkpoints on a full disk: they name the file and leave no part of it.

A limit on the size of files stands in for the disk: the system refuses the write in the same way.
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
EXPORT = ["export", "--format", "safetensors"]


@contextlib.contextmanager
def full_disk():
    """Let no file grow beyond LIMIT bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def cut(folder, **config):
    state = STATE["model"] if config else STATE
    checkpoint = cut_checkpoint.OpenCheckpoint(folder / "1.pt", dict(state), config=config)
    cut_checkpoint.write_checkpoint(checkpoint, folder / "out")


def write_lm(folder):
    write_masked_lm(folder / "out", SIZES, masked_lm_tensors(), torch.float32)


REPLACES_NOTHING = ("model.safetensors", "imported.pt")
WRITERS = {
    "average.pt": lambda at: main(
        f"average --inputs {at}/1.pt --output {at}/out/average.pt".split()
    ),
    "model.safetensors": lambda at: main([*EXPORT, f"{at}/1.pt", f"{at}/out"]),
    "imported.pt": lambda at: main(["import", f"{at}/exported", f"{at}/out/imported.pt"]),
    "1.pt": cut,
    "cut/model.safetensors": lambda at: cut(at, vocab_size=7),
    "lm/model.safetensors": write_lm,
}
"""File in the folder ``out`` -> function that writes it."""


@pytest.mark.parametrize("name", WRITERS)
def test_the_previous_file_is_left_on_a_full_disk(tmp_path, capsys, name):
    torch.save(STATE, tmp_path / "1.pt")
    main([*EXPORT, str(tmp_path / "1.pt"), str(tmp_path / "exported"), "--no-dictionaries"])
    (tmp_path / "dict.txt").write_text("a 1\n")
    target = tmp_path / "out" / Path(name).name
    target.parent.mkdir()
    if name not in REPLACES_NOTHING:
        target.write_bytes(b"previous")
    with full_disk(), pytest.raises((SystemExit, OSError)) as error:
        WRITERS[name](tmp_path)
    # The commands of data_prep catch an OSError and show it in one line.
    message = capsys.readouterr().err + str(error.value)
    assert str(target) in message
    assert "File too large" in message
    contents = [path.read_bytes() for path in target.parent.iterdir()]
    assert contents == ([] if name in REPLACES_NOTHING else [b"previous"])
