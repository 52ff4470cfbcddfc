"""Tables and plots of retrieval: accuracies or F1 of pairs of languages by layer, and the best layer."""

from typing import Callable, Dict, NamedTuple, Sequence, Tuple

from . import plots
from .report import table


class Found(NamedTuple):
    """Results of a pair of languages in one layer; ``scores`` are by name in the JSON file.

    ``signs`` are of Tatoeba: a text for each direction, ``1`` where the sentence found its translation, else ``0``.
    """

    pair: str
    layer: int
    scores: Dict[str, float]
    signs: Tuple[str, ...] = ()


def best_layer(found: Sequence[Found], score: str) -> int:
    """The layer whose mean over the pairs is largest; the lowest of several."""
    layers = sorted({one.layer for one in found})
    return max(layers, key=lambda layer: _mean([one.scores[score] for one in found if one.layer == layer]))


def layers_table(found: Sequence[Found], shown: Callable[[Dict[str, float]], str]) -> str:
    """A row for each pair, a column for each layer, and the averages."""
    layers = sorted({one.layer for one in found})
    by_place = {(one.pair, one.layer): one.scores for one in found}
    pairs = list(dict.fromkeys(one.pair for one in found))
    rows = [[pair, *(shown(by_place[pair, layer]) for layer in layers)] for pair in pairs]
    rows.append(["average", *(shown(averages([one for one in found if one.layer == layer])) for layer in layers)])
    return table(["layer", *map(str, layers)], rows)


def scores_table(found: Sequence[Found], columns: Dict[str, Tuple[str, str]]) -> str:
    """A row for each pair, and the averages; ``columns``: score -> (header, format)."""
    shown = {name: column for name, column in columns.items() if all(name in one.scores for one in found)}
    rows = [[one.pair, *(form.format(one.scores[name]) for name, (_, form) in shown.items())] for one in found]
    mean = averages(found)
    rows.append(["average", *(form.format(mean[name]) for name, (_, form) in shown.items())])
    return table(["pair", *(header for header, _ in shown.values())], rows)


def averages(found: Sequence[Found]) -> Dict[str, float]:
    """Mean of each score that all of them have."""
    names = [name for name in found[0].scores if all(name in one.scores for one in found)]
    return {name: _mean([one.scores[name] for one in found]) for name in names}


def draw(path: str, found: Sequence[Found], score: str, label: str, title: str) -> None:
    """A line for each pair over the layers."""
    layers = sorted({one.layer for one in found})
    pairs = list(dict.fromkeys(one.pair for one in found))
    lines = [plots.Line(pair, [100 * one.scores[score] for one in found if one.pair == pair]) for pair in pairs]
    top = max(max(line.values) for line in lines) or 100.0
    panel = plots.Panel(title, label, lines, (-0.03 * top, 1.08 * top))
    plots.draw_lines(path, [panel], layers, "layer (0: embedding)", "retrieval of translations")


PERCENT = "{:.1%}"
TATOEBA = {
    "sentences": ("n", "{:.0f}"),
    "forward": ("→", PERCENT),
    "backward": ("←", PERCENT),
    "mean": ("mean", PERCENT),
}
BUCC = {
    "threshold": ("threshold", "{:.4f}"),
    "dev_f1": ("dev F1", PERCENT),
    "precision": ("precision", PERCENT),
    "recall": ("recall", PERCENT),
    "f1": ("F1", PERCENT),
}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
