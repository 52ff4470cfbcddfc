"""F1 of words by their frequency in the training text: ``fairseq-plugins frequency-f1``.

    … --train train.de --reference test.de --output plain=a.de restored=b.de

A bucket holds the words whose number of occurrences in ``--train`` lies between two edges; words that are not there at all count 0
and are part of the lowest bucket (``--edges 1 100 1001`` gives them one of their own). For each sentence and word, matched is the
smaller of its counts in output and reference. Words are those of ``--tokens``, without punctuation, lower-cased unless ``--cased``.
The interval of a score, and p of its difference to the first output's, come from one bootstrap over sentences.
"""

import argparse
import bisect
import itertools
import sys
from collections import Counter
from typing import Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..own_commands import forward
from ..scoring.words import words
from . import plots
from .pretrained import row_parallel
from .report import named_paths, say, table, write_json, write_tsv
from .text import read_lines

ALL = "all"
CHUNK = 64
"""Bootstrap samples that are drawn at a time."""

Counts = np.ndarray
"""(N sentences, K buckets and all of them together, 3) int64: matched, in the output, in the reference."""


class Score(NamedTuple):
    """An output in a bucket; precision, recall and F1 in [0, 1], None where there is nothing to divide by."""

    output: str
    bucket: str
    matched: int  # words
    produced: int  # in the output
    expected: int  # in the reference
    precision: Optional[float]
    recall: Optional[float]
    f1: Optional[float]
    span: Optional[Tuple[float, float]]  # 95 % interval of f1
    difference: Optional[float]  # of f1 to that of the first output
    p: Optional[float]  # of the difference; None for the first output and where a score is missing


def labels_of(edges: Sequence[int]) -> List[str]:
    """Labels of the buckets, from the lowest: ``<100``, ``100–1000``, ``>1000``.

    Raises ValueError: edges that are not ascending, or below 1.
    """
    if not edges or edges[0] < 1 or list(edges) != sorted(set(edges)):
        raise ValueError(f"--edges {' '.join(map(str, edges))}: valid: ascending numbers from 1, as 100 1001")
    between = [f"{low}–{high - 1}" if high - 1 > low else str(low) for low, high in zip(edges, edges[1:])]
    return [f"<{edges[0]}" if edges[0] > 1 else "0", *between, f">{edges[-1] - 1}"]


def count_matches(
    output: Iterable[Sequence[str]],
    reference: Iterable[Sequence[str]],
    frequencies: Mapping[str, int],
    edges: Sequence[int],
) -> Counts:
    """Count words by bucket and sentence.

    Args:
        output, reference: words of the same N sentences.
        frequencies: occurrences of a word in the training text; words that it lacks have 0.
        edges: a word is in the bucket whose number is that of the edges that are not above its frequency.

    Returns:
        (N, len(edges) + 2, 3); the last bucket holds all words.

    Source: CSR section V-B and Table VII, after the F-measure of words of Neubig et al. 2019 (compare-mt).
    """
    rows = []
    for ours, theirs in zip(output, reference):
        row = np.zeros((len(edges) + 2, 3), dtype=np.int64)
        produced, expected = Counter(ours), Counter(theirs)
        for word in produced.keys() | expected.keys():
            numbers = (min(produced[word], expected[word]), produced[word], expected[word])
            row[bisect.bisect_right(edges, frequencies.get(word, 0))] += numbers
            row[-1] += numbers
        rows.append(row)
    return np.stack(rows)


def f1_of(sums: np.ndarray) -> np.ndarray:
    """(..., 3) -> (...): 2 · matched / (in the output + in the reference); NaN where both are 0."""
    below = sums[..., 1] + sums[..., 2]
    return np.where(below > 0, 2 * sums[..., 0] / np.maximum(below, 1), np.nan)


def resample(counts: Sequence[Counts], samples: int, seed: int) -> np.ndarray:
    """(outputs, samples, buckets): F1 of bootstrap samples; every output is resampled with the same sentences."""
    generator = np.random.default_rng(seed)
    sentences = len(counts[0])
    flat = [one.reshape(sentences, -1).astype(np.float64) for one in counts]
    found = []
    for start in range(0, samples, CHUNK):
        size = min(CHUNK, samples - start)
        drawn = generator.multinomial(sentences, np.full(sentences, 1 / sentences), size=size).astype(np.float64)
        found.append([f1_of((drawn @ one).reshape(size, -1, 3)) for one in flat])
    return np.concatenate(found, axis=1)


def p_value(differences: np.ndarray, observed: float) -> Optional[float]:
    """Two-sided p of a paired bootstrap: how often samples lie as far from their own mean as the observed difference from 0.

    ``differences`` (samples,) are NaN where a sample has no word of the bucket.

    Source: Riezler and Maxwell 2005, as sacreBLEU computes it.
    """
    valid = differences[~np.isnan(differences)]
    if not len(valid):
        return None
    return float((np.sum(np.abs(valid - valid.mean()) > abs(observed)) + 1) / (len(valid) + 1))


def score(counts: Mapping[str, Counts], labels: Sequence[str], samples: int, seed: int) -> List[Score]:
    """Scores of every output in every bucket (``labels``, the one of all words last); differences are to the first output."""
    drawn = resample(list(counts.values()), samples, seed)
    sums = [one.sum(0) for one in counts.values()]
    rows = []
    for number, name in enumerate(counts):
        for place, label in enumerate(labels):
            matched, produced, expected = (int(value) for value in sums[number][place])
            f1, first = (None if np.isnan(one) else float(one) for one in f1_of(np.stack(sums)[[number, 0], place]))
            precision, recall = (matched / below if below else None for below in (produced, expected))
            valid = drawn[number, :, place]
            valid = valid[~np.isnan(valid)]
            span = tuple(np.percentile(valid, [2.5, 97.5]).tolist()) if len(valid) else None
            difference = None if number == 0 or f1 is None or first is None else f1 - first
            p = None if difference is None else p_value(drawn[number, :, place] - drawn[0, :, place], difference)
            found = matched, produced, expected, precision, recall, f1, span, difference, p
            rows.append(Score(name, label, *found))
    return rows


COLUMNS = ("output", "bucket", "words", "produced", "matched", "precision", "recall", "F1", "95 %", "difference", "p")


def render(rows: Sequence[Score]) -> str:
    """The table of F1 as the paper's Table VII has it, then everything."""
    labels = list(dict.fromkeys(row.bucket for row in rows))[::-1]
    f1 = {(row.output, row.bucket): _percent(row.f1) for row in rows}
    short = [[name, *(f1[name, label] for label in labels)] for name in dict.fromkeys(row.output for row in rows)]
    long = []
    for row in rows:
        scores = [_percent(value) for value in (row.precision, row.recall, row.f1)]
        span = "" if row.span is None else "{:.1f} to {:.1f}".format(*(100 * end for end in row.span))
        test = [
            "" if row.difference is None else f"{100 * row.difference:+.1f}",
            "" if row.p is None else f"{row.p:.3f}",
        ]
        long.append([row.output, row.bucket, row.expected, row.produced, row.matched, *scores, span, *test])
    return f"{table(['F1, %', *labels], short)}\n\n{table(COLUMNS, long, text_columns=2)}"


def _percent(value: Optional[float]) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def draw(path: str, rows: Sequence[Score]) -> None:
    """Bars of F1 by bucket, one colour for each output, with intervals."""
    bars = []
    for name in dict.fromkeys(row.output for row in rows):
        own = [row for row in rows if row.output == name]
        spans = [None if row.span is None else (100 * row.span[0], 100 * row.span[1]) for row in own]
        bars.append(plots.Bars(name, [None if row.f1 is None else 100 * row.f1 for row in own], spans))
    labels = list(dict.fromkeys(row.bucket for row in rows))
    plots.draw_bars(path, labels, bars, "F1, %", "F1 of words by occurrences in the training text (95 % intervals)")


def work(args: argparse.Namespace) -> None:
    """Read, count, print and write."""
    labels = [*labels_of(args.edges), ALL]
    if args.samples < 1:
        raise ValueError(f"--samples must be at least 1; got {args.samples}")
    if args.seed < 0:
        raise ValueError(f"--seed must be at least 0; got {args.seed}")
    outputs = named_paths(args.output, "--output", "as plain=a.de restored=b.de, each name once")
    reference = "--reference"
    if reference in outputs:
        raise ValueError(f"--output {reference}=…: valid: another name")
    texts = {reference: read_lines(args.reference), **{name: read_lines(path) for name, path in outputs.items()}}
    row_parallel(texts, "--output")

    def split(lines: Iterable[str]) -> List[List[str]]:
        return [words(line, args.tokens, not args.cased) for line in lines]

    frequencies = Counter(itertools.chain.from_iterable(split(read_lines(args.train))))
    expected = split(texts[reference])
    counts = {name: count_matches(split(texts[name]), expected, frequencies, args.edges) for name in outputs}
    rows = score(counts, labels, args.samples, args.seed)
    how = f"tokens {args.tokens}, {'cased' if args.cased else 'lower-cased'}, {len(expected)} sentences"
    boot = f"bootstrap of {args.samples} samples, seed {args.seed}"
    say(f"F1 of words by occurrences in {args.train} ({how}; {boot})\n\n{render(rows)}")
    settings = {name: getattr(args, name) for name in ("tokens", "cased", "edges", "samples", "seed")}
    write_json(args.json, {**settings, "sentences": len(expected), "rows": [row._asdict() for row in rows]})
    spans = [None if row.span is None else "{}–{}".format(*row.span) for row in rows]
    write_tsv(args.tsv, Score._fields, [[*row[:8], span, *row[9:]] for row, span in zip(rows, spans)])
    if args.plot is not None:
        draw(args.plot, rows)


if __name__ == "__main__":
    sys.exit(forward("frequency-f1"))
