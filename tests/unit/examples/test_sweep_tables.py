"""What the tables of a sweep say: verdicts of claims, and what is kept of a validation."""

import sys

import pytest
from matplotlib.figure import Figure

from tests.conftest import ROOT
from tests.unit.examples.test_sweep import entry, write_plan

sys.path[:0] = [str(ROOT / "examples" / "miniature")]

import plan as plans  # noqa: E402
from plan import read_plan  # noqa: E402

from examples.recipes import choice, claims, plots, tables  # noqa: E402  # noqa: E402
from examples.recipes import ledger as ledgers  # noqa: E402


def verdict_alone(differences, p_values):
    """Cells of a claim that is the only one of its page."""
    found = claims.Outcome(differences, p_values, seeds=3)
    return found.cells(*claims.holm([found.p_value()]))


@pytest.mark.parametrize(
    ("differences", "p_values", "verdict"),
    [
        ([1, 1, 2], [0.01, 0.04, 0.3], "shown"),
        ([1, 1, 2], [0.01, 0.06, 0.3], "not shown: not significant"),
        ([1, -0.1, 2], [0.01, 0.01, 0.01], "not shown: signs differ"),
        ([-1, -1, -2], [0.01, 0.01, 0.2], "refuted"),
        ([-1, -1, -2], [0.3, 0.01, 0.2], "not shown: the other way, not significant"),
        ([1, 1], [0.01, 0.01], "open, 2 of 3 seeds"),
    ],
)
def test_verdicts(differences, p_values, verdict):
    assert verdict_alone(differences, p_values)[-1] == verdict


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([1.0, 1.5, 2.0], "shown"),
        ([1.0, 2.0, 3.0], "not shown: not significant"),  # t = 3.46 of 4.30
        ([2.0, 2.0, 2.0], "shown"),
        ([0.1, 0.2, 3.0], "not shown: not significant"),
        ([-1.0, -1.1, -0.9], "refuted"),
    ],
)
def test_verdicts_by_the_spread_of_the_seeds(differences, verdict):
    text, _, found = verdict_alone(differences, [claims._t_test(differences)])
    assert found == verdict
    p_values = {1.5: " (0.035)", 2.0: " (0.074)"}
    if differences[0] == 1.0:
        assert text.endswith(p_values[differences[1]]), "Student's t of two degrees of freedom, from a table"


def test_holm_by_hand():
    assert claims.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert claims.holm([0.5, 0.5, 0.9]) == [1.0, 1.0, 1.0] and claims.holm([]) == []


@pytest.mark.parametrize("by_spread", [True, False], ids=["t-test", "bootstrap"])
def test_a_page_of_claims_is_corrected_together(by_spread, tmp_path):
    """A claim that would be shown alone is not, beside others; those that are open or whose signs differ count too."""
    rows = {"strong": ([2.0, 2.1, 1.9], 0.002), "weak": ([1.0, 1.5, 2.0], 0.035), "mixed": ([1.0, -1.0, 1.0], 0.001)}
    arms = {name: plans.Arm(name, "", "", {"out": ""}, ((),)) for name in ["base", *rows]}
    claims = tuple(plans.Claim((name, "out"), ("base", "out")) for name in rows)
    plan = plans.Plan(
        *("probe", "", (), (), (), "", ("a-b",), (1, 2, 3), {"tune": 1, "final": 1}, tuple(arms.values()), claims),
        metrics={"a-b": "bleu"} if by_spread else None,
    )
    ledger = ledgers.Ledger(tmp_path / "ledger.json", "code")
    for seed in plan.seeds:
        for name in arms:
            score = 10 + (rows[name][0][seed - 1] if name in rows else 0)
            place = {"arm": name, "pair": "a-b", "seed": seed, "phase": "final"}
            ledger.put({"key": f"{name}{seed}", "status": "done", **place, "outputs": {"out": {"bleu": score}}})
        results = [
            {"claim": number, "difference": differences[seed - 1], "p": p}
            for number, (differences, p) in enumerate(rows.values())
        ]
        ledger.put({"key": f"claims/a-b/seed{seed}", "status": "done", "results": results})
    verdicts = {row.split(" (out)")[0][2:]: row.split(" | ")[-1] for row in tables._claims(plan, ledger).splitlines()}
    assert verdicts["strong"] == "shown |" and verdicts["mixed"] == "not shown: signs differ |"
    assert verdicts["weak"] == "not shown: not significant |", "twice 0.035"


def made(tmp_path, **changes):
    """A plan without tuning, and its ledger with a finished final of every arm, direction and seed."""
    arms = {name: entry(grid=[["--lr", 0.1]]) for name in ("good", "bad")}
    plan = read_plan(write_plan(tmp_path, **{"arms": arms, **changes}))
    ledger = ledgers.Ledger(tmp_path / "ledger.json", "code")
    numbers = {"phase": "final", "status": "done", "commit": "c", "updates": 7, "train_seconds": 90.0, "outputs": {}}
    for job in plan.final({arm.name: 0 for arm in plan.arms}):
        facts = {"arm": job.arm.name, "pair": job.pair, "seed": job.seed, "trained_parameters": 5, **numbers}
        ledger.put({"key": job.key, "options": list(job.options), **facts})
    return plan, ledger


def test_scores_and_validations_may_be_negative(tmp_path):
    """COMET and correlations are: a missing one is not better, and the best is not 0."""
    metrics = {"xnli": "comet", "ner": "f1"}
    plan, ledger = made(tmp_path, directions=["xnli", "ner"], metrics=metrics, claims=[])
    for one in list(ledger.entries):
        sign = 1 if one["pair"] == "ner" else -1
        curve = [{"num_updates": step, "loss": 3.0, metrics[one["pair"]]: sign * step / 2} for step in (3, 1, 2)]
        values = {"en": sign * 0.75 * one["seed"], "de": sign * 0.25 * one["seed"]}
        ledger.put({**one, "validation": curve, "outputs": {"best": {"subsets": values}}})
    page = tables.render(plan, ledger, "code")
    assert "| good | greedy | -0.5 | -1.0 | -1.5 | -1.0 ± 0.5 (n = 3) | 0.5 | 1.0 | 1.5 | 1.0 ± 0.5 (n = 3) |" in page
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| final/")]
    assert {row[0].split("/")[1]: row[-2] for row in rows} == {"xnli": "-0.5", "ner": "1.5"}
    axis = Figure().subplots()
    plots._parameters(axis, plan, ledger.current(), "xnli")
    assert [float(line.get_ydata()[0]) for line in axis.lines if len(line.get_xdata())] == [-1.0, -1.0]


@pytest.mark.parametrize(
    ("metric", "validations", "chosen"),
    [
        ("bleu", ([-0.5], [-0.3]), 1),
        ("bleu", ([-0.3], [-0.5]), 0),
        ("bleu", ([-0.3], []), 0),
        ("bleu", ([], [-0.3]), 1),
        ("loss", ([1.0, 3.0], [2.0, 2.0]), 0),  # where the task logs no other metric: the lowest, not the last
        ("loss", ([3.0, 1.5], [2.0, 1.0]), 1),
    ],
)
def test_the_best_validation_is_chosen(tmp_path, metric, validations, chosen):
    plan = read_plan(write_plan(tmp_path, arms={"good": entry()}, claims=[]))
    ledger = ledgers.Ledger(tmp_path / "ledger.json", "code")
    for job, values in zip(plan.tuning(), validations):
        points = [{"loss": 1.0, metric: value} for value in values]
        ledger.put({"key": job.key, "phase": "tune", "status": "done", "validation": points})
    assert choice.choose(plan, ledger) == {"good": chosen}
