"""Test verdicts about claims: of a single claim, and corrected over the claims of a page."""

import pytest

from examples.recipes import claims, tables
from examples.recipes.ledger import Ledger
from examples.recipes.studies import read_study
from tests.unit.recipes.builders import write_study


def describe(differences, p_values):
    """Return the cells of a claim that is the only one of its page."""
    outcome = claims.Outcome(differences, p_values, seeds=3)
    return outcome.cells(*claims.holm([outcome.p_value()]))


@pytest.mark.cases(
    "differences p_values verdict",
    ([1, 1, 2], [0.01, 0.04, 0.3], "shown"),
    ([1, 1, 2], [0.01, 0.06, 0.3], "not shown: not significant"),
    ([1, -0.1, 2], [0.01, 0.01, 0.01], "not shown: signs differ"),
    ([-1, -1, -2], [0.01, 0.01, 0.2], "refuted"),
    ([-1, -1, -2], [0.3, 0.01, 0.2], "not shown: the other way, not significant"),
    ([1, 1], [0.01, 0.01], "open, 2 of 3 seeds"),
)
def test_verdicts_by_bootstraps(differences, p_values, verdict):
    assert describe(differences, p_values)[-1] == verdict


@pytest.mark.cases(
    "differences p_value verdict",
    ([1.0, 1.5, 2.0], " (0.035)", "shown"),  # Student's t of two degrees of freedom, from a table
    ([1.0, 2.0, 3.0], " (0.074)", "not shown: not significant"),  # t = 3.46 of 4.30
    ([2.0, 2.0, 2.0], " (< 0.001)", "shown"),
    ([-1.0, -1.1, -0.9], "", "refuted"),
)
def test_verdicts_by_the_spread_of_the_seeds(differences, p_value, verdict):
    text, _, last = describe(differences, [claims._t_test(differences)])
    assert last == verdict and p_value in text


def test_holm_by_hand():
    p_values = [0.01, 0.04, 0.03, 0.005]
    assert claims.holm(p_values) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert claims.holm([0.5, 0.5, 0.9]) == [1.0, 1.0, 1.0] and claims.holm([]) == []


@pytest.mark.parametrize("by_spread", [True, False], ids=["t-test", "bootstrap"])
def test_claims_of_a_page_are_corrected_together(by_spread, tmp_path):
    """Count open claims and those whose signs differ, too: weak is significant only by itself."""
    differences = {"strong": [2.0, 2.1, 1.9], "weak": [1.0, 1.5, 2.0], "mixed": [1.0, -1.0, 1.0]}
    p_values = {"strong": 0.002, "weak": 0.035, "mixed": 0.001}
    names = ["base", *differences]
    outputs = {"out": {"title": "beam 5"}}
    study = read_study(
        write_study(
            tmp_path,
            arms={name: {"system": "at", "outputs": outputs} for name in names},
            claims=[{"better": [name, "out"], "worse": ["base", "out"]} for name in differences],
            directions=["a-b"],
            seeds=[1, 2, 3],
            **({"metrics": {"a-b": "bleu"}} if by_spread else {}),
        )
    )
    ledger = Ledger(tmp_path / "ledger.json", "code")
    for seed in study.seeds:
        for name in names:
            score = 10 + (differences[name][seed - 1] if name in differences else 0)
            run = {"arm": name, "pair": "a-b", "seed": seed, "phase": "final", "status": "done"}
            ledger.put({"key": f"{name}{seed}", **run, "outputs": {"out": {"bleu": score}}})
        results = [
            {"claim": number, "difference": differences[name][seed - 1], "p": p_values[name]}
            for number, name in enumerate(differences)
        ]
        ledger.put({"key": f"claims/a-b/seed{seed}", "status": "done", "results": results})
    rows = tables._tabulate_claims(study, ledger).splitlines()
    verdicts = {row.split(" (beam 5)")[0][2:]: row.split(" | ")[-1] for row in rows}
    assert verdicts["strong"] == "shown |" and verdicts["mixed"] == "not shown: signs differ |"
    assert verdicts["weak"] == "not shown: not significant |"
