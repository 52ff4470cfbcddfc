"""The sweep runner as a user runs it: tiny real trainings, called twice, tables and plots, mistakes."""

import json
import shutil

import pytest

from tests.conftest import ROOT

SWEEP = "examples.miniature.sweep"


@pytest.fixture
def checkout(tmp_path):
    """A checkout whose ledgers may be written: the runner copied, the rest linked."""
    root = tmp_path / "checkout"
    miniature = root / "examples" / "miniature"
    miniature.mkdir(parents=True)
    for path in (ROOT / "examples" / "miniature").glob("*.py"):
        shutil.copy(path, miniature)
    for name in ("sga", "recipes"):
        (root / "examples" / name).symlink_to(ROOT / "examples" / name)
    for name in ("data_prep", "fairseq_plugins"):
        (root / name).symlink_to(ROOT / name)
    return root


def plan(world):
    """Two stock transformers, one update and four, on one seed."""
    text = """
name: tiny
title: Tiny
prepare: []
assets: []
code: ["examples/miniature/*.py"]
reference: "{data}/test.{target}"
directions: [en-de]
seeds: [1]
minutes: {tune: 1, final: 1}
arms:
  one: &arm
    train: >-
      mkdir -p {out}/{run}; fairseq-train DATA -s en -t de --arch transformer_tiny --optimizer adam --lr 0.01
      --max-sentences 8 --seed {seed} --stop-time-hours {hours} --no-epoch-checkpoints --log-format json
      --eval-bleu --best-checkpoint-metric bleu --maximize-best-checkpoint-metric --keep-best-checkpoints 5
      --eval-bleu-args '{{"beam": 1, "max_len_b": 10}}'
      --save-dir {out}/{run} {options} 2>&1 | tee -a {out}/{run}/train.log
    evaluate: BIN=DATA SUBSET=test KEEP={keep} bash examples/sga/evaluate.sh {out} {run} beam --max-len-b 10
    outputs: {beam: beam 5}
    grid: [[--max-update, 1]]
  four: {<<: *arm, grid: [[--max-update, 4]]}
claims: [{better: [four, beam], worse: [one, beam]}]
"""
    return text.replace("DATA", str(world.data))


@pytest.mark.slow
def test_run_again_and_show(world, run_cli, checkout, tmp_path):
    miniature = checkout / "examples" / "miniature"
    (miniature / "tiny.yaml").write_text(plan(world), encoding="utf-8")
    command = ["run", miniature / "tiny.yaml", "--data", world.root, "--out", tmp_path / "out", "--cpu"]
    failed = run_cli(SWEEP, *command, "--jobs", 0, cwd=checkout, check=False)
    assert failed.returncode == 2 and "--jobs must be at least 1; got 0" in failed.stderr
    done = run_cli(SWEEP, *command, cwd=checkout)
    assert "0 of 2 final runs need nothing" in done.stderr and "FAILED" not in done.stderr, done.stderr
    ledger = json.loads((miniature / "ledger-tiny.json").read_text(encoding="utf-8"))
    finals = [entry for entry in ledger["entries"] if entry.get("phase") == "final"]
    found = {entry["arm"]: (entry["status"], entry["updates"]) for entry in finals}
    assert found == {"one": ("done", 1), "four": ("done", 4)}
    assert all(point["bleu"] >= 0 for entry in finals for point in entry["validation"])
    assert "2 of 2 final runs need nothing" in run_cli(SWEEP, *command, cwd=checkout).stderr
    run_cli(SWEEP, "results", miniature / "tiny.yaml", cwd=checkout)
    page = (miniature / "RESULTS-tiny.md").read_text(encoding="utf-8")
    assert "| four (beam) better than one (beam) | en-de |" in page and "open, 1 of 1 seeds" in page
    assert (miniature / "plots" / "tiny.svg").is_file()
