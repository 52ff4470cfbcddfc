"""The workflow from two text files to a translator: its steps with stand-ins for the long commands, kills, other settings."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from examples.recipes.runs import has_bfloat16
from tests.conftest import ROOT

from .commands import HOSTILE_NAME

SNAKEMAKE = ROOT / ".venv-recipes" / "bin" / "snakemake"
pytestmark = pytest.mark.skipif(not SNAKEMAKE.exists(), reason="make recipes: Snakemake is not in .venv-recipes")

# Stands for fairseq-train and fairseq-generate: notes its options, waits where it is told to, leaves what the next step reads.
STAND_IN = r"""#!/usr/bin/env python
import os, pathlib, sys, time
args = sys.argv[1:]
value = lambda name: args[args.index(name) + 1]
with open(os.environ["CALLS"], "a") as calls:
    print(pathlib.Path(sys.argv[0]).name, *args, file=calls)
if "fairseq-train" in sys.argv[0]:
    folder = pathlib.Path(value("--save-dir"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "checkpoint_last.pt").touch()
    (folder / "checkpoint_best.pt").touch()
    for update in range(5):
        print('| {"epoch": 1, "ups": "10", "num_updates": "%d", "loss": "2"}' % update, flush=True)
    print("2026-01-01 10:00:00 | begin validation on\n2026-01-01 10:00:03 | INFO | valid | {}", flush=True)
    if "--stop-time-hours" in args and os.path.exists(os.environ["CALLS"] + ".slow"):
        time.sleep(300)
else:
    reference = pathlib.Path("text", value("--gen-subset") + ".de").read_text().splitlines()
    worse = "sga" in value("--path")
    for number, line in enumerate(reference):
        print(f"D-{number}\t0.0\t{'ein' if worse and number % 2 else line}")
"""
# Stands for Python where torch would be needed; everything else is the real one.
PYTHON = r"""#!/usr/bin/env bash
case "$*" in
    *export_masked_lm.py*) mkdir -p "${@: -1}" && touch "${@: -1}/config.json" ;;
    *"fairseq_plugins average"*) touch "${@: -1}" ;;
    *) exec "$REAL_PYTHON" "$@" ;;
esac
"""


@pytest.fixture
def world(tmp_path):
    """Two texts in a folder whose name a shell would execute, and a call with stand-ins for trainings and decodings."""
    programs = tmp_path / "programs"
    outside, tmp_path = tmp_path, tmp_path / HOSTILE_NAME
    tmp_path.mkdir()
    programs.mkdir()
    for name, text in (("fairseq-train", STAND_IN), ("fairseq-generate", STAND_IN), ("python", PYTHON)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    words = "a dog runs through the snow while two men watch it and the sun is high over this old town".split()
    for language, start in (("en", 0), ("de", 7)):
        lines = [" ".join(words[(start + n * k) % len(words)] for k in range(1, 7)) + f" {n}" for n in range(1200)]
        (tmp_path / f"-my.{language}").write_text("\n".join(lines) + "\n")

    venv = os.path.dirname(sys.executable)
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{venv}{os.pathsep}{os.environ['PATH']}",
        "SNAKEMAKE": str(SNAKEMAKE),
        "REAL_PYTHON": sys.executable,
        "CALLS": str(tmp_path / "calls"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }

    def start(*settings):
        line = ["bash", str(ROOT / "examples" / "translator.sh"), "-my.en", "-my.de", "-out", *settings]
        pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        return subprocess.Popen(line, cwd=tmp_path, env=environment, **pipes)

    (tmp_path / "calls").touch()

    def calls(program, word=""):
        lines = (tmp_path / "calls").read_text().splitlines()
        return [line for line in lines if line.startswith(program) and word in line]

    yield tmp_path, start, calls
    assert not list(outside.rglob("executed")), "a part of a path was executed"


def ended(process, fails=False):
    """What it said."""
    said, _ = process.communicate(timeout=300)
    assert (process.returncode != 0) == fails, said
    return said


@pytest.mark.slow
def test_a_translator_is_made_once_and_goes_on_after_a_kill(world):
    folder, start, calls = world
    refused = ended(start("0.005"), fails=True)
    assert re.fullmatch(
        r"error: HOURS 0\.005: masked_lm would have .* valid: about .* hours.*", refused.splitlines()[-1]
    )
    assert [line.partition("--save-dir ")[2].split()[0] for line in calls("fairseq-train")] == ["speed/masked_lm"]

    (folder / "calls.slow").touch()
    run = start("0.5")
    deadline = time.monotonic() + 300
    while not calls("fairseq-train", "--save-dir train/masked_lm") and run.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert run.poll() is None, run.communicate()[0]
    assert len(calls("fairseq-train", "--save-dir speed/")) == 3, "a speed is measured once, whatever HOURS are"
    assert "another run is at work there" in ended(start("0.5"), fails=True)
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    assert (folder / "-out" / "train" / "masked_lm" / "checkpoint_last.pt").is_file(), "no checkpoint is lost"
    (folder / "calls.slow").unlink()
    plan = (folder / "-out" / "plan.json").read_text()

    said = ended(start("0.5"))
    assert "| masked_lm | " in said and "NOT FIT" not in said and "The default is AT" in said, said
    assert "\nfairseq-plugins translate ./-out --input " in said and "FOLDER" not in said
    assert (folder / "-out" / "plan.json").read_text() == plan, "a budget is divided once"
    trained = calls("fairseq-train", "--save-dir train/")
    lines = {
        name: [one for one in trained if f"train/{name} " in f"{one} "] for name in ("masked_lm", "sga_lora", "at")
    }
    assert [len(found) for found in lines.values()] == [2, 1, 1]
    assert len(set(lines["masked_lm"])) == 1, "the same command goes on"
    assert ["--bf16" in found[0] for found in lines.values()] == [has_bfloat16(), has_bfloat16(), False]
    assert all((folder / "-out" / "translator" / name / "dict.de.txt").is_file() for name in ("sga_lora", "at"))

    before = len(calls("fairseq"))
    for path in (folder / "-my.en", ROOT / "examples" / "systems" / "at.yaml"):
        os.utime(path)
    ended(start("0.5"))
    for language in ("en", "de"):
        with open(folder / f"-my.{language}", "a") as file:
            file.write("more\n")
    assert "was begun with SRC" in ended(start("0.5"), fails=True)
    assert len(calls("fairseq")) == before, "an edited file trains nothing again"
