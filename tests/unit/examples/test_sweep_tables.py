"""What the tables of a sweep say: verdicts of claims, and what is kept of a validation."""

import sys
from pathlib import Path
from typing import Any, List

import pytest
from matplotlib.figure import Figure

from tests.conftest import ROOT
from tests.unit.examples.test_miniature import entry, write_plan

sys.path[:0] = [str(ROOT / "examples" / "sga"), str(ROOT / "examples" / "miniature")]

import ledger as ledgers  # noqa: E402
import plots  # noqa: E402
import record  # noqa: E402
import tables  # noqa: E402
from plan import read_plan  # noqa: E402


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([(1, 0.01), (1, 0.04), (2, 0.3)], "shown"),
        ([(1, 0.01), (1, 0.06), (2, 0.3)], "not shown: not significant"),
        ([(1, 0.01), (-0.1, 0.01), (2, 0.01)], "not shown: signs differ"),
        ([(-1, 0.01), (-1, 0.01), (-2, 0.2)], "refuted"),
        ([(1, 0.01), (1, 0.01)], "open, 2 of 3 seeds"),
    ],
)
def test_verdicts(differences: List, verdict: str) -> None:
    found = [{"difference": difference, "p": p} for difference, p in differences]
    assert tables._verdict(found, 3)[1] == verdict


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([1.0, 1.5, 2.0], "shown"),
        ([1.0, 2.0, 3.0], "not shown: within the spread of the seeds"),  # t = 3.46 of 4.30
        ([2.0, 2.0, 2.0], "shown"),
        ([0.1, 0.2, 3.0], "not shown: within the spread of the seeds"),
        ([1.0, -1.0, 2.0], "not shown: signs differ"),
        ([-1.0, -1.1, -0.9], "refuted"),
        ([1.0, 1.0], "open, 2 of 3 seeds"),
    ],
)
def test_verdicts_by_the_spread_of_the_seeds(differences: List[float], verdict: str) -> None:
    text, found = tables._spread_verdict(differences, 3)
    assert found == verdict
    p_values = {1.5: " (0.035)", 2.0: " (0.074)"}
    if len(differences) == 3 and differences[0] == 1.0 and differences[1] > 0:
        assert text.endswith(p_values[differences[1]]), "Student's t of two degrees of freedom, from a table"


def made(tmp_path: Path, **changes: Any) -> Any:
    """A plan without tuning, and its ledger with a finished final of every arm, direction and seed."""
    arms = {name: entry(grid=[["--lr", 0.1]]) for name in ("good", "bad")}
    plan = read_plan(write_plan(tmp_path, **{"arms": arms, **changes}))
    ledger = ledgers.Ledger(tmp_path / "ledger.json", "code")
    for job in plan.final({arm.name: arm.grid[0] for arm in plan.arms}):
        facts = {
            "phase": "final",
            "status": "done",
            "arm": job.arm.name,
            "pair": job.pair,
            "seed": job.seed,
            "commit": "c",
        }
        numbers = {"updates": 7, "train_seconds": 90.0, "trained_parameters": 5}
        ledger.put({"key": job.key, "options": list(job.options), "outputs": {}, **facts, **numbers})
    return plan, ledger


def test_each_claim_has_the_differences_of_its_direction(tmp_path: Path) -> None:
    sides = [["good", "best"], ["bad", "best"]]
    claims = [{"better": better, "worse": worse} for better, worse in (sides, sides[::-1])]
    plan, ledger = made(tmp_path, directions=["en-de", "de-en"], claims=claims)
    for place, pair in enumerate(plan.directions):
        for seed in plan.seeds:
            values = [10.0 * place + seed, -10.0 * place - seed]
            results = [{"claim": number, "difference": value, "p": 0.001} for number, value in enumerate(values)]
            ledger.put({"key": f"claims/{pair}/seed{seed}", "status": "done", "results": results})
    page = tables.render(plan, ledger)
    for first, second, pair, base in (("good", "bad", "en-de", 0), ("good", "bad", "de-en", 10)):
        numbers = [f"{base + seed:.1f} (0.001)" for seed in plan.seeds]
        assert f"| {first} (best) better than {second} (best) | {pair} | +{', +'.join(numbers)} |" in page
        assert f"| {second} (best) better than {first} (best) | {pair} | -{', -'.join(numbers)} |" in page
    assert "| done | 7 | 1.5 | 5 |" in page, "updates, minutes, parameters"


def test_scores_and_validations_may_be_negative(tmp_path: Path) -> None:
    """COMET and correlations are: a missing one is not better, and the best is not 0."""
    metrics = {"xnli": "comet", "ner": "f1"}
    plan, ledger = made(tmp_path, directions=["xnli", "ner"], metrics=metrics, claims=[])
    for one in list(ledger.entries):
        sign = 1 if one["pair"] == "ner" else -1
        curve = [{"num_updates": step, "loss": 3.0, metrics[one["pair"]]: sign * step / 2} for step in (3, 1, 2)]
        values = {"en": sign * 0.75 * one["seed"], "de": sign * 0.25 * one["seed"]}
        ledger.put({**one, "validation": curve, "outputs": {"best": {"subsets": values}}})
    page = tables.render(plan, ledger)
    assert "| good | greedy | -0.5 | -1.0 | -1.5 | -1.0 ± 0.5 (n = 3) | 0.5 | 1.0 | 1.5 | 1.0 ± 0.5 (n = 3) |" in page
    rows = [line for line in page.splitlines() if line.startswith("| final/")]
    assert {line.split(" | ")[0].split("/")[1]: line.split(" | ")[-2] for line in rows} == {
        "xnli": "-0.5",
        "ner": "1.5",
    }
    finals = ledger.current()
    for one in finals:
        one["trained_parameters"] = 5
    axis: Any = Figure().subplots()
    plots._parameters(axis, plan, finals, "xnli")
    assert [float(line.get_ydata()[0]) for line in axis.lines if len(line.get_xdata())] == [-1.0, -1.0]


@pytest.mark.parametrize(
    ("first", "second", "chosen"), [(-0.5, -0.3, 1), (-0.3, -0.5, 0), (-0.3, None, 0), (None, -0.3, 1)]
)
def test_the_best_of_negative_validations_is_chosen(tmp_path: Path, first: Any, second: Any, chosen: int) -> None:
    plan = read_plan(write_plan(tmp_path, arms={"good": entry()}, claims=[]))
    ledger = ledgers.Ledger(tmp_path / "ledger.json", "code")
    for job, value in zip(plan.tuning(), (first, second)):
        points = [] if value is None else [{"bleu": value, "loss": 1.0}]
        ledger.put({"key": job.key, "phase": "tune", "status": "done", "validation": points})
    assert tables.choose(plan, ledger) == {"good": plan.arms[0].grid[chosen]}


@pytest.mark.parametrize(("losses", "chosen"), [(([1.0, 3.0], [2.0, 2.0]), 0), (([3.0, 1.5], [2.0, 1.0]), 1)])
def test_an_arm_is_chosen_by_its_lowest_loss(tmp_path: Path, losses: Any, chosen: int) -> None:
    """Where its task logs no other metric; not by the last one."""
    plan = read_plan(write_plan(tmp_path, arms={"good": entry()}, claims=[]))
    ledger = ledgers.Ledger(tmp_path / "ledger.json", "code")
    for job, values in zip(plan.tuning(), losses):
        points = [{"loss": value} for value in values]
        ledger.put({"key": job.key, "phase": "tune", "status": "done", "validation": points})
    assert tables.choose(plan, ledger) == {"good": plan.arms[0].grid[chosen]}


def test_validation_points_of_one_or_several_subsets() -> None:
    assert record.validation_point({"valid_loss": "1", "valid_bleu": "30", "valid_num_updates": "5"}) == {
        "num_updates": 5.0,
        "loss": 1.0,
        "bleu": 30.0,
    }
    assert record.validation_point({"valid.en_loss": "2", "valid.en_f1": "40"}) == {"loss": 2.0, "f1": 40.0}
    assert record.validation_point({"train_loss": "2"}) == {}
