"""Scores of retrieval: columns, averages, the best layer, tables, files and plots."""

import argparse
import json
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..ops.neighbours import MARGIN
from . import plots
from .report import say, short_names, table, write_json

FORWARD, BACKWARD, BOTH = "forward", "backward", "both"


class Column(NamedTuple):
    """Header and format of a score."""

    header: str
    form: str


PERCENT = "{:.1%}"
COLUMNS = {
    "sentences": Column("n", "{:.0f}"),
    "forward": Column("→", PERCENT),
    "backward": Column("←", PERCENT),
    "mean": Column("mean", PERCENT),
    "threshold": Column("threshold", "{:.4f}"),
    "dev_f1": Column("dev F1", PERCENT),
    "precision": Column("precision", PERCENT),
    "recall": Column("recall", PERCENT),
    "f1": Column("F1", PERCENT),
}
"""Score -> its column, in the order of the tables."""
SHARES = tuple(name for name, column in COLUMNS.items() if column.form == PERCENT)
"""Scores in [0, 1]."""


class Result(NamedTuple):
    """Scores of a pair of languages in one layer."""

    pair: str
    layer: int
    scores: Dict[str, float]  # by their names in the JSON file
    signs: Tuple[str, ...] = ()
    """Of Tatoeba, a text per direction. Each letter is that of a sentence: ``1`` if its best
    partner is its translation, else ``0``."""


# ---- Layers and averages. ----


def averages(results: Sequence[Result]) -> Dict[str, float]:
    """Average over the pairs each score that all of them have."""
    names = [name for name in results[0].scores if all(name in row.scores for row in results)]
    return {name: sum(row.scores[name] for row in results) / len(results) for name in names}


def by_layer(results: Sequence[Result]) -> Dict[int, List[Result]]:
    """Group results by layer, from the lowest."""
    layers = sorted({row.layer for row in results})
    return {layer: [row for row in results if row.layer == layer] for layer in layers}


def best_layer(results: Sequence[Result], score: str) -> int:
    """Find the layer with the largest mean over the pairs; ties go to the lowest."""
    means = {layer: averages(rows)[score] for layer, rows in by_layer(results).items()}
    return max(means, key=lambda layer: means[layer])


# ---- Output. ----


def layers_table(results: Sequence[Result], form: str) -> str:
    """Format a row for each pair, a column for each layer, and the averages.

    Args:
        form: format string of a cell, whose fields are names of scores.
    """
    layers = by_layer(results)
    rows = []
    for pair in dict.fromkeys(row.pair for row in results):
        entries = [row for group in layers.values() for row in group if row.pair == pair]
        rows.append([pair, *(form.format(**row.scores) for row in entries)])
    rows.append(["average", *(form.format(**averages(entries)) for entries in layers.values())])
    return table(["layer", *map(str, layers)], rows)


def scores_table(results: Sequence[Result]) -> str:
    """Format a row for each pair, and the averages of the scores that all pairs have."""
    names = [name for name in COLUMNS if any(name in row.scores for row in results)]
    rows = []
    for title, scores in [
        *((row.pair, row.scores) for row in results),
        ("average", averages(results)),
    ]:
        cells = [
            COLUMNS[name].form.format(scores[name]) if name in scores else "" for name in names
        ]
        rows.append([title, *cells])
    return table(["pair", *(COLUMNS[name].header for name in names)], rows)


def as_subset(result: Result) -> str:
    """Format the scores, in percent, as ``fairseq-validate`` prints those of a subset."""
    subset = f"test.{result.pair}"
    scores = {
        f"{subset}_{name}": round(100 * result.scores[name], 2)
        for name in SHARES
        if name in result.scores
    }
    return f"| {subset} | {json.dumps(scores)}"


def draw(path: str, results: Sequence[Result], score: str, label: str, title: str) -> None:
    """Draw a line for each pair over the layers."""
    lines = []
    for pair in dict.fromkeys(row.pair for row in results):
        values = [100 * row.scores[score] for row in results if row.pair == pair]
        lines.append(plots.Line(pair, values))
    top = max(max(line.values) for line in lines) or 100.0
    panel = plots.Panel(title, label, lines, (-0.03 * top, 1.08 * top))
    heading = "retrieval of translations"
    plots.draw_lines(path, [panel], list(by_layer(results)), "layer (0: embedding)", heading)


class Wording(NamedTuple):
    """Words of the output that depend on the task and its directions."""

    score: str  # name of the score by which the layer is chosen
    directions: str  # end of each title
    by_layer: str  # title of the table of all layers
    form: str  # format string of its cells
    axis: str  # label of the plot's y axis


BUCC = Wording(
    "dev_f1",
    ", pairs mined in both directions",
    "F1 on the development set",
    "{dev_f1:.1%}",
    "F1 on the development set, %",
)
ONE_WAY = Wording(
    FORWARD,
    ", first → second language",
    "accuracy →",
    "{forward:.1%}",
    "accuracy, first → second language, %",
)
OTHER_WAY = Wording(
    BACKWARD,
    ", second → first language",
    "accuracy ←",
    "{backward:.1%}",
    "accuracy, second → first language, %",
)
BOTH_WAYS = Wording(
    "mean",
    ", both directions",
    "accuracy → / ←",
    "{forward:.1%} / {backward:.1%}",
    "accuracy, mean of both directions, %",
)


def wording_of(args: argparse.Namespace) -> Wording:
    """Choose the words for the task and the directions of the command line."""
    if args.what == "bucc":
        return BUCC
    return {FORWARD: ONE_WAY, BACKWARD: OTHER_WAY, BOTH: BOTH_WAYS}[args.directions]


def describe_pairs(args: argparse.Namespace) -> str:
    """Return how many of XTREME's languages a folder has; empty without a folder."""
    if args.absent is None:
        return ""
    pairs = args.dev if args.what == "bucc" else [*args.test, *args.unaligned]
    present = args.standard - len(args.absent)
    text = f"{present} of XTREME's {args.standard} pairs"
    if len(pairs) > present:
        text += f", {len(pairs) - present} others"
    return text + (f", without {', '.join(args.absent)}" if args.absent else "")


def report(args: argparse.Namespace, results: Sequence[Result], layer: Optional[int]) -> None:
    """Print the tables and write the files.

    Args:
        layer: the chosen layer, whose scores the last table shows; None = there is none.
    """
    wording = wording_of(args)
    name = short_names([args.model])[0]
    neighbours = f" of {args.neighbours} neighbours" if args.score == MARGIN else ""
    how = f"{name}, {args.score}{neighbours}{wording.directions}"
    pairs = describe_pairs(args)
    how += f"; {pairs}" if pairs else ""
    layers = by_layer(results)
    if len(layers) > 1:
        say(f"{wording.by_layer} by layer, {how}\n\n{layers_table(results, wording.form)}\n")
    if not results:
        say(f"layer {layer}, {how}: predicted, not scored")
    elif layer is not None:
        say(f"layer {layer}, {how}\n\n{scores_table(layers[layer])}")
        if args.subsets:
            say("\n".join(map(as_subset, layers[layer])))
    content: Dict[str, Any] = {"model": name, "score": args.score}
    content.update(neighbours=args.neighbours, layer=layer)
    if args.what == "tatoeba":
        content["directions"] = args.directions
    if args.absent is not None:
        content["absent"] = args.absent
    rows = [{"pair": row.pair, "layer": row.layer, **row.scores} for row in results]
    signs = {row.pair: row.signs for row in results if row.layer == layer and row.signs}
    write_json(args.json, {**content, "rows": rows, "found": signs})
    if args.plot is not None and results:
        draw(args.plot, results, wording.score, wording.axis, how)
