"""A study from raw text to its page, with stand-ins: tuning, choice, finals, a kill, a failure, other settings."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
import yaml

from tests.conftest import ROOT

from .commands import HOSTILE_NAME

SNAKEMAKE = ROOT / ".venv-recipes" / "bin" / "snakemake"
pytestmark = pytest.mark.skipif(not SNAKEMAKE.exists(), reason="make recipes: Snakemake is not in .venv-recipes")

# Stands for the stock commands. A training has the validation BLEU of its --lr; it waits or fails when told to.
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
    print('x | INFO | valid | {"epoch": 1, "valid_loss": "2", "valid_bleu": "%s", "valid_num_updates": "3"}' % value("--lr"))
elif "fairseq-validate" in sys.argv[0]:
    print('2026-01-01 00:00:00 | INFO | test.de | {"test.de_loss": "1.5", "test.de_accuracy": "62.5"}')
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


def write_study(folder, **changes):
    content = {
        "title": "Probe",
        "set": "tiny",
        "directions": ["en-de"],
        "seeds": [1],
        "budget": {"tune": {"minutes": 1}, "final": {"minutes": 2}},
        "code": ["examples/recipes/studies.py"],
        "arms": {
            "one": {"system": "at", "outputs": {"beam": {"title": "beam 5"}}, "grid": [{"lr": 1}, {"lr": 3}]},
            "two": {
                "system": "at",
                "before": [{"system": "at", "limits": {"updates": 5}}],
                "train": {"finetune-from-model": "$start"},
                "outputs": {"beam": {"title": "beam 5"}},
                "grid": [{"lr": 2}, {"lr": 1}],
            },
        },
        "claims": [{"better": ["one", "beam"], "worse": ["two", "beam"]}],
        **changes,
    }
    (folder / "studies" / "probe.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


@pytest.fixture
def world(tmp_path):
    """Raw text, a study and a call of it, below a folder whose name a shell would execute."""
    (tmp_path / "programs").mkdir()
    outside, tmp_path = tmp_path, tmp_path / HOSTILE_NAME
    tmp_path.mkdir()
    for name in ("studies", "sets", "-data"):
        (tmp_path / name).mkdir()
    stand_ins = {f"fairseq-{name}": STAND_IN for name in ("train", "generate", "validate")}
    for name, text in {**stand_ins, "python": PYTHON}.items():
        (outside / "programs" / name).write_text(text)
        (outside / "programs" / name).chmod(0o755)
    step = {"makes": "bin/done", "run": "printf '%s\\n' $words >bin/dict.txt\ncp $data/test.de bin/done"}
    tiny = {
        "title": "Tiny",
        "languages": ["en", "de"],
        "test": "test",
        "reference": "$data/test.$target",
        "values": {"words": ["two", "words $$(touch executed)"]},
        "steps": [step],
    }
    (tmp_path / "sets" / "tiny.yaml").write_text(yaml.safe_dump(tiny))
    (tmp_path / "-data" / "test.de").write_text("a b c d e\n" * 4)
    state = {"optimizer_history": [{"num_updates": 7}], "extra_state": {"previous_training_time": 60.0}}
    sections = ("model", "optimization", "dataset", "common")
    torch.save({**state, "cfg": {name: {} for name in sections}}, tmp_path / "model.pt")
    write_study(tmp_path)
    path = os.pathsep.join([str(outside / "programs"), os.path.dirname(sys.executable), os.environ["PATH"]])
    own = {"PATH": path, "SNAKEMAKE": str(SNAKEMAKE), "REAL_PYTHON": sys.executable, "WORLD": str(tmp_path)}
    environment = {**os.environ, **own, "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def start():
        line = ["bash", str(ROOT / "examples" / "study.sh"), "studies/probe.yaml", "-data", "-out"]
        pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        return subprocess.Popen(line, cwd=tmp_path, env=environment, **pipes)

    def calls(word):
        path = tmp_path / "calls"
        return [line for line in path.read_text().splitlines() if word in line] if path.exists() else []

    yield tmp_path, start, calls
    assert not list(outside.rglob("executed")), "a part of a path was executed"


@pytest.mark.slow
def test_a_study_is_tuned_run_and_shown_and_goes_on_after_a_kill(world):
    folder, start, calls = world
    (folder / "slow").touch()
    run, deadline = start(), time.monotonic() + 300
    while not calls("runs/final") and time.monotonic() < deadline and run.poll() is None:
        time.sleep(0.2)
    assert run.poll() is None, run.communicate()[0]
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    (folder / "slow").unlink()
    (folder / "broken").touch()
    tuned = (folder / "-out" / "tuned.json").read_text()
    assert json.loads(tuned) == {"one": 1, "two": 0}, "the points with the best validation"

    failing = start()
    said, _ = failing.communicate(timeout=300)
    assert (
        failing.returncode != 0 and "final/en-de/two-0/seed1: FAILED" in said and "| one | beam 5 | 100.0 |" in said
    ), said
    (folder / "broken").unlink()
    done = start()
    said, _ = done.communicate(timeout=300)
    assert done.returncode == 0 and (folder / "-out" / "tuned.json").read_text() == tuned, said
    page = (folder / "-out" / "page.md").read_text()
    assert "| one | beam 5 | 100.0 |" in page and "open, 1 of 1 seeds" in page, page
    entries = json.loads((folder / "-out" / "ledger.json").read_text())["entries"]
    keys = [f"tune/en-de/{arm}-{point}/seed1" for arm in ("one", "two") for point in (0, 1)]
    keys += ["final/en-de/one-1/seed1", "final/en-de/two-0/seed1"]
    assert {one["key"]: one["status"] for one in entries if "phase" in one} == dict.fromkeys(keys, "done")
    two = next(one for one in entries if one["key"] == keys[-1])
    assert (two["updates"], two["earlier_updates"], two["minutes"], two["options"]) == (14, 7, 2, ["--lr", "2"])
    finals = {arm: calls(f"--save-dir runs/final/en-de/{arm}") for arm in ("one-1", "two-0")}
    assert [len(finals["one-1"]), len(set(finals["one-1"]))] == [2, 1] or len(finals["two-0"]) == 4, "the same command"
    assert all("start2.pt" in line for line in finals["two-0"] if "stage1" not in line)

    before = len(calls("fairseq"))
    for path in (
        folder / "studies" / "probe.yaml",
        ROOT / "examples" / "systems" / "at.yaml",
        folder / "-data" / "test.de",
    ):
        os.utime(path)
    assert start().wait(timeout=120) == 0 and len(calls("fairseq")) == before, "an edited file trains nothing again"
    for made in ("runs", "done", "averages"):
        shutil.rmtree(folder / "-out" / made)
    assert start().wait(timeout=120) == 0 and len(calls("fairseq")) == before, "a restored entry needs no run"
    write_study(folder, budget={"tune": {"minutes": 1}, "final": {"minutes": 3}})
    refused = start()
    said, _ = refused.communicate(timeout=120)
    assert refused.returncode != 0 and "was begun with study probe, code" in said and len(calls("fairseq")) == before, (
        said
    )


@pytest.mark.slow
def test_numbers_of_fairseq_validate_and_of_commands_of_its_own_reach_the_page(world):
    """The runs of a seed start from its own asset; the ledger keeps the hash when the asset is gone."""
    folder, start, calls = world
    own = """echo '| test.fr | {"test.fr_f1": 37.5}'"""
    outputs = {"test": {"title": "stock"}, "own": {"title": "its own", "metric": "f1", "run": own}}
    write_study(
        folder,
        metrics={"en-de": "accuracy"},
        budget={"final": {"updates": 5}},
        seeds=[1, 2],
        assets={
            "model": {"system": "at", "limits": {"updates": 5}, "train": {"lr": 1}, "each_seed": True},
            "given": {"given": "$data/test.de"},
        },
        arms={"one": {"system": "understanding", "start": "model", "outputs": outputs}},
        claims=[],
    )
    run = start()
    said, _ = run.communicate(timeout=300)
    assert run.returncode == 0 and "| one | stock | 62.5 | 62.5 |" in said, said
    assert "| one | its own | 37.5 | 37.5 |" in said, said
    started = {line.partition("--pretrained-encoder ")[2].split()[0] for line in calls("runs/final")}
    assert started == {f"assets/model/seed{seed}/model.pt" for seed in (1, 2)} and len(calls("train/model/seed")) == 2
    for gone in ("assets", "train", "runs", "done", "averages", "ledger.json", "page.md", "study.json"):
        path = folder / "-out" / gone
        path.unlink() if path.is_file() else shutil.rmtree(path)
    assert start().wait(timeout=120) == 0 and len(calls("train/model/seed")) == 2, "nothing is trained again"
    assert (folder / "-out" / "study.json").is_file(), "what is restored can be published"
    entries = json.loads((folder / "-out" / "ledger.json").read_text())["entries"]
    hashes = next(one["hashes"] for one in entries if one["key"] == "assets")
    assert set(hashes) == {"{data}/test.de", *(f"{{out}}/assets/model/seed{seed}/model.pt" for seed in (1, 2))}
