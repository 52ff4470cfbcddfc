"""The plot of a study, from its ledger alone: the same ledger gives the same bytes.

Test score of every run, how validation BLEU rose, and, where systems differ in them, test score over trained parameters.
"""

import io
import itertools
from typing import Any, Dict, List, Sequence, Tuple

from . import tables
from .ledger import LOWEST, Ledger, score_of
from .studies import Study


class MissingLibrary(RuntimeError):
    """matplotlib is not installed."""


COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999", "#8c564b", "#b8a800"]
COLOURS += ["#882255", "#44aa99", "#332288", "#ff6b6b"]
STYLE = {
    "svg.hashsalt": "fairseq_plugins",  # ids in the file come from this instead of a random number
    "svg.fonttype": "none",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": f"cycler('color', {COLOURS})",
}


def render(study: Study, ledger: Ledger) -> str:
    """One SVG: a row of panels a direction; that of the parameters where systems differ in them. Names have the systems' colours.

    Raises:
        MissingLibrary: no matplotlib.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise MissingLibrary("plots need matplotlib: pip install -e '.[plots]'") from error
    matplotlib.use("svg")
    finals = [one for one in ledger.current() if one.get("phase") == "final" and one["status"] == "done"]
    with matplotlib.rc_context(STYLE):
        from matplotlib import pyplot

        scored = any(one.get("outputs") for one in finals)
        panels = [
            *([_strip] if scored else []),
            _curves,
            *([_parameters] if scored and differ_in_parameters(finals) else []),
        ]
        rows, columns = len(study.directions), len(panels)
        height = 0.8 + 0.28 * sum(len(arm.outputs) for arm in study.arms) if scored else 3.6
        size = (4.5 * columns, max(height, 2.4) * rows)
        figure, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False)
        for row, pair in zip(axes, study.directions):
            here = [one for one in finals if one["pair"] == pair]
            for axis, panel in zip(row, panels):
                panel(axis, study, here, pair)
        figure.tight_layout()
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _strip(axis: Any, study: Study, finals: Sequence[Dict[str, Any]], pair: str) -> None:
    """Test score: a dot a seed, a bar at the mean; systems from top to bottom as in the table."""
    labels: List[str] = []
    colours: List[str] = []
    for number, arm in enumerate(study.arms):
        for output, text in arm.outputs.items():
            scores = [score_of(finals, arm.name, output, pair, seed, study.score) for seed in study.seeds]
            found = [score for score in scores if score is not None]
            if not found:
                continue
            place, colour = len(labels), f"C{number}"
            labels.append(f"{arm.name}, {text}")
            colours.append(colour)
            axis.plot(found, [place] * len(found), "o", color=colour, markersize=4, alpha=0.7)
            axis.plot([sum(found) / len(found)], [place], "|", color=colour, markersize=14)
    axis.set_yticks(range(len(labels)), labels)
    for label, colour in zip(axis.get_yticklabels(), colours):
        label.set_color(colour)
    axis.set_ylim(len(labels) - 0.5, -0.5)
    axis.set_xlabel(
        f"test {study.metric(pair) if study.metrics else tables.named(study)}, {pair}: dots are seeds, the bar their mean"
    )
    axis.grid(axis="x", linewidth=0.3)


def _curves(axis: Any, study: Study, finals: Sequence[Dict[str, Any]], pair: str) -> None:
    """Validation BLEU over what limits the trainings, minutes or updates: a line per run, a colour per system.

    The names stand beside the test scores; where there are none, here.
    """
    timed = "updates" not in study.budget["final"]
    for number, arm in enumerate(study.arms):
        runs = [curve(one, study.metric(pair), timed) for one in finals if one["arm"] == arm.name]
        for place, (places, scores) in enumerate(runs):
            axis.plot(places, scores, "-", color=f"C{number}", linewidth=0.9, label="" if place else arm.name)
    if not any(one.get("outputs") for one in finals):
        axis.legend(frameon=False, fontsize=6)
    axis.set_xlabel("minutes of training (updates × time of an update)" if timed else tables.updates_of(finals))
    axis.set_ylabel(f"validation {study.metric(pair) if study.metrics else 'BLEU'}, {pair}")
    axis.grid(linewidth=0.3)


def differ_in_parameters(finals: Sequence[Dict[str, Any]]) -> bool:
    """True where one system trains at least half as many parameters again as another."""
    counts = [one["trained_parameters"] for one in finals if one.get("trained_parameters")]
    return bool(counts) and max(counts) >= 1.5 * min(counts)


def _parameters(axis: Any, study: Study, finals: Sequence[Dict[str, Any]], pair: str) -> None:
    """Mean test score over trained parameters: a mark a system at its best output, or a mark a test set (these do not compare)."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

    marks = marks_of_test_sets(study)
    for number, arm in enumerate(study.arms):
        counts = [
            one["trained_parameters"] for one in finals if one["arm"] == arm.name and one.get("trained_parameters")
        ]
        means: Dict[str, float] = {}
        for output in arm.outputs:
            scores = [score_of(finals, arm.name, output, pair, seed, study.score) for seed in study.seeds]
            found = [one for one in scores if one is not None]
            mark = marks.get(output, "o")
            if found:
                means[mark] = max(sum(found) / len(found), means.get(mark, LOWEST))
        for mark, mean in means.items() if counts else ():
            axis.plot([counts[0]], [mean], mark, color=f"C{number}", markersize=5)
    for output, mark in marks.items():
        axis.plot([], [], mark, color="black", markersize=5, label=output)
    if marks:
        axis.legend(frameon=False)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_major_formatter(EngFormatter())
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel(f"trained parameters (score: mean of the seeds{'' if marks else ', best output'})")
    score = study.metric(pair) if study.metrics else tables.named(study)
    axis.set_ylabel(f"test {score}, {pair}")
    axis.grid(linewidth=0.3)


def marks_of_test_sets(study: Study) -> Dict[str, str]:
    """A mark for each output where outputs are test sets, as STEM.LANGUAGE; none where they are decodings of one set."""
    outputs = list(dict.fromkeys(output for arm in study.arms for output in arm.outputs)) if study.metrics else []
    return dict(zip(outputs, itertools.cycle("o^svDPX*")))


def curve(entry: Dict[str, Any], metric: str, timed: bool) -> Tuple[List[float], List[float]]:
    """Minutes of all stages, or else updates of the last one, and validation score of a run."""
    points = [point for point in entry.get("validation", []) if metric in point]
    unit = entry.get("train_seconds", 0.0) / 60 / max(entry.get("updates", 0), 1) if timed else 1
    earlier = entry.get("earlier_updates", 0) if timed else 0
    return [(earlier + point["num_updates"]) * unit for point in points], [point[metric] for point in points]
