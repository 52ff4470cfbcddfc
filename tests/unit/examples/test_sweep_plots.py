"""Plots of the sweeps that are shipped: what stands where."""

import sys
from typing import Any, Dict, List, Tuple

import matplotlib
from matplotlib.figure import Figure

from tests.conftest import ROOT

sys.path[:0] = [str(ROOT / "examples" / "sga"), str(ROOT / "examples" / "miniature")]

import ledger as ledgers  # noqa: E402
import plots  # noqa: E402
import sweep  # noqa: E402
from plan import read_plan  # noqa: E402

matplotlib.use("svg")


def panel(name: str, pair: str) -> Any:
    """The panel of the parameters of a sweep that is shipped."""
    plan = read_plan(ROOT / "examples" / "miniature" / f"{name}.yaml")
    ledger = ledgers.Ledger(sweep.ledger_path(plan), "").largest()
    finals = [one for one in ledger.current() if one.get("phase") == "final" and one["status"] == "done"]
    axis: Any = Figure().subplots()
    plots._parameters(axis, plan, finals, pair)
    return axis


def marks(name: str, pair: str) -> Tuple[List[str], Dict[Tuple[str, float], List[float]]]:
    """The legend of that panel; scores by mark and number of parameters."""
    axis = panel(name, pair)
    found: Dict[Tuple[str, float], List[float]] = {}
    for line in axis.lines:
        if len(line.get_xdata()):
            found.setdefault((line.get_marker(), float(line.get_xdata()[0])), []).append(float(line.get_ydata()[0]))
    legend = axis.get_legend()
    return [text.get_text() for text in legend.get_texts()] if legend else [], found


def test_each_test_set_has_a_mark_of_its_own() -> None:
    """German of one system does not stand for French of another."""
    legend, found = marks("sga_shared", "x-en")
    assert legend == ["test.trained", "test.de", "test.fr"]
    mean, german, french = (found[mark, 1049600.0][0] for mark in "o^s")
    assert abs(mean - (german + french) / 2) < 0.01 and len({mean, german, french}) == 3
    assert ("o", 393219.0) not in found and {("^", 393219.0), ("s", 393219.0)} < set(found), "one language is no mean"


def test_decodings_of_one_test_set_share_a_mark() -> None:
    """The best of them stands for the system."""
    legend, found = marks("sga_systems", "de-en")
    assert not legend and {mark for mark, _ in found} == {"o"}
    plan = read_plan(ROOT / "examples" / "miniature" / "sga_systems.yaml")
    assert sum(len(scores) for scores in found.values()) == len(plan.arms) < sum(len(a.outputs) for a in plan.arms)


def test_parameters_are_labelled_by_round_numbers() -> None:
    """Within one decade too, where matplotlib writes labels over each other."""
    axis = panel("sga_shared_peers", "x-en")
    assert not axis.get_xticks(minor=True).size
    low, high = axis.get_xlim()
    labels = [label.get_text() for label in axis.get_xticklabels() if low <= label.get_position()[0] <= high]
    assert labels == ["500 k", "1 M", "2 M", "5 M"]
