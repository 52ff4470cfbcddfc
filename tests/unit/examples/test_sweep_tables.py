"""What the tables of a sweep say: verdicts of claims, and what is kept of a validation."""

import sys
from typing import List

import pytest

from tests.conftest import ROOT

sys.path[:0] = [str(ROOT / "examples" / "sga"), str(ROOT / "examples" / "miniature")]

import record  # noqa: E402
import tables  # noqa: E402


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


def test_validation_points_of_one_or_several_subsets() -> None:
    assert record.validation_point({"valid_loss": "1", "valid_bleu": "30", "valid_num_updates": "5"}) == {
        "num_updates": 5.0,
        "loss": 1.0,
        "bleu": 30.0,
    }
    assert record.validation_point({"valid.en_loss": "2", "valid.en_f1": "40"}) == {"loss": 2.0, "f1": 40.0}
    assert record.validation_point({"train_loss": "2"}) == {}
