"""Checkpoints of older formats still load and decode as they did; and the same model through an export and back."""

import re
from pathlib import Path
from typing import Any, Callable, List

import pytest
import torch

from fairseq_plugins.checkpoints import read_checkpoint, versions
from fairseq_plugins.checkpoints.export import main as export

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
FORMAT_1 = GOLDEN / "format1"
PATH = re.compile(rb"/(?:work|root|home|tmp|opt|mnt|scratch|Users|var)/[\w./-]*")


def test_every_older_format_has_a_file() -> None:
    assert {f"format{number}" for number in versions.MIGRATIONS} == {
        path.name for path in GOLDEN.iterdir() if path.is_dir()
    }


def test_files_are_small_and_name_no_machine() -> None:
    files = [path for path in GOLDEN.rglob("*") if path.is_file()]
    assert max(path.stat().st_size for path in files) < 50_000
    assert [(path.name, PATH.findall(path.read_bytes())) for path in files if PATH.search(path.read_bytes())] == []


def test_format_1_is_read_and_marked() -> None:
    assert versions.KEY not in torch.load(FORMAT_1 / "checkpoint.pt")
    state = read_checkpoint(FORMAT_1 / "checkpoint.pt")
    assert state[versions.KEY] == {"format": versions.FORMAT, "migrated_from": 1}
    assert state["cfg"]["model"]["_name"] == "sga_tiny"


def decode(run_cli: Callable[..., Any], user_dir: str, data: Path, checkpoint: Path) -> List[str]:
    """Outputs of ``fairseq-interactive`` for ``source.en``."""
    options = ["--user-dir", user_dir, "--task", "sga_translation", "-s", "en", "-t", "de", "--iter-decode-max-iter", 3]
    options += ["--path", checkpoint, "--cpu", "--buffer-size", 10, "--max-sentences", 4]
    source = (FORMAT_1 / "source.en").read_text(encoding="utf-8")
    done = run_cli("interactive", data, *options, stdin=source)
    return [line.split("\t")[-1] for line in done.stdout.splitlines() if line.startswith("D-")]


@pytest.mark.slow
def test_format_1_decodes_as_it_did_itself_and_exported(tmp_path: Path, run_cli: Any, user_dir: str) -> None:
    expected = (FORMAT_1 / "expected.de").read_text(encoding="utf-8").splitlines()
    assert decode(run_cli, user_dir, FORMAT_1, FORMAT_1 / "checkpoint.pt") == expected
    assert export([str(FORMAT_1 / "checkpoint.pt"), str(tmp_path / "folder")]) == 0
    assert export(["import", str(tmp_path / "folder"), str(tmp_path / "model.pt")]) == 0
    assert decode(run_cli, user_dir, tmp_path / "folder", tmp_path / "model.pt") == expected
