"""Retrieval of translations with averaged layer vectors, without training.

    fairseq-plugins retrieval tatoeba MODEL --pair deu-eng FILE.deu FILE.eng [--dev-pair …]
    fairseq-plugins retrieval bucc MODEL --dev de-en FILE.de FILE.en GOLD [--test …]

``tatoeba`` gives accuracies, ``bucc`` F1. The defaults of both are XTREME's: cosine, and in Tatoeba
the first language looks for the second, which is English there. XTREME's program for BUCC divides
cosines by those of neighbours: ``--score margin``.

A vector is the mean over all tokens of a sentence but padding, special symbols included. Layer 0 is
the embedding's output; with ``--layer all`` every layer is reported, and the last table shows the
layer that is best on average on the development pairs. BUCC's threshold is that of ``--dev`` for
each pair.
"""

import argparse
import json
import logging
import sys
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..ops.neighbours import MARGIN, Matches, best_matches
from ..own_commands import forward
from . import bucc, plots
from .pretrained import Pretrained, vector_folder
from .report import say, short_names, table, write_json
from .text import check_parallel, read_lines

logger = logging.getLogger(__name__)

ALL = "all"
FORWARD, BOTH = "forward", "both"


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


def languages_of(pair: str) -> Tuple[str, str]:
    """Split ``deu-eng``. Raises ValueError: a name of another form."""
    parts = pair.split("-")
    if len(parts) != 2 or not all(parts):
        raise ValueError(f"pair {pair}: valid: two languages, as deu-eng")
    return parts[0], parts[1]


class Searcher:
    """Find the best partners of sentences by a model's vectors.

    Args:
        args: of the command line.
        folder: where the vectors are stored.
    """

    def __init__(self, args: argparse.Namespace, folder: str):
        if args.layer != ALL and not args.layer.isdigit():
            raise ValueError(
                f"--layer {args.layer}: valid: {ALL}, or a number from 0 (the embedding's output)"
            )
        self.layers = None if args.layer == ALL else [int(args.layer)]
        self.model = Pretrained(args.model, short_names([args.model])[0], args)
        self.args, self.folder = args, folder

    def matches(
        self, pair: str, texts: Sequence[Sequence[str]], title: str
    ) -> Iterator[Tuple[int, Matches]]:
        """Yield the number of each layer and the best partners of two texts by its vectors.

        Args:
            pair: languages of the texts, as ``deu-eng``.
            title: of the set, for names of files.
        """
        sides = []
        for language, lines in zip(languages_of(pair), texts):
            name = f"{title}.{pair}.{language}"
            sides.append(self.model.vectors(lines, language, name, self.folder, self.layers))
        device = next(self.model.encoder.parameters()).device
        for layer in sides[0].layers:
            x, y = (side.layer(layer).to(device) for side in sides)
            matches = best_matches(x, y, self.args.score, self.args.neighbours)
            yield layer, Matches(*(part.cpu() for part in matches))
        logger.info("%s %s: done", title, pair)


# ---- Tatoeba. ----


def tatoeba(search: Searcher, pairs: Sequence[Sequence[str]], title: str) -> List[Result]:
    """Score each pair ``(NAME, FILE, FILE)`` in each layer."""
    results = []
    for name, *paths in pairs:
        texts = [read_lines(path, search.args.limit) for path in paths]
        first, second = languages_of(name)
        check_parallel({first: texts[0], second: texts[1]}, f"--{title} {name}")
        truth = torch.arange(len(texts[0]))  # sentence i belongs to sentence i
        for layer, matches in search.matches(name, texts, title):
            hits = [matches.forward.eq(truth)]
            scores: Dict[str, float] = {"sentences": len(truth), FORWARD: _share(hits[0])}
            if search.args.directions == BOTH:
                hits.append(matches.backward.eq(truth))
                scores["backward"] = _share(hits[1])
                scores["mean"] = (scores[FORWARD] + scores["backward"]) / 2
            signs = tuple("".join(str(int(hit)) for hit in side.tolist()) for side in hits)
            results.append(Result(name, layer, scores, signs))
    return results


def _share(hits: torch.Tensor) -> float:
    return float(hits.double().mean())


# ---- BUCC. ----


class MinedPairs(NamedTuple):
    """Pairs that the vectors of a layer give, best first, and the true pairs."""

    mined: List[bucc.Mined]
    gold: bucc.Gold


PairsByLayer = Dict[Tuple[str, int], MinedPairs]
"""(pair of languages, layer) -> its pairs."""


def mine_pairs(search: Searcher, sets: Sequence[Sequence[str]], title: str) -> PairsByLayer:
    """Mine each set ``(NAME, FILE, FILE, GOLD)`` in each layer."""
    pairs: PairsByLayer = {}
    for name, *paths, gold_path in sets:
        first, second = (bucc.read_sentences(path, search.args.limit) for path in paths)
        is_cut = search.args.limit is not None
        gold = bucc.read_gold(gold_path, list(first), list(second), skip_unknown=is_cut)
        texts = [list(first.values()), list(second.values())]
        for layer, matches in search.matches(name, texts, title):
            pairs[name, layer] = MinedPairs(bucc.mine(matches), gold)
    return pairs


def bucc_scores(dev: PairsByLayer, test: PairsByLayer) -> List[Result]:
    """Score each pair and layer, with the threshold of the development set."""
    results = []
    for (pair, layer), (mined, gold) in dev.items():
        threshold = bucc.best_threshold(mined, gold)
        scores = {"threshold": threshold, "dev_f1": bucc.quality(mined, gold, threshold).f1}
        if (pair, layer) in test:
            scores.update(bucc.quality(*test[pair, layer], threshold)._asdict())
        results.append(Result(pair, layer, scores))
    return results


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
    """Format a row for each pair, and the averages."""
    mean = averages(results)
    names = [name for name in COLUMNS if name in mean]
    rows = []
    for title, scores in [*((row.pair, row.scores) for row in results), ("average", mean)]:
        rows.append([title, *(COLUMNS[name].form.format(scores[name]) for name in names)])
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
    "dev_f1", "", "F1 on the development set", "{dev_f1:.1%}", "F1 on the development set, %"
)
ONE_WAY = Wording(
    FORWARD,
    ", first → second language",
    "accuracy →",
    "{forward:.1%}",
    "accuracy, first → second language, %",
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
    return BOTH_WAYS if args.directions == BOTH else ONE_WAY


def report(args: argparse.Namespace, results: Sequence[Result], layer: Optional[int]) -> None:
    """Print the tables and write the files.

    Args:
        layer: the chosen layer, whose scores the last table shows; None = there is none.
    """
    wording = wording_of(args)
    name = short_names([args.model])[0]
    neighbours = f" of {args.neighbours} neighbours" if args.score == MARGIN else ""
    how = f"{name}, {args.score}{neighbours}{wording.directions}"
    layers = by_layer(results)
    if len(layers) > 1:
        say(f"{wording.by_layer} by layer, {how}\n\n{layers_table(results, wording.form)}\n")
    if layer is not None:
        say(f"layer {layer}, {how}\n\n{scores_table(layers[layer])}")
        if args.subsets:
            say("\n".join(map(as_subset, layers[layer])))
    content = {"model": name, "score": args.score, "neighbours": args.neighbours, "layer": layer}
    if args.what == "tatoeba":
        content["directions"] = args.directions
    rows = [{"pair": row.pair, "layer": row.layer, **row.scores} for row in results]
    signs = {row.pair: row.signs for row in results if row.layer == layer and row.signs}
    write_json(args.json, {**content, "rows": rows, "found": signs})
    if args.plot is not None:
        draw(args.plot, results, wording.score, wording.axis, how)


def check_pairs(args: argparse.Namespace) -> None:
    """Raise ValueError for a malformed or repeated pair, or a BUCC test set without a dev set."""
    is_bucc = args.what == "bucc"
    dev_option, test_option = ("dev", "test") if is_bucc else ("dev-pair", "pair")
    for option, items in ((dev_option, args.dev), (test_option, args.test)):
        names = [item[0] for item in items]
        for name in names:
            languages_of(name)
        if len(set(names)) < len(names):
            raise ValueError(f"--{option}: a pair is there twice in {', '.join(names)}")
    lacking = sorted({item[0] for item in args.test} - {item[0] for item in args.dev})
    if is_bucc and lacking:
        raise ValueError(f"--test {lacking[0]}: its threshold needs a --dev of the same pair")


def work(args: argparse.Namespace) -> None:
    """Compute, print and write."""
    check_pairs(args)
    with vector_folder(args) as folder:
        search = Searcher(args, folder)
        layer: Optional[int] = None
        score = wording_of(args).score
        if args.what == "bucc":
            dev_pairs = mine_pairs(search, args.dev, "dev")
            results = bucc_scores(dev_pairs, mine_pairs(search, args.test, "test"))
            layer = best_layer(results, score)
        else:
            dev = tatoeba(search, args.dev, "dev-pair")
            results = tatoeba(search, args.test, "pair")
            layers = {row.layer for row in results}
            if dev:
                layer = best_layer(dev, score)
            elif len(layers) == 1:
                layer = layers.pop()
    report(args, results, layer)


if __name__ == "__main__":
    sys.exit(forward("retrieval"))
