"""The plot of a study, from its ledger alone: the same ledger gives the same bytes.

Panels: the test score of every run, validation over the training, and, where systems differ in
them, the test score over trained parameters.
"""

import io
import itertools
from typing import Any, Dict, List, Sequence, Tuple

from . import tables
from .arms import Arm
from .ledger import Ledger, score_of
from .studies import Study

Entries = Sequence[Dict[str, Any]]


class MissingLibrary(RuntimeError):
    """matplotlib is not installed."""


COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"]
COLOURS += ["#8c564b", "#b8a800", "#882255", "#44aa99", "#332288", "#ff6b6b"]
STYLE = {
    "svg.hashsalt": "fairseq_plugins",  # ids in the file come from this instead of a random number
    "svg.fonttype": "none",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": f"cycler('color', {COLOURS})",
}


def render(study: Study, ledger: Ledger) -> str:
    """Return one SVG with a row of panels per direction; names have the systems' colours.

    Raises:
        MissingLibrary: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise MissingLibrary("plots need matplotlib: pip install -e '.[plots]'") from error
    matplotlib.use("svg")
    finals = [entry for entry in ledger.finals() if entry["status"] == "done"]
    scored = any(entry.get("outputs") for entry in finals)
    panels = [_draw_scores, _draw_curves] if scored else [_draw_curves]
    if scored and differ_in_parameters(finals):
        panels.append(_draw_parameters)
    with matplotlib.rc_context(STYLE):
        from matplotlib import pyplot

        rows, columns = len(study.directions), len(panels)
        height = 0.8 + 0.28 * sum(len(arm.outputs) for arm in study.arms) if scored else 3.6
        size = (4.5 * columns, max(height, 2.4) * rows)
        figure, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False)
        for row, pair in zip(axes, study.directions):
            entries = [entry for entry in finals if entry["pair"] == pair]
            for axis, draw in zip(row, panels):
                draw(axis, study, entries, pair)
        figure.tight_layout()
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _list_scores(study: Study, finals: Entries, arm: Arm, output: str, pair: str) -> List[float]:
    """List the test scores of an output, of the seeds that have it."""
    scores = [score_of(finals, arm.name, output, pair, seed, study.score) for seed in study.seeds]
    return [score for score in scores if score is not None]


def _draw_scores(axis: Any, study: Study, finals: Entries, pair: str) -> None:
    """Draw test scores: a dot per seed, a bar at the mean; systems in the order of the table."""
    labels: List[str] = []
    colours: List[str] = []
    for number, arm in enumerate(study.arms):
        for output, title in arm.outputs.items():
            scores = _list_scores(study, finals, arm, output, pair)
            if not scores:
                continue
            place, colour = len(labels), f"C{number}"
            labels.append(f"{arm.name}, {title}")
            colours.append(colour)
            axis.plot(scores, [place] * len(scores), "o", color=colour, markersize=4, alpha=0.7)
            axis.plot([sum(scores) / len(scores)], [place], "|", color=colour, markersize=14)
    axis.set_yticks(range(len(labels)), labels)
    for label, colour in zip(axis.get_yticklabels(), colours):
        label.set_color(colour)
    axis.set_ylim(len(labels) - 0.5, -0.5)
    score = study.metric(pair) if study.metrics else tables.name_score(study)
    axis.set_xlabel(f"test {score}, {pair}: dots are seeds, the bar their mean")
    axis.grid(axis="x", linewidth=0.3)


def _draw_curves(axis: Any, study: Study, finals: Entries, pair: str) -> None:
    """Draw validation scores over minutes or updates, whichever limits the runs: a line per run.

    The panel of test scores names the colours; without it there is a legend.
    """
    timed = "updates" not in study.budget["final"]
    for number, arm in enumerate(study.arms):
        entries = [entry for entry in finals if entry["arm"] == arm.name]
        for place, entry in enumerate(entries):
            places, scores = curve(entry, study.metric(pair), timed)
            label = "" if place else arm.name
            axis.plot(places, scores, "-", color=f"C{number}", linewidth=0.9, label=label)
    if not any(entry.get("outputs") for entry in finals):
        axis.legend(frameon=False, fontsize=6)
    minutes = "minutes of training (updates × time of an update)"
    axis.set_xlabel(minutes if timed else tables.name_updates(finals))
    axis.set_ylabel(f"validation {study.metric(pair) if study.metrics else 'BLEU'}, {pair}")
    axis.grid(linewidth=0.3)


def differ_in_parameters(finals: Entries) -> bool:
    """Return True if a system trains at least 1.5 times as many parameters as another."""
    counts = [entry["trained_parameters"] for entry in finals if entry.get("trained_parameters")]
    return bool(counts) and max(counts) >= 1.5 * min(counts)


def _draw_parameters(axis: Any, study: Study, finals: Entries, pair: str) -> None:
    """Draw the mean test score over trained parameters.

    There is a mark per system at its best output, or one per test set where outputs are test sets.
    """
    from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

    marks = marks_of_test_sets(study)
    for number, arm in enumerate(study.arms):
        entries = [entry for entry in finals if entry["arm"] == arm.name]
        counts = [entry.get("trained_parameters") for entry in entries]
        counts = [count for count in counts if count]
        means: Dict[str, List[float]] = {}
        for output in arm.outputs:
            scores = _list_scores(study, finals, arm, output, pair)
            if scores:
                means.setdefault(marks.get(output, "o"), []).append(sum(scores) / len(scores))
        for mark, heights in means.items() if counts else ():
            axis.plot([counts[0]], [max(heights)], mark, color=f"C{number}", markersize=5)
    for output, mark in marks.items():
        axis.plot([], [], mark, color="black", markersize=5, label=output)
    if marks:
        axis.legend(frameon=False)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_major_formatter(EngFormatter())
    axis.xaxis.set_minor_locator(NullLocator())
    meaning = "mean of the seeds" if marks else "mean of the seeds, best output"
    axis.set_xlabel(f"trained parameters (score: {meaning})")
    score = study.metric(pair) if study.metrics else tables.name_score(study)
    axis.set_ylabel(f"test {score}, {pair}")
    axis.grid(linewidth=0.3)


def marks_of_test_sets(study: Study) -> Dict[str, str]:
    """Return a mark per output if the outputs are test sets, nothing if they are decodings."""
    if not study.metrics:
        return {}
    outputs = dict.fromkeys(output for arm in study.arms for output in arm.outputs)
    return dict(zip(outputs, itertools.cycle("o^svDPX*")))


def curve(entry: Dict[str, Any], metric: str, timed: bool) -> Tuple[List[float], List[float]]:
    """Return the places and the validation scores of a run.

    Args:
        entry: of the run.
        metric: of validation.
        timed: True = places are minutes of all stages; False = updates of the last stage.
    """
    points = [point for point in entry.get("validation", []) if metric in point]
    scores = [point[metric] for point in points]
    if not timed:
        return [point["num_updates"] for point in points], scores
    minutes_per_update = entry.get("train_seconds", 0.0) / 60 / max(entry.get("updates", 0), 1)
    earlier = entry.get("earlier_updates", 0)
    return [(earlier + point["num_updates"]) * minutes_per_update for point in points], scores
