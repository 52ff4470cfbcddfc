"""quickstart/run.sh removes what a quickstart made, and nothing else."""

import fcntl
import os
import subprocess

import pytest

from tests.contract.repository import ROOT

USERS = ["checkpoints/notes.txt", "checkpoints/best/model.pt", "my.pt", "text/own.en"]
RESULTS = ["checkpoints/checkpoint_last.pt", "checkpoints/checkpoint.best_bleu_1.200.pt", "average.pt", "table.md"]
RESULTS += ["scores.json", "generate-10.log", "hypotheses-0.de"]
FIRST_STEP = 7


def fill(out, names):
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("content")


def files(out):
    return sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())


@pytest.fixture
def quickstart(tmp_path):
    """Run the script as far as its first step."""
    stub = tmp_path / "python"
    stub.write_text(f"#!/bin/sh\nexit {FIRST_STEP}\n")
    stub.chmod(0o755)

    def run(out):
        environment = {**os.environ, "PYTHON": str(stub), "OUT": str(out)}
        line = ["bash", "examples/quickstart/run.sh"]
        return subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    return run


def test_a_folder_of_a_user_stays(quickstart, tmp_path):
    out = tmp_path / "mine"
    fill(out, [*USERS, *RESULTS])
    before = files(out)
    done = quickstart(out)
    assert done.returncode == 2
    assert f"OUT={out} holds files that no quickstart made" in done.stderr
    assert files(out) == before


def test_results_of_a_quickstart_are_replaced(quickstart, tmp_path):
    out = tmp_path / "own"
    assert quickstart(out).returncode == FIRST_STEP
    (mark,) = files(out)
    fill(out, [*USERS, *RESULTS])
    with open(out / mark) as file:  # it is still at work
        fcntl.flock(file, fcntl.LOCK_EX)
        done = quickstart(out)
    assert done.returncode == 1
    assert "another run is at work there" in done.stderr
    assert files(out) == sorted([mark, *USERS, *RESULTS])
    assert quickstart(out).returncode == FIRST_STEP
    assert files(out) == sorted([mark, *USERS])
