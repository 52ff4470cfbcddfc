"""The runs of a sweep: what each is given, which count, and how claims about them are tested."""

import json
import os
import sys

import pytest

from tests.conftest import ROOT
from tests.unit.examples import test_sweep
from tests.unit.examples.test_sweep import TRAIN, entry

sys.path[:0] = [str(ROOT / "examples" / "sga"), str(ROOT / "examples" / "miniature")]

import ledger as ledgers  # noqa: E402

from data_prep.score import System, score_systems  # noqa: E402

runner = test_sweep.runner


def test_the_code_with_the_most_finals_is_shown(tmp_path):
    """Not the one with the most entries; of equals the later one in the file."""

    def entry_of(code, number, phase, status="done"):
        return {"key": f"{phase}{number}", "code": code, "phase": phase, "status": status}

    path = tmp_path / "ledger.json"
    tuned = [entry_of("a", number, "tune") for number in range(5)]
    failed = [entry_of("b", number, "final", "failed") for number in range(5)]
    entries = [*tuned, *failed, entry_of("b", 9, "final"), *(entry_of("c", number, "final") for number in range(2))]
    path.write_text(json.dumps({"format": ledgers.FORMAT, "entries": entries}), encoding="utf-8")
    shown = ledgers.Ledger(path, "today").largest()
    assert shown.code == "c" and len(shown.current()) == 2 and len(shown.foreign()) == 11
    assert ledgers.Ledger(tmp_path / "none.json", "today").largest().code == "today"


def test_finals_have_their_own_minutes_and_cover_everything(runner):
    plan = runner(directions=["en-de", "de-en"]).plan
    chosen = {arm.name: arm.grid[1] for arm in plan.arms}
    jobs = plan.final(chosen)
    assert {job.minutes for job in jobs} == {2} and {job.minutes for job in plan.tuning()} == {1}
    assert {job.options for job in jobs} == {("--lr", "0.2")}
    found = [(job.seed, job.pair, job.arm.name) for job in jobs]
    assert found == [(s, pair, arm) for s in (1, 2, 3) for pair in ("en-de", "de-en") for arm in ("good", "bad")]
    assert len({job.key for job in [*jobs, *plan.tuning()]}) == 12 + 4


def test_a_run_gets_its_own_seed_pair_and_hours(runner, tmp_path, monkeypatch):
    """And where runs share the machine, they share its cores."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    arm = entry(train=TRAIN + "; echo {seed} {pair} {hours} $OMP_NUM_THREADS > {out}/{run}/given", grid=[["--lr", 0.1]])
    made = runner(arms={"good": arm}, claims=[], seeds=[4, 7], minutes={"tune": 1, "final": 30})
    made.run("")
    given = sorted(path.read_text().split() for path in tmp_path.glob("out/*/final/*/*/*/given"))
    assert [words[:3] for words in given] == [["4", "en-de", "0.5"], ["7", "en-de", "0.5"]]
    assert {words[3] for words in given} == {"3"}


@pytest.mark.parametrize("score", ["bleu", "chrf"])
def test_a_claim_is_tested_as_the_score_command_does(runner, tmp_path, score):
    """By the score of the plan, with the reference of the seed and the runs of the two arms."""
    made = runner(reference="{data}/own.{seed}.{target}", score=score, arms={"good": entry("e"), "bad": entry("x")})
    texts = {"good": ["a b c d e", "f g h", "i j k l m"], "bad": ["a b c d x", "f g", "i j k l m"]}
    for name, lines in texts.items():
        for seed in (1, 2):
            folder = made.keep / f"{name}{seed}"
            folder.mkdir(parents=True)
            (folder / "best.de").write_text("\n".join(lines * 4) + "\n", encoding="utf-8")
    references = {1: ["a b c d e", "f g h", "i j k l m"] * 4, 2: ["a b c d x", "f g", "i j k"] * 4}
    for seed, lines in references.items():
        (tmp_path / f"own.{seed}.de").write_text("\n".join(lines) + "\n", encoding="utf-8")
        found = made.scores.difference(made.plan.claims[0], (f"good{seed}", f"bad{seed}"), "en-de", seed)
        systems = [System(name, texts[name] * 4) for name in ("bad", "good")]
        rows = score_systems(systems, lines, metrics=("chrf", "bleu"))["systems"]
        assert found == (pytest.approx(rows[1][score] - rows[0][score]), rows[1]["p_values"][score])
        assert (found[0] > 0) == (seed == 1)
        assert seed == 1 or rows[1]["p_values"]["chrf"] != rows[1]["p_values"]["bleu"], "so that one is no other"
