"""Retrieval of translations with averaged layer vectors, without training.

    fairseq-plugins retrieval tatoeba MODEL --folder DIR --layer 12 [--predictions DIR]
    fairseq-plugins retrieval tatoeba MODEL --pair deu-eng FILE.deu FILE.eng [--dev-pair …]
    fairseq-plugins retrieval bucc MODEL --folder DIR --layer 8 [--predictions DIR]
    fairseq-plugins retrieval bucc MODEL --dev de-en FILE.de FILE.en GOLD [--test …]

``tatoeba`` gives accuracies, ``bucc`` F1. Vectors are compared by their cosine; in Tatoeba the
first language looks for the second, which is English there. XTREME's labels are those of the other
direction: ``--directions backward``. XTREME's program for BUCC divides cosines by those of
neighbours: ``--score margin``.

``--folder`` reads every pair of a folder as XTREME or LASER lay it out. Where gold is missing
(BUCC's test, and Tatoeba after XTREME has sorted its English lines) ``--predictions`` writes the
submission files that XTREME's evaluation reads.

A vector is the mean over all tokens of a sentence but padding, special symbols included. Layer 0 is
the embedding's output; with ``--layer all`` every layer is reported, and the last table shows the
layer that is best on average on the development pairs. BUCC's threshold is that of ``--dev`` for
each pair.
"""

import argparse
import logging
import sys
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..ops.neighbours import Matches, best_matches
from ..own_commands import forward
from . import bucc
from .pretrained import Pretrained, vector_folder
from .report import short_names
from .retrieval_predictions import tatoeba_lines, write_predictions
from .retrieval_tables import BACKWARD, FORWARD, Result, best_layer, report, wording_of
from .text import check_parallel, read_lines

logger = logging.getLogger(__name__)

ALL = "all"


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


class Tatoeba(NamedTuple):
    """Scores of pairs in each layer, and the lines of their submission files."""

    results: List[Result]
    lines: Dict[Tuple[str, int], List[str]]  # (pair, layer) -> lines


def tatoeba(
    search: Searcher, pairs: Sequence[Sequence[str]], title: str, is_sorted: bool = False
) -> Tatoeba:
    """Score each pair ``(NAME, FILE, FILE)`` in each layer.

    Args:
        is_sorted: XTREME has sorted the English lines, so that nothing can be scored.
    """
    results, lines = [], {}
    for name, *paths in pairs:
        texts = [read_lines(path, search.args.limit) for path in paths]
        first, second = languages_of(name)
        if not is_sorted:
            check_parallel({first: texts[0], second: texts[1]}, f"--{title} {name}")
        for layer, matches in search.matches(name, texts, title):
            lines[name, layer] = tatoeba_lines(matches.backward.tolist(), texts[1], is_sorted)
            if not is_sorted:
                results.append(_score(name, layer, matches, search.args.directions))
    return Tatoeba(results, lines)


def _score(pair: str, layer: int, matches: Matches, directions: str) -> Result:
    """Compute the accuracies of the directions: sentence i belongs to sentence i."""
    truth = torch.arange(len(matches.forward))
    hits = {FORWARD: matches.forward.eq(truth), BACKWARD: matches.backward.eq(truth)}
    if directions in hits:
        hits = {directions: hits[directions]}
    shares = {name: float(side.double().mean()) for name, side in hits.items()}
    scores: Dict[str, float] = {"sentences": len(truth), **shares}
    if len(shares) > 1:
        scores["mean"] = sum(shares.values()) / len(shares)
    signs = tuple("".join(str(int(hit)) for hit in side.tolist()) for side in hits.values())
    return Result(pair, layer, scores, signs)


# ---- BUCC. ----


class MinedPairs(NamedTuple):
    """Pairs that the vectors of a layer give, best first, the true pairs, and the ids."""

    mined: List[bucc.Mined]
    gold: Optional[bucc.Gold]  # None: unknown
    ids: Tuple[List[str], List[str]]

    def lines(self, threshold: float) -> List[str]:
        """Return the ids of the pairs whose score is not below ``threshold``, sorted."""
        first, second = self.ids
        pairs = [pair for pair in self.mined if pair.score >= threshold]
        return sorted(f"{first[pair.first]}\t{second[pair.second]}" for pair in pairs)


PairsByLayer = Dict[Tuple[str, int], MinedPairs]
"""(pair of languages, layer) -> its pairs."""


def mine_pairs(
    search: Searcher, sets: Sequence[Sequence[Optional[str]]], title: str
) -> PairsByLayer:
    """Mine each set ``(NAME, FILE, FILE, GOLD)`` in each layer; GOLD None: unknown."""
    pairs: PairsByLayer = {}
    for name, *paths, gold_path in sets:
        first, second = (bucc.read_sentences(str(path), search.args.limit) for path in paths)
        ids = list(first), list(second)
        gold = None
        if gold_path is not None:
            is_cut = search.args.limit is not None
            gold = bucc.read_gold(gold_path, *ids, skip_unknown=is_cut)
        texts = [list(first.values()), list(second.values())]
        for layer, matches in search.matches(str(name), texts, title):
            pairs[str(name), layer] = MinedPairs(bucc.mine(matches), gold, ids)
    return pairs


def bucc_scores(dev: PairsByLayer, test: PairsByLayer) -> List[Result]:
    """Score each pair and layer, with the threshold of the development set."""
    results = []
    for (pair, layer), (mined, gold, _) in dev.items():
        assert gold is not None
        threshold = bucc.best_threshold(mined, gold)
        scores = {"threshold": threshold, "dev_f1": bucc.quality(mined, gold, threshold).f1}
        pairs = test.get((pair, layer))
        if pairs is not None and pairs.gold is not None:
            scores.update(bucc.quality(pairs.mined, pairs.gold, threshold)._asdict())
        results.append(Result(pair, layer, scores))
    return results


# ---- The command. ----


def check_pairs(args: argparse.Namespace) -> None:
    """Raise ValueError for a malformed or repeated pair, or a BUCC test set without a dev set."""
    is_bucc = args.what == "bucc"
    dev_option, test_option = ("dev", "test") if is_bucc else ("dev-pair", "pair")
    for option, items in ((dev_option, args.dev), (test_option, [*args.test, *args.unaligned])):
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
        run = run_bucc if args.what == "bucc" else run_tatoeba
        run(args, search)


def run_tatoeba(args: argparse.Namespace, search: Searcher) -> None:
    """Score the pairs, in the layer that the development pairs choose if there are any."""
    dev = tatoeba(search, args.dev, "dev-pair").results
    results, lines = tatoeba(search, args.test, "pair")
    lines = {**lines, **tatoeba(search, args.unaligned, "pair", is_sorted=True).lines}
    layer: Optional[int] = None
    layers = {number for _, number in lines}
    if dev:
        layer = best_layer(dev, wording_of(args).score)
    elif len(layers) == 1:
        layer = layers.pop()
    report(args, results, layer)
    if args.predictions is not None:
        for (pair, number), partners in lines.items():
            if number == layer:
                write_predictions(args.predictions, "tatoeba", pair, partners)


def run_bucc(args: argparse.Namespace, search: Searcher) -> None:
    """Score the pairs, in the layer that is best on the development sets."""
    dev, test = mine_pairs(search, args.dev, "dev"), mine_pairs(search, args.test, "test")
    results = bucc_scores(dev, test)
    layer = best_layer(results, wording_of(args).score)
    report(args, results, layer)
    if args.predictions is not None:
        for row in results:
            pairs = test.get((row.pair, layer))
            if row.layer == layer and pairs is not None:
                lines = pairs.lines(row.scores["threshold"])
                write_predictions(args.predictions, "bucc2018", row.pair, lines)


if __name__ == "__main__":
    sys.exit(forward("retrieval"))
