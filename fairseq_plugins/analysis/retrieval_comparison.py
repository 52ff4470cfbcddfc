"""Is one encoder's retrieval better than another's? A paired test: ``fairseq-plugins retrieval-comparison``.

    … FIRST.json OTHER.json [OTHER.json …]     what ``retrieval tatoeba --json`` or ``pair-probe --json`` wrote of the same pairs

Each file is taken in the layer that was chosen in it. A sentence pair scores 0, 1/2 or 1: found in neither, one or both
directions (of ``pair-probe`` 0 or 1: its class was guessed). Approximate randomisation: how often would the difference of the
means be as large, did chance alone say which of the two systems each score belongs to?

Source: Noreen 1989; the test that sacreBLEU has as --paired-ar.
"""

import argparse
import json
import sys
from typing import Any, Dict, List, Tuple

import numpy as np

from ..own_commands import forward
from .report import say, short_names, table, write_json

VALID = "valid: a file that retrieval tatoeba --json wrote"
BLOCK = 1000
"""Draws that are made at a time."""


Scores = Dict[str, np.ndarray]
"""Pair of languages -> (N,) float64, the score of each sentence pair."""


def read(path: str) -> Tuple[int, Scores]:
    """The chosen layer and its scores, of ``retrieval tatoeba --json``.

    Raises ValueError: no such file, or no layer was chosen in it.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            content = json.load(stream)
        layer, found = content["layer"], content["found"]
        scores = {
            pair: np.mean([[int(sign) for sign in text] for text in both], axis=0) for pair, both in found.items()
        }
    except (OSError, UnicodeError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path}: {VALID}, with --layer N or --dev-pair ({type(error).__name__}: {error})") from error
    if not scores or any(score.ndim != 1 or not len(score) for score in scores.values()):
        raise ValueError(f"{path}: holds no sentence that was looked for; {VALID}")
    return layer, scores


def randomisation(differences: np.ndarray, samples: int, seed: int) -> float:
    """Two-sided p, in (0, 1], of the approximate randomisation test; ``differences`` (M,) are of the scores of two systems."""
    moved = differences[differences != 0]
    observed = abs(moved.sum())
    generator, reached = np.random.default_rng(seed), 0
    for start in range(0, samples, BLOCK):
        signs = generator.integers(0, 2, (min(BLOCK, samples - start), len(moved))) * 2 - 1
        reached += int((np.abs(signs @ moved) >= observed - 1e-9).sum())
    return (reached + 1) / (samples + 1)


def compare(first: Scores, other: Scores, samples: int, seed: int) -> Dict[str, float]:
    """Means in percent, their difference, and p. Raises ValueError: other pairs, or another number of sentences."""
    sizes = [{pair: len(score) for pair, score in one.items()} for one in (first, other)]
    if sizes[0] != sizes[1]:
        raise ValueError(f"the files need the same pairs with as many sentences; got {sizes[0]} and {sizes[1]}")
    ours, theirs = (np.concatenate([one[pair] for pair in first]) for one in (first, other))
    means = [100 * float(one.mean()) for one in (ours, theirs)]
    p = randomisation(ours - theirs, samples, seed)
    return {"ours": means[0], "theirs": means[1], "difference": means[0] - means[1], "p": p}


def work(args: argparse.Namespace) -> None:
    """Compute, print and write."""
    if args.samples < 1:
        raise ValueError(f"--samples must be 1 or more; got {args.samples}")
    paths = [args.first, *args.others]
    if len(set(paths)) < len(paths):
        raise ValueError(f"a file is there twice in {', '.join(paths)}; valid: different files")
    names, found = short_names(paths), [read(path) for path in paths]
    first = found[0][1]
    rows: List[List[Any]] = []
    results = []
    for name, path, (layer, scores) in zip(names, paths, found):
        test = ["", ""]
        if scores is not first:
            try:
                result = compare(first, scores, args.samples, args.seed)
            except ValueError as error:
                raise ValueError(f"{args.first}, {path}: {error}") from error
            results.append({"first": names[0], "than": name, **result})
            test = [f"{result['difference']:+.1f}", f"{result['p']:.4f}"]
        parts = [*(scores[pair] for pair in first), np.concatenate(list(scores.values()))]
        rows.append([name, layer, *(f"{100 * float(one.mean()):.1f}" for one in parts), *test])
    how = f"accuracy in percent, where there are two directions their mean; {names[0]} less the other"
    say(f"{how}: approximate randomisation over sentence pairs\n")
    say(table(["model", "layer", *first, "all", "difference", "p"], rows))
    write_json(args.json, {"samples": args.samples, "seed": args.seed, "comparisons": results})


if __name__ == "__main__":
    sys.exit(forward("retrieval-comparison"))
