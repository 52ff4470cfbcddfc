"""Compare the retrieval of encoders by a paired test: ``fairseq-plugins retrieval-comparison``.

    … FIRST.json OTHER.json [OTHER.json …]

The files are those of ``retrieval tatoeba --json`` or ``pair-probe --json``, of the same pairs.
Of each file the layer that was chosen in it is compared. The score of a sentence pair is 0, 1/2 or
1: it was found in neither, one or both directions. Of ``pair-probe`` it is 1 if the class was
predicted correctly, else 0. The test is approximate randomisation: p is the share of random swaps
of the two systems' scores whose difference of the means is at least as large.

Source: Noreen 1989; the test that sacreBLEU has as --paired-ar.
"""

import argparse
import json
import sys
from typing import Any, Dict, List, NamedTuple

import numpy as np

from ..own_commands import forward
from .report import say, short_names, table, write_json

VALID = "valid: a file that retrieval tatoeba --json wrote"
BLOCK = 1000
"""Draws that are made at a time."""

Scores = Dict[str, np.ndarray]
"""Pair of languages -> (N,) float64, the score of each sentence pair."""


class System(NamedTuple):
    """Content of a file."""

    layer: int  # the chosen one
    scores: Scores


def read(path: str) -> System:
    """Read the chosen layer and its scores.

    Raises:
        ValueError: no such file, or no layer was chosen in it.
    """
    scores: Scores = {}
    try:
        with open(path, encoding="utf-8") as stream:
            content = json.load(stream)
        layer = content["layer"]
        for pair, directions in content["found"].items():
            signs = [[int(sign) for sign in direction] for direction in directions]
            scores[pair] = np.mean(signs, axis=0)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path}: {VALID}, with --layer N or --dev-pair ({reason})") from error
    if not scores or any(score.ndim != 1 or not len(score) for score in scores.values()):
        raise ValueError(f"{path}: holds no sentence that was looked for; {VALID}")
    return System(layer, scores)


def randomisation(differences: np.ndarray, samples: int, seed: int) -> float:
    """Return the two-sided p, in (0, 1], of the approximate randomisation test.

    Args:
        differences: (M,) of the scores of two systems.
    """
    nonzero = differences[differences != 0]
    observed = abs(nonzero.sum())
    generator, reached = np.random.default_rng(seed), 0
    for start in range(0, samples, BLOCK):
        size = min(BLOCK, samples - start), len(nonzero)
        signs = generator.integers(0, 2, size) * 2 - 1
        reached += int((np.abs(signs @ nonzero) >= observed - 1e-9).sum())
    return (reached + 1) / (samples + 1)


class Comparison(NamedTuple):
    """Means of two systems in percent, their difference, and p."""

    ours: float
    theirs: float
    difference: float
    p: float


def compare(first: Scores, second: Scores, samples: int, seed: int) -> Comparison:
    """Compare two systems. Raises ValueError unless they have the same pairs and sentences."""
    first_sizes = {pair: len(score) for pair, score in first.items()}
    second_sizes = {pair: len(score) for pair, score in second.items()}
    if first_sizes != second_sizes:
        sizes = f"got {first_sizes} and {second_sizes}"
        raise ValueError(f"the files need the same pairs with as many sentences; {sizes}")
    ours = np.concatenate([first[pair] for pair in first])
    theirs = np.concatenate([second[pair] for pair in first])
    our_mean, their_mean = 100 * float(ours.mean()), 100 * float(theirs.mean())
    p = randomisation(ours - theirs, samples, seed)
    return Comparison(our_mean, their_mean, our_mean - their_mean, p)


def work(args: argparse.Namespace) -> None:
    """Compute, print and write."""
    if args.samples < 1:
        raise ValueError(f"--samples must be 1 or more; got {args.samples}")
    paths = [args.first, *args.others]
    if len(set(paths)) < len(paths):
        raise ValueError(f"a file is there twice in {', '.join(paths)}; valid: different files")
    names, systems = short_names(paths), [read(path) for path in paths]
    first = systems[0].scores
    rows: List[List[Any]] = [[*cells(names[0], systems[0], first), "", ""]]
    comparisons = []
    for name, path, system in zip(names[1:], paths[1:], systems[1:]):
        try:
            comparison = compare(first, system.scores, args.samples, args.seed)
        except ValueError as error:
            raise ValueError(f"{args.first}, {path}: {error}") from error
        comparisons.append({"first": names[0], "than": name, **comparison._asdict()})
        test = [f"{comparison.difference:+.1f}", f"{comparison.p:.4f}"]
        rows.append([*cells(name, system, first), *test])
    measure = "accuracy in percent, where there are two directions their mean"
    test_name = "approximate randomisation over sentence pairs"
    say(f"{measure}; {names[0]} less the other: {test_name}\n")
    say(table(["model", "layer", *first, "all", "difference", "p"], rows))
    content = {"samples": args.samples, "seed": args.seed, "comparisons": comparisons}
    write_json(args.json, content)


def cells(name: str, system: System, pairs: Scores) -> List[Any]:
    """Return the cells of a system: means of the ``pairs`` in their order, and of all sentences."""
    parts = [system.scores[pair] for pair in pairs]
    parts.append(np.concatenate(list(system.scores.values())))
    return [name, system.layer, *(f"{100 * float(part.mean()):.1f}" for part in parts)]


if __name__ == "__main__":
    sys.exit(forward("retrieval-comparison"))
