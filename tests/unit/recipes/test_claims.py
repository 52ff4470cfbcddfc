"""Verdicts about claims: one alone, and corrected over those of a page."""

import pytest

from examples.recipes import claims, tables
from examples.recipes.ledger import Ledger
from examples.recipes.studies import read_study
from tests.unit.recipes.test_studies import write


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
    ("differences", "p_value", "verdict"),
    [
        ([1.0, 1.5, 2.0], " (0.035)", "shown"),  # Student's t of two degrees of freedom, from a table
        ([1.0, 2.0, 3.0], " (0.074)", "not shown: not significant"),  # t = 3.46 of 4.30
        ([2.0, 2.0, 2.0], " (< 0.001)", "shown"),
        ([-1.0, -1.1, -0.9], "", "refuted"),
    ],
)
def test_verdicts_by_the_spread_of_the_seeds(differences, p_value, verdict):
    text, _, found = verdict_alone(differences, [claims._t_test(differences)])
    assert found == verdict and p_value in text


def test_holm_by_hand():
    assert claims.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert claims.holm([0.5, 0.5, 0.9]) == [1.0, 1.0, 1.0] and claims.holm([]) == []


@pytest.mark.parametrize("by_spread", [True, False], ids=["t-test", "bootstrap"])
def test_a_page_of_claims_is_corrected_together(by_spread, tmp_path):
    """A claim that would be shown alone is not, beside others; those that are open or whose signs differ count too."""
    rows = {"strong": ([2.0, 2.1, 1.9], 0.002), "weak": ([1.0, 1.5, 2.0], 0.035), "mixed": ([1.0, -1.0, 1.0], 0.001)}
    arms = {name: {"system": "at", "outputs": {"out": {"title": "beam 5"}}} for name in ["base", *rows]}
    sides = [{"better": [name, "out"], "worse": ["base", "out"]} for name in rows]
    metrics = {"metrics": {"a-b": "bleu"}} if by_spread else {}
    study = read_study(write(tmp_path, arms=arms, claims=sides, directions=["a-b"], seeds=[1, 2, 3], **metrics))
    ledger = Ledger(tmp_path / "ledger.json", "code")
    for seed in study.seeds:
        for name in arms:
            score = 10 + (rows[name][0][seed - 1] if name in rows else 0)
            place = {"arm": name, "pair": "a-b", "seed": seed, "phase": "final"}
            ledger.put({"key": f"{name}{seed}", "status": "done", **place, "outputs": {"out": {"bleu": score}}})
        results = [
            {"claim": number, "difference": differences[seed - 1], "p": p}
            for number, (differences, p) in enumerate(rows.values())
        ]
        ledger.put({"key": f"claims/a-b/seed{seed}", "status": "done", "results": results})
    verdicts = {
        row.split(" (beam 5)")[0][2:]: row.split(" | ")[-1]
        for row in tables._tabulate_claims(study, ledger).splitlines()
    }
    assert verdicts["strong"] == "shown |" and verdicts["mixed"] == "not shown: signs differ |"
    assert verdicts["weak"] == "not shown: not significant |", "twice 0.035"
