"""Test a study from raw text to its page, with stand-ins for the stock commands."""

import json
import os
import shutil
import sys
from collections import namedtuple

import pytest
import torch
import yaml

from tests.conftest import ROOT

from .commands import HOSTILE_NAME, finish, kill, start, wait_until, write_program

SNAKEMAKE = ROOT / ".venv-recipes" / "bin" / "snakemake"
pytestmark = pytest.mark.skipif(
    not SNAKEMAKE.exists(), reason="make recipes: Snakemake is not in .venv-recipes"
)

# Stands in for the stock commands. The validation BLEU of a training is its --lr; the files
# "slow" and "broken" make it wait or fail.
STAND_IN = r"""#!/usr/bin/env python3
import os, pathlib, shutil, sys, time
args = sys.argv[1:]
value = lambda name: args[args.index(name) + 1]
world = pathlib.Path(os.environ["WORLD"])
with open(world / "calls", "a") as calls:
    print(pathlib.Path(sys.argv[0]).name, *args, file=calls)
if "fairseq-train" in sys.argv[0]:
    folder = pathlib.Path(value("--save-dir"))
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("last", "best"):
        shutil.copy(world / "model.pt", folder / f"checkpoint_{name}.pt")
    if (world / "slow").exists() and "final" in value("--save-dir"):
        time.sleep(300)
    if (world / "broken").exists() and "final/en-de/two" in value("--save-dir"):
        sys.exit("no space left")
    print("num. shared model params: 9 (num. trained: 5)")
    scores = '"valid_loss": "2", "valid_bleu": "%s", "valid_num_updates": "3"' % value("--lr")
    print('x | INFO | valid | {"epoch": 1, %s}' % scores)
elif "fairseq-validate" in sys.argv[0]:
    scores = '"test.de_loss": "1.5", "test.de_accuracy": "62.5"'
    print('2026-01-01 00:00:00 | INFO | test.de | {%s}' % scores)
else:
    for number in range(4):
        print(f"D-{number}\t0.0\ta b c d {'e' if 'one' in value('--path') else 'x'}")
"""
PYTHON = r"""#!/usr/bin/env bash
case "$*" in
    *"fairseq_plugins average"*) touch "${@: -1}" ;;
    *) exec "$REAL_PYTHON" "$@" ;;
esac
"""


World = namedtuple("World", "folder out start calls")
BEAM = {"beam": {"title": "beam 5"}}


def write_study(folder, **changes):
    first = {"system": "at", "outputs": BEAM, "grid": [{"lr": 1}, {"lr": 3}]}
    second = {
        "system": "at",
        "before": [{"system": "at", "limits": {"updates": 5}}],
        "train": {"finetune-from-model": "$start"},
        "outputs": BEAM,
        "grid": [{"lr": 2}, {"lr": 1}],
    }
    content = {
        "title": "Probe",
        "set": "tiny",
        "directions": ["en-de"],
        "seeds": [1],
        "budget": {"tune": {"minutes": 1}, "final": {"minutes": 2}},
        "code": ["examples/recipes/studies.py"],
        "arms": {"one": first, "two": second},
        "claims": [{"better": ["one", "beam"], "worse": ["two", "beam"]}],
        **changes,
    }
    (folder / "studies" / "probe.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


def write_data_set(folder):
    step = {
        "makes": "bin/done",
        "run": "printf '%s\\n' $words >bin/dict.txt\ncp $data/test.de bin/done",
    }
    content = {
        "title": "Tiny",
        "languages": ["en", "de"],
        "test": "test",
        "reference": "$data/test.$target",
        "values": {"words": ["two", "words $$(touch executed)"]},
        "steps": [step],
    }
    (folder / "sets" / "tiny.yaml").write_text(yaml.safe_dump(content))
    (folder / "-data" / "test.de").write_text("a b c d e\n" * 4)


def write_checkpoint(path):
    """Write the checkpoint that stand-ins for trainings copy."""
    state = {
        "cfg": {name: {} for name in ("model", "optimization", "dataset", "common")},
        "optimizer_history": [{"num_updates": 7}],
        "extra_state": {"previous_training_time": 60.0},
    }
    torch.save(state, path)


@pytest.fixture
def world(tmp_path):
    """Write raw text and a study in a folder whose name a shell would execute."""
    programs, folder = tmp_path / "programs", tmp_path / HOSTILE_NAME
    for path in (programs, folder, folder / "studies", folder / "sets", folder / "-data"):
        path.mkdir()
    for name in ("train", "generate", "validate"):
        write_program(programs / f"fairseq-{name}", STAND_IN)
    write_program(programs / "python", PYTHON)
    write_data_set(folder)
    write_checkpoint(folder / "model.pt")
    write_study(folder)
    path = [str(programs), os.path.dirname(sys.executable), os.environ["PATH"]]
    environment = {
        "PATH": os.pathsep.join(path),
        "SNAKEMAKE": str(SNAKEMAKE),
        "REAL_PYTHON": sys.executable,
        "WORLD": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }

    def start_study():
        line = ["bash", ROOT / "examples" / "study.sh", "studies/probe.yaml", "-data", "-out"]
        return start(line, folder, **environment)

    def calls(word):
        file = folder / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if word in line]

    yield World(folder, folder / "-out", start_study, calls)
    assert not list(tmp_path.rglob("executed")), "a part of a path was executed"


def read_entries(world):
    return json.loads((world.out / "ledger.json").read_text())["entries"]


@pytest.mark.slow
def test_a_study_is_tuned_run_and_shown_and_resumes_after_a_kill(world):
    folder, out, start_study, calls = world
    (folder / "slow").touch()
    process = start_study()
    wait_until(lambda: calls("runs/final"), process)
    kill(process)
    (folder / "slow").unlink()
    tuned = (out / "tuned.json").read_text()
    assert json.loads(tuned) == {"one": 1, "two": 0}, "the points with the best validation"

    (folder / "broken").touch()
    status, output = finish(start_study())
    assert status != 0
    assert "final/en-de/two-0/seed1: FAILED" in output
    assert "| one | beam 5 | 100.0 |" in output

    (folder / "broken").unlink()
    status, output = finish(start_study())
    assert status == 0, output
    assert (out / "tuned.json").read_text() == tuned
    page = (out / "page.md").read_text()
    assert "| one | beam 5 | 100.0 |" in page
    assert "open, 1 of 1 seeds" in page
    runs = {entry["key"]: entry for entry in read_entries(world) if "phase" in entry}
    assert {entry["status"] for entry in runs.values()} == {"done"}
    tuning = {f"tune/en-de/{arm}-{point}/seed1" for arm in ("one", "two") for point in (0, 1)}
    assert set(runs) == tuning | {"final/en-de/one-1/seed1", "final/en-de/two-0/seed1"}
    second = runs["final/en-de/two-0/seed1"]
    assert second["updates"] == 14
    assert second["earlier_updates"] == 7
    assert second["minutes"] == 2
    assert second["options"] == ["--lr", "2"]

    # The killed training is started again with the same command.
    finals = {arm: calls(f"--save-dir runs/final/en-de/{arm}") for arm in ("one-1", "two-0")}
    resumed_first = len(finals["one-1"]) == 2 and len(set(finals["one-1"])) == 1
    assert resumed_first or len(finals["two-0"]) == 4
    assert all("start2.pt" in line for line in finals["two-0"] if "stage1" not in line)
    check_finished_study_trains_nothing(world)


def check_finished_study_trains_nothing(world):
    """Touch its files, then remove its runs, then change its budget."""
    folder, out, start_study, calls = world
    count = len(calls("fairseq"))
    files = (folder / "studies" / "probe.yaml", folder / "-data" / "test.de")
    for path in (*files, ROOT / "examples" / "systems" / "at.yaml"):
        os.utime(path)
    assert finish(start_study())[0] == 0
    assert len(calls("fairseq")) == count

    for name in ("runs", "done", "averages"):
        shutil.rmtree(out / name)
    assert finish(start_study())[0] == 0
    assert len(calls("fairseq")) == count

    write_study(folder, budget={"tune": {"minutes": 1}, "final": {"minutes": 3}})
    status, output = finish(start_study())
    assert status != 0
    assert "was begun with study probe, code" in output
    assert len(calls("fairseq")) == count


@pytest.mark.slow
def test_scores_of_validation_and_of_custom_commands_reach_the_page(world):
    """The runs of a seed start from its own asset; the ledger keeps the hash of a deleted asset."""
    folder, out, start_study, calls = world
    command = """echo '| test.fr | {"test.fr_f1": 37.5}'"""
    outputs = {
        "test": {"title": "stock"},
        "custom": {"title": "custom", "metric": "f1", "run": command},
    }
    model = {"system": "at", "limits": {"updates": 5}, "train": {"lr": 1}, "each_seed": True}
    write_study(
        folder,
        metrics={"en-de": "accuracy"},
        budget={"final": {"updates": 5}},
        seeds=[1, 2],
        assets={"model": model, "given": {"given": "$data/test.de"}},
        arms={"one": {"system": "understanding", "start": "model", "outputs": outputs}},
        claims=[],
    )
    status, output = finish(start_study())
    assert status == 0, output
    assert "| one | stock | 62.5 | 62.5 |" in output
    assert "| one | custom | 37.5 | 37.5 |" in output
    starts = [line.partition("--pretrained-encoder ")[2].split()[0] for line in calls("runs/final")]
    assets = {f"assets/model/seed{seed}/model.pt" for seed in (1, 2)}
    assert set(starts) == assets
    assert len(calls("train/model/seed")) == 2

    for name in ("assets", "train", "runs", "done", "averages"):
        shutil.rmtree(out / name)
    for name in ("ledger.json", "page.md", "study.json"):
        (out / name).unlink()
    assert finish(start_study())[0] == 0
    assert len(calls("train/model/seed")) == 2, "nothing is trained again"
    assert (out / "study.json").is_file(), "a restored study can be published"
    (hashes,) = [entry["hashes"] for entry in read_entries(world) if entry["key"] == "assets"]
    assert set(hashes) == {"{data}/test.de", *(f"{{out}}/{path}" for path in assets)}
