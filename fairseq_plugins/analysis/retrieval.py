"""Retrieval of translations with averaged layer vectors, without training: ``fairseq-plugins retrieval``.

    … tatoeba MODEL --pair deu-eng FILE.deu FILE.eng [--pair …] [--dev-pair …]     accuracy
    … bucc MODEL --dev de-en FILE.de FILE.en GOLD --test de-en FILE.de FILE.en GOLD     F1

The defaults of both are XTREME's: cosine, and of Tatoeba the first language looks for the second, which is English there.
Its program of BUCC divides cosines by those of neighbours: ``--score margin``.

A vector is the mean over all tokens of a sentence but padding, special symbols included. Layer 0 is the embedding's output; with
``--layer all`` every layer is reported, and the one that is best on average on the development pairs is chosen for the last
table. BUCC's threshold is found on ``--dev`` for each pair.
"""

import argparse
import json
import logging
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..ops.neighbours import MARGIN, Matches, best_matches
from ..own_commands import forward
from . import bucc, plots
from .pretrained import Pretrained, row_parallel, vector_folder
from .report import say, short_names, table, write_json
from .text import read_lines

logger = logging.getLogger(__name__)

ALL = "all"
FORWARD, BOTH = "forward", "both"
PERCENT = "{:.1%}"
COLUMNS = {
    "sentences": ("n", "{:.0f}"),
    "forward": ("→", PERCENT),
    "backward": ("←", PERCENT),
    "mean": ("mean", PERCENT),
    "threshold": ("threshold", "{:.4f}"),
    "dev_f1": ("dev F1", PERCENT),
    "precision": ("precision", PERCENT),
    "recall": ("recall", PERCENT),
    "f1": ("F1", PERCENT),
}
"""Score -> its header and its format, in the order of the columns."""
SHARES = tuple(name for name, (_, form) in COLUMNS.items() if form == PERCENT)


class Found(NamedTuple):
    """Results of a pair of languages in one layer; ``scores`` are by name in the JSON file.

    ``signs`` are of Tatoeba: a text for each direction that counts, ``1`` where the sentence found its translation, else ``0``.
    """

    pair: str
    layer: int
    scores: Dict[str, float]
    signs: Tuple[str, ...] = ()


def languages_of(pair: str) -> Tuple[str, str]:
    """``("deu", "eng")`` of ``deu-eng``. Raises ValueError: a name of another form."""
    parts = pair.split("-")
    if len(parts) != 2 or not all(parts):
        raise ValueError(f"pair {pair}: valid: two languages, as deu-eng")
    return parts[0], parts[1]


class Searcher:
    """Finds best partners with a model's vectors, which are kept in ``folder``; ``args`` are those of the command line."""

    def __init__(self, args: argparse.Namespace, folder: str):
        if args.layer != ALL and not args.layer.isdigit():
            raise ValueError(f"--layer {args.layer}: valid: {ALL}, or a number from 0 (the embedding's output)")
        self.layers = None if args.layer == ALL else [int(args.layer)]
        self.model = Pretrained(args.model, short_names([args.model])[0], args)
        self.args, self.folder = args, folder

    def matches(self, pair: str, texts: Sequence[Sequence[str]], title: str) -> Iterator[Tuple[int, Matches]]:
        """Layers, and the best partners in them, of the two texts of a pair."""
        x, y = (
            self.model.vectors(lines, language, f"{title}.{pair}.{language}", self.folder, self.layers)
            for language, lines in zip(languages_of(pair), texts)
        )
        device = next(self.model.encoder.parameters()).device
        for layer in x.layers:
            sides = x.layer(layer).to(device), y.layer(layer).to(device)
            found = best_matches(*sides, self.args.score, self.args.neighbours)
            yield layer, Matches(*(part.cpu() for part in found))
        logger.info("%s %s: done", title, pair)


def tatoeba(search: Searcher, pairs: Sequence[Sequence[str]], title: str) -> List[Found]:
    """Accuracies of each pair ``(NAME, FILE, FILE)`` in each layer, in the directions of the command line."""
    found = []
    is_mutual = search.args.directions == BOTH
    for name, *paths in pairs:
        texts = [read_lines(path, search.args.limit) for path in paths]
        row_parallel(dict(zip(languages_of(name), texts)), f"--{title} {name}")
        own = torch.arange(len(texts[0]))  # sentence i belongs to sentence i
        for layer, matches in search.matches(name, texts, title):
            right = [matches.forward.eq(own), *([matches.backward.eq(own)] if is_mutual else [])]
            shares = [float(side.double().mean()) for side in right]
            scores = {"sentences": len(own), **dict(zip((FORWARD, "backward"), shares))}
            if is_mutual:
                scores["mean"] = sum(shares) / len(shares)
            signs = tuple("".join(str(int(one)) for one in side.tolist()) for side in right)
            found.append(Found(name, layer, scores, signs))
    return found


Mined = Dict[Tuple[str, int], Tuple[List[bucc.Mined], Any]]


def mined_pairs(search: Searcher, sets: Sequence[Sequence[str]], title: str) -> Mined:
    """(pair, layer) -> what is mined there, and the gold pairs, of ``(NAME, FILE, FILE, GOLD)``."""
    found: Mined = {}
    for name, *paths, gold_path in sets:
        texts = [bucc.read_sentences(path, search.args.limit) for path in paths]
        gold = bucc.read_gold(gold_path, list(texts[0]), list(texts[1]), cut=search.args.limit is not None)
        for layer, matches in search.matches(name, [list(text.values()) for text in texts], title):
            found[name, layer] = bucc.mine(matches), gold
    return found


def bucc_scores(dev: Mined, test: Mined) -> List[Found]:
    """F1 of each pair and layer, with the threshold of the development set."""
    found = []
    for (pair, layer), (mined, gold) in dev.items():
        threshold = bucc.best_threshold(mined, gold)
        scores = {"threshold": threshold, "dev_f1": bucc.quality(mined, gold, threshold).f1}
        if (pair, layer) in test:
            scores.update(bucc.quality(*test[pair, layer], threshold)._asdict())
        found.append(Found(pair, layer, scores))
    return found


def work(args: argparse.Namespace) -> None:
    """Compute, print and write."""
    is_bucc = args.what == "bucc"
    options = ("dev", "test") if is_bucc else ("dev-pair", "pair")
    for option, items in zip(options, (args.dev, args.test)):
        names = [item[0] for item in items]
        for name in names:
            languages_of(name)
        if len(set(names)) < len(names):
            raise ValueError(f"--{option}: a pair is there twice in {', '.join(names)}")
    with vector_folder(args) as folder:
        search = Searcher(args, folder)
        if is_bucc:
            lacking = sorted({item[0] for item in args.test} - {item[0] for item in args.dev})
            if lacking:
                raise ValueError(f"--test {lacking[0]}: its threshold needs a --dev of the same pair")
            found = bucc_scores(mined_pairs(search, args.dev, "dev"), mined_pairs(search, args.test, "test"))
            chosen: Optional[int] = best_layer(found, "dev_f1")
        else:
            dev, found = tatoeba(search, args.dev, "dev-pair"), tatoeba(search, args.test, "pair")
            layers = {one.layer for one in found}
            score = accuracy(args)
            chosen = best_layer(dev, score) if dev else layers.pop() if len(layers) == 1 else None
    report(args, found, chosen)


def accuracy(args: argparse.Namespace) -> str:
    """Return the name of Tatoeba's score."""
    return "mean" if args.directions == BOTH else FORWARD


def averages(found: Sequence[Found]) -> Dict[str, float]:
    """Mean over the pairs of each score that all of them have."""
    names = [name for name in found[0].scores if all(name in one.scores for one in found)]
    return {name: sum(one.scores[name] for one in found) / len(found) for name in names}


def by_layer(found: Sequence[Found]) -> Dict[int, List[Found]]:
    """The results of each layer, from the lowest."""
    return {layer: [one for one in found if one.layer == layer] for layer in sorted({one.layer for one in found})}


def best_layer(found: Sequence[Found], score: str) -> int:
    """The layer whose mean over the pairs is largest; the lowest of several."""
    return max(by_layer(found).items(), key=lambda item: averages(item[1])[score])[0]


def layers_table(found: Sequence[Found], form: str) -> str:
    """A row for each pair, a column for each layer, and the averages; ``form`` takes scores by their names."""
    layers = by_layer(found)
    rows = [
        [pair, *(form.format(**one.scores) for here in layers.values() for one in here if one.pair == pair)]
        for pair in dict.fromkeys(one.pair for one in found)
    ]
    rows.append(["average", *(form.format(**averages(here)) for here in layers.values())])
    return table(["layer", *map(str, layers)], rows)


def scores_table(found: Sequence[Found]) -> str:
    """A row for each pair, and the averages."""
    mean = averages(found)
    shown = [name for name in COLUMNS if name in mean]
    lines = [(one.pair, one.scores) for one in found] + [("average", mean)]
    rows = [[title, *(COLUMNS[name][1].format(scores[name]) for name in shown)] for title, scores in lines]
    return table(["pair", *(COLUMNS[name][0] for name in shown)], rows)


def as_subset(found: Found) -> str:
    """The scores in per cent, as ``fairseq-validate --log-format json`` prints those of a subset ``test.PAIR``."""
    scores = {
        f"test.{found.pair}_{name}": round(100 * found.scores[name], 2) for name in SHARES if name in found.scores
    }
    return f"| test.{found.pair} | {json.dumps(scores)}"


def draw(path: str, found: Sequence[Found], score: str, label: str, title: str) -> None:
    """A line for each pair over the layers."""
    pairs = dict.fromkeys(one.pair for one in found)
    lines = [plots.Line(pair, [100 * one.scores[score] for one in found if one.pair == pair]) for pair in pairs]
    top = max(max(line.values) for line in lines) or 100.0
    panel = plots.Panel(title, label, lines, (-0.03 * top, 1.08 * top))
    plots.draw_lines(path, [panel], list(by_layer(found)), "layer (0: embedding)", "retrieval of translations")


def report(args: argparse.Namespace, found: Sequence[Found], chosen: Optional[int]) -> None:
    """Print the tables and write the files."""
    is_bucc = args.what == "bucc"
    name, score = short_names([args.model])[0], "dev_f1" if is_bucc else accuracy(args)
    how = f"{name}, {args.score}" + (f" of {args.neighbours} neighbours" if args.score == MARGIN else "")
    how += "" if is_bucc else ", both directions" if args.directions == BOTH else ", first → second language"
    if len(by_layer(found)) > 1:
        what, form = "accuracy →", "{forward:.1%}"
        if is_bucc:
            what, form = "F1 on the development set", "{dev_f1:.1%}"
        elif args.directions == BOTH:
            what, form = "accuracy → / ←", "{forward:.1%} / {backward:.1%}"
        say(f"{what} by layer, {how}\n\n{layers_table(found, form)}\n")
    if chosen is not None:
        say(f"layer {chosen}, {how}\n\n{scores_table(by_layer(found)[chosen])}")
        if args.subsets:
            say("\n".join(map(as_subset, by_layer(found)[chosen])))
    content = {"model": name, "score": args.score, "neighbours": args.neighbours, "layer": chosen}
    if not is_bucc:
        content["directions"] = args.directions
    rows = [{"pair": one.pair, "layer": one.layer, **one.scores} for one in found]
    signs = {one.pair: one.signs for one in found if one.layer == chosen and one.signs}
    write_json(args.json, {**content, "rows": rows, "found": signs})
    if args.plot is not None:
        label = "F1 on the development set, %"
        if not is_bucc:
            label = (
                "accuracy, mean of both directions, %"
                if args.directions == BOTH
                else "accuracy, first → second language, %"
            )
        draw(args.plot, found, score, label, how)


if __name__ == "__main__":
    sys.exit(forward("retrieval"))
