"""Test the workflow from two text files to a translator, with stand-ins for the long commands."""

import os
import re
import sys
from collections import namedtuple

import pytest

from examples.recipes.runs import has_bfloat16
from tests.conftest import ROOT

from .commands import HOSTILE_NAME, finish, kill, start, wait_until, write_program

SNAKEMAKE = ROOT / ".venv-recipes" / "bin" / "snakemake"
pytestmark = pytest.mark.skipif(
    not SNAKEMAKE.exists(), reason="make recipes: Snakemake is not in .venv-recipes"
)

# Stands in for fairseq-train and fairseq-generate: records its options, waits if the file
# "calls.slow" exists, and writes the files that the next step reads.
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
    print("2026-01-01 10:00:00 | begin validation on")
    print("2026-01-01 10:00:03 | INFO | valid | {}", flush=True)
    if "--stop-time-hours" in args and os.path.exists(os.environ["CALLS"] + ".slow"):
        time.sleep(300)
else:
    reference = pathlib.Path("text", value("--gen-subset") + ".de").read_text().splitlines()
    worse = "sga" in value("--path")
    for number, line in enumerate(reference):
        print(f"D-{number}\t0.0\t{'ein' if worse and number % 2 else line}")
"""
# Stands in for Python where torch would be needed, else calls it.
PYTHON = r"""#!/usr/bin/env bash
case "$*" in
    *export_masked_lm.py*) mkdir -p "${@: -1}" && touch "${@: -1}/config.json" ;;
    *"fairseq_plugins average"*) touch "${@: -1}" ;;
    *) exec "$REAL_PYTHON" "$@" ;;
esac
"""


World = namedtuple("World", "folder out start calls")
WORDS = """a dog runs through the snow while two men watch it and the sun is high over this old
    town""".split()


def write_text(path, shift):
    """Write 1200 different lines of six words and a number."""
    lines = []
    for number in range(1200):
        words = [WORDS[(shift + number * step) % len(WORDS)] for step in range(1, 7)]
        lines.append(f"{' '.join(words)} {number}\n")
    path.write_text("".join(lines))


@pytest.fixture
def world(tmp_path):
    """Write two texts in a folder whose name a shell would execute."""
    programs, folder = tmp_path / "programs", tmp_path / HOSTILE_NAME
    programs.mkdir()
    folder.mkdir()
    for name in ("fairseq-train", "fairseq-generate"):
        write_program(programs / name, STAND_IN)
    write_program(programs / "python", PYTHON)
    write_text(folder / "-my.en", 0)
    write_text(folder / "-my.de", 7)
    path = [str(programs), os.path.dirname(sys.executable), os.environ["PATH"]]
    environment = {
        "PATH": os.pathsep.join(path),
        "SNAKEMAKE": str(SNAKEMAKE),
        "REAL_PYTHON": sys.executable,
        "CALLS": str(folder / "calls"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    (folder / "calls").touch()

    def start_translator(hours):
        line = ["bash", ROOT / "examples" / "translator.sh", "-my.en", "-my.de", "-out", hours]
        return start(line, folder, **environment)

    def calls(program, word=""):
        lines = (folder / "calls").read_text().splitlines()
        return [line for line in lines if line.startswith(program) and word in line]

    yield World(folder, folder / "-out", start_translator, calls)
    assert not list(tmp_path.rglob("executed")), "a part of a path was executed"


def run(process, fails=False):
    status, output = finish(process)
    assert (status != 0) == fails, output
    return output


@pytest.mark.slow
def test_a_translator_is_made_once_and_resumes_after_a_kill(world):
    folder, out, start_translator, calls = world
    last = run(start_translator("0.005"), fails=True).splitlines()[-1]
    assert re.fullmatch(r"error: HOURS 0\.005: masked_lm .* valid: about .* hours.*", last)
    (command,) = calls("fairseq-train")
    assert "--save-dir speed/masked_lm" in command

    (folder / "calls.slow").touch()
    process = start_translator("0.5")
    wait_until(lambda: calls("fairseq-train", "--save-dir train/masked_lm"), process)
    speeds = calls("fairseq-train", "--save-dir speed/")
    assert len(speeds) == 3, "a speed is measured once, whatever HOURS are"
    assert "another run is at work there" in run(start_translator("0.5"), fails=True)
    kill(process)
    assert (out / "train" / "masked_lm" / "checkpoint_last.pt").is_file(), "no checkpoint is lost"
    (folder / "calls.slow").unlink()
    plan = (out / "plan.json").read_text()

    output = run(start_translator("0.5"))
    assert "| masked_lm | " in output
    assert "NOT FIT" not in output
    assert "The default is AT" in output
    assert "\nfairseq-plugins translate ./-out --input " in output
    assert "FOLDER" not in output
    assert (out / "plan.json").read_text() == plan, "a budget is divided once"
    check_trainings(calls("fairseq-train", "--save-dir train/"))
    for name in ("sga_lora", "at"):
        assert (out / "translator" / name / "dict.de.txt").is_file()
    check_edits_train_nothing(world)


def check_trainings(lines):
    """Check that the killed training was started again with its command, the others once."""
    for name, count, bf16 in (
        ("masked_lm", 2, has_bfloat16()),
        ("sga_lora", 1, has_bfloat16()),
        ("at", 1, False),
    ):
        commands = [line for line in lines if f"train/{name} " in f"{line} "]
        assert len(commands) == count
        assert len(set(commands)) == 1
        assert ("--bf16" in commands[0]) == bf16


def check_edits_train_nothing(world):
    """Touch files, then change the text; the changed text is refused."""
    folder, _, start_translator, calls = world
    count = len(calls("fairseq"))
    for path in (folder / "-my.en", ROOT / "examples" / "systems" / "at.yaml"):
        os.utime(path)
    run(start_translator("0.5"))
    for language in ("en", "de"):
        with open(folder / f"-my.{language}", "a") as file:
            file.write("more\n")
    assert "was begun with SRC" in run(start_translator("0.5"), fails=True)
    assert len(calls("fairseq")) == count
