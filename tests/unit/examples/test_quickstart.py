"""Test that quickstart/run.sh removes the files of an earlier quickstart, and nothing else."""

import fcntl
import os
import subprocess

import pytest

from tests.contract.repository import ROOT

USER_FILES = ["checkpoints/notes.txt", "checkpoints/best/model.pt", "my.pt", "text/my.en"]
RESULTS = [
    "checkpoints/checkpoint_last.pt",
    "checkpoints/checkpoint.best_bleu_1.200.pt",
    "average.pt",
    "table.md",
    "scores.json",
    "generate-10.log",
    "hypotheses-0.de",
]
FIRST_STEP = 7


def fill(out):
    for name in [*USER_FILES, *RESULTS]:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("content")


def list_files(out):
    return sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())


@pytest.fixture
def run(tmp_path):
    """Return a run of the script as far as its first step."""
    stub = tmp_path / "python"
    stub.write_text(f"#!/bin/sh\nexit {FIRST_STEP}\n")
    stub.chmod(0o755)

    def run(out):
        environment = {**os.environ, "PYTHON": str(stub), "OUT": str(out)}
        line = ["bash", "examples/quickstart/run.sh"]
        pipes = {"capture_output": True, "text": True, "check": False}
        return subprocess.run(line, cwd=ROOT, env=environment, **pipes)

    return run


def test_a_folder_of_a_user_stays(run, tmp_path):
    out = tmp_path / "mine"
    fill(out)
    process = run(out)
    assert process.returncode == 2
    assert f"OUT={out} holds files that no quickstart made" in process.stderr
    assert list_files(out) == sorted([*USER_FILES, *RESULTS])


def test_results_of_a_quickstart_are_replaced(run, tmp_path):
    out = tmp_path / "quickstart"
    assert run(out).returncode == FIRST_STEP
    (mark,) = list_files(out)
    fill(out)
    with open(out / mark) as file:  # another run is at work
        fcntl.flock(file, fcntl.LOCK_EX)
        process = run(out)
    assert process.returncode == 1
    assert "another run is at work there" in process.stderr
    assert list_files(out) == sorted([mark, *USER_FILES, *RESULTS])
    assert run(out).returncode == FIRST_STEP
    assert list_files(out) == sorted([mark, *USER_FILES])
