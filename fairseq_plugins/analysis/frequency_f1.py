"""F1 of words by their frequency in the training text: ``fairseq-plugins frequency-f1``.

    … --train train.de --reference test.de --output plain=a.de restored=b.de

A bucket holds the words whose number of occurrences in ``--train`` lies between two edges; words
that do not occur there count 0 and are part of the lowest bucket (``--edges 1 100 1001`` gives them
a bucket of their own). For each sentence and word, matched is the smaller of its counts in output
and reference. Words are those of ``--tokens``, without punctuation, lower-cased unless ``--cased``.
The interval of a score, and p of its difference to the first output's, come from one bootstrap over
sentences.
"""

import argparse
import bisect
import sys
from collections import Counter
from typing import Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..own_commands import forward
from ..scoring.words import words
from . import plots
from .report import named_paths, say, table, write_json, write_tsv
from .text import check_parallel, read_lines

ALL = "all"
CHUNK = 64
"""Bootstrap samples that are drawn at a time."""

Counts = np.ndarray
"""(N sentences, K buckets and all words, 3) int64.

The last dimension counts the matched words, those of the output and those of the reference.
"""


class Score(NamedTuple):
    """Score of an output in a bucket.

    Precision, recall and F1 lie in [0, 1]; None if there is nothing to divide by.
    """

    output: str
    bucket: str
    matched: int  # words
    produced: int  # in the output
    expected: int  # in the reference
    precision: Optional[float]
    recall: Optional[float]
    f1: Optional[float]
    span: Optional[Tuple[float, float]]  # 95 % interval of f1
    difference: Optional[float]  # f1 minus that of the first output; None for the first itself
    p: Optional[float]  # of the difference


def labels_of(edges: Sequence[int]) -> List[str]:
    """Label the buckets, from the lowest: ``<100``, ``100–1000``, ``>1000``.

    Raises:
        ValueError: edges that are not ascending, or below 1.
    """
    if not edges or edges[0] < 1 or list(edges) != sorted(set(edges)):
        numbers = " ".join(map(str, edges))
        raise ValueError(f"--edges {numbers}: valid: ascending numbers from 1, as 100 1001")
    labels = [f"<{edges[0]}" if edges[0] > 1 else "0"]
    for low, high in zip(edges, edges[1:]):
        labels.append(f"{low}–{high - 1}" if high - 1 > low else str(low))
    return [*labels, f">{edges[-1] - 1}"]


def count_matches(
    output: Iterable[Sequence[str]],
    reference: Iterable[Sequence[str]],
    frequencies: Mapping[str, int],
    edges: Sequence[int],
) -> Counts:
    """Count words by bucket and sentence.

    Args:
        output, reference: words of the same N sentences.
        frequencies: occurrences of a word in the training text; absent words have 0.
        edges: ascending. The bucket of a word is the number of edges that its frequency reaches.

    Returns:
        (N, len(edges) + 2, 3); the last bucket holds all words.

    Source: CSR section V-B and Table VII; the word F-measure of compare-mt (Neubig et al. 2019).
    """
    rows = []
    for ours, theirs in zip(output, reference):
        row = np.zeros((len(edges) + 2, 3), dtype=np.int64)
        produced, expected = Counter(ours), Counter(theirs)
        for word in produced.keys() | expected.keys():
            matched = min(produced[word], expected[word])
            numbers = (matched, produced[word], expected[word])
            row[bisect.bisect_right(edges, frequencies.get(word, 0))] += numbers
            row[-1] += numbers
        rows.append(row)
    return np.stack(rows)


def f1_of(sums: np.ndarray) -> np.ndarray:
    """Compute 2 · matched / (produced + expected). (..., 3) -> (...); NaN for 0 / 0."""
    total = sums[..., 1] + sums[..., 2]
    return np.where(total > 0, 2 * sums[..., 0] / np.maximum(total, 1), np.nan)


def resample(counts: Sequence[Counts], samples: int, seed: int) -> np.ndarray:
    """Compute F1 of bootstrap samples of the sentences, which are the same for every output.

    Returns (outputs, samples, buckets).
    """
    generator = np.random.default_rng(seed)
    sentences = len(counts[0])
    flat = [output.reshape(sentences, -1).astype(np.float64) for output in counts]
    chunks = []
    for start in range(0, samples, CHUNK):
        size = min(CHUNK, samples - start)
        shares = np.full(sentences, 1 / sentences)
        # (size, N): how often a sample holds each sentence.
        draws = generator.multinomial(sentences, shares, size=size).astype(np.float64)
        chunks.append([f1_of((draws @ output).reshape(size, -1, 3)) for output in flat])
    return np.concatenate(chunks, axis=1)


def p_value(differences: np.ndarray, observed: float) -> Optional[float]:
    """Compute the two-sided p of a paired bootstrap.

    p is the share of samples that lie further from the samples' mean than ``observed`` from 0.

    Args:
        differences: (samples,); NaN if a sample has no word of the bucket.
        observed: difference on the whole text.

    Source: Riezler and Maxwell 2005, as sacreBLEU computes it.
    """
    valid = differences[~np.isnan(differences)]
    if not len(valid):
        return None
    return float((np.sum(np.abs(valid - valid.mean()) > abs(observed)) + 1) / (len(valid) + 1))


def score(
    counts: Mapping[str, Counts], labels: Sequence[str], samples: int, seed: int
) -> List[Score]:
    """Score every output in every bucket, and compare it with the first output.

    Args:
        counts: output -> its counts.
        labels: of the buckets, that of all words last.
        samples, seed: of the bootstrap.
    """
    resampled = resample(list(counts.values()), samples, seed)
    rows: List[Score] = []
    for number, (name, output) in enumerate(counts.items()):
        for place, label in enumerate(labels):
            matched, produced, expected = (int(count) for count in output.sum(0)[place])
            f1 = _number(f1_of(output.sum(0)[place]))
            first = rows[place].f1 if number else f1  # the first rows are the first output's
            draws = resampled[number, :, place]
            difference = p = None
            if number and f1 is not None and first is not None:
                difference = f1 - first
                p = p_value(draws - resampled[0, :, place], difference)
            row = Score(
                output=name,
                bucket=label,
                matched=matched,
                produced=produced,
                expected=expected,
                precision=matched / produced if produced else None,
                recall=matched / expected if expected else None,
                f1=f1,
                span=_interval(draws),
                difference=difference,
                p=p,
            )
            rows.append(row)
    return rows


def _number(value: np.ndarray) -> Optional[float]:
    return None if np.isnan(value) else float(value)


def _interval(draws: np.ndarray) -> Optional[Tuple[float, float]]:
    """Return the 95 % interval of the samples that are numbers."""
    valid = draws[~np.isnan(draws)]
    if not len(valid):
        return None
    low, high = np.percentile(valid, [2.5, 97.5]).tolist()
    return low, high


COUNT_COLUMNS = ("output", "bucket", "words", "produced", "matched")
SCORE_COLUMNS = ("precision", "recall", "F1", "95 %", "difference", "p")


def render(rows: Sequence[Score]) -> str:
    """Format a table of F1 in the form of the paper's Table VII, and one of all numbers."""
    labels = list(dict.fromkeys(row.bucket for row in rows))[::-1]
    f1 = {(row.output, row.bucket): _percent(row.f1) for row in rows}
    outputs = dict.fromkeys(row.output for row in rows)
    short = [[name, *(f1[name, label] for label in labels)] for name in outputs]
    long = []
    for row in rows:
        counts = [row.output, row.bucket, row.expected, row.produced, row.matched]
        scores = [_percent(share) for share in (row.precision, row.recall, row.f1)]
        span = ""
        if row.span is not None:
            span = f"{100 * row.span[0]:.1f} to {100 * row.span[1]:.1f}"
        difference = "" if row.difference is None else f"{100 * row.difference:+.1f}"
        p = "" if row.p is None else f"{row.p:.3f}"
        long.append([*counts, *scores, span, difference, p])
    columns = [*COUNT_COLUMNS, *SCORE_COLUMNS]
    return f"{table(['F1, %', *labels], short)}\n\n{table(columns, long, text_columns=2)}"


def _percent(share: Optional[float]) -> str:
    return "" if share is None else f"{100 * share:.1f}"


def draw(path: str, rows: Sequence[Score]) -> None:
    """Draw bars of F1 by bucket, one colour for each output, with intervals."""
    bars = []
    for name in dict.fromkeys(row.output for row in rows):
        scores = [row for row in rows if row.output == name]
        heights = [None if row.f1 is None else 100 * row.f1 for row in scores]
        spans = [row.span and (100 * row.span[0], 100 * row.span[1]) for row in scores]
        bars.append(plots.Bars(name, heights, spans))
    labels = list(dict.fromkeys(row.bucket for row in rows))
    title = "F1 of words by occurrences in the training text (95 % intervals)"
    plots.draw_bars(path, labels, bars, "F1, %", title)


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
    texts = {reference: read_lines(args.reference)}
    texts.update((name, read_lines(path)) for name, path in outputs.items())
    check_parallel(texts, "--output")

    def split(lines: Iterable[str]) -> List[List[str]]:
        """Split lines into words."""
        return [words(line, args.tokens, not args.cased) for line in lines]

    frequencies = Counter(word for line in split(read_lines(args.train)) for word in line)
    expected = split(texts[reference])
    counts = {
        name: count_matches(split(texts[name]), expected, frequencies, args.edges)
        for name in outputs
    }
    rows = score(counts, labels, args.samples, args.seed)
    case = "cased" if args.cased else "lower-cased"
    how = f"tokens {args.tokens}, {case}, {len(expected)} sentences"
    boot = f"bootstrap of {args.samples} samples, seed {args.seed}"
    say(f"F1 of words by occurrences in {args.train} ({how}; {boot})\n\n{render(rows)}")
    names = ("tokens", "cased", "edges", "samples", "seed")
    settings = {name: getattr(args, name) for name in names}
    content = {**settings, "sentences": len(expected), "rows": [row._asdict() for row in rows]}
    write_json(args.json, content)
    cells = []
    for row in rows:
        span = None if row.span is None else f"{row.span[0]}–{row.span[1]}"
        cells.append(list({**row._asdict(), "span": span}.values()))
    write_tsv(args.tsv, Score._fields, cells)
    if args.plot is not None:
        draw(args.plot, rows)


if __name__ == "__main__":
    sys.exit(forward("frequency-f1"))
