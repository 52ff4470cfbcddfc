"""ROUGE-N and ROUGE-L on words of any script.

They count as the rouge_score package does, whose default tokenizer loses all letters outside a-z.
"""

from collections import Counter
from typing import Any, Dict, List, NamedTuple

from .metric import WordMetric, WordScore

KINDS = ("1", "2", "L")


class Overlap(NamedTuple):
    """Counts of n-grams, or of words of a subsequence."""

    common: int
    hypothesis: int
    reference: int


def ngram_overlap(hypothesis: List[str], reference: List[str], order: int) -> Overlap:
    """Count n-grams; a common n-gram counts as often as on the side where it is rarer.

    Source: Lin 2004, section 2 (ROUGE-N).
    """
    first, second = count_ngrams(hypothesis, order), count_ngrams(reference, order)
    return Overlap(sum((first & second).values()), sum(first.values()), sum(second.values()))


def count_ngrams(tokens: List[str], order: int) -> "Counter[Any]":
    """Count the n-grams of a sentence."""
    return Counter(zip(*(tokens[start:] for start in range(order))))


def common_subsequence(hypothesis: List[str], reference: List[str]) -> int:
    """Compute the length of the longest common subsequence, with one bit per hypothesis word.

    A zero bit in ``row`` marks a hypothesis position where the length grows; a word of the
    reference moves each of these to the first match of its block.

    Source: Lin 2004, section 3.1 (ROUGE-L); bit-parallel form: Hyyrö 2004, "Bit-parallel LCS-length
    computation revisited".
    """
    places: Dict[str, int] = {}
    for place, word in enumerate(hypothesis):
        places[word] = places.get(word, 0) | 1 << place
    full = (1 << len(hypothesis)) - 1
    row = full
    for word in reference:
        hits = row & places.get(word, 0)
        row = ((row + hits) | (row - hits)) & full
    return len(hypothesis) - bin(row).count("1")


class Rouge(WordMetric):
    """ROUGE-1, ROUGE-2 or ROUGE-L: means of the sentences' precision, recall and F1.

    A sentence scores 0 if a side has no words, as in rouge_score. Of several references the best
    counts. ROUGE-L takes a line as one sequence; summary-level ROUGE-Lsum is not offered.

    Source: Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries", sections 2 and 3.1,
    with beta = 1.
    """

    def __init__(self, kind: str = "L", tokens: str = "auto", lower: bool = True):
        if kind not in KINDS:
            raise ValueError(f"ROUGE kind {kind}: valid: {', '.join(KINDS)}")
        super().__init__(tokens, lower)
        self.kind = kind
        self.name = f"ROUGE-{kind}"
        self.details = {"stem": "none", "agg": "mean"}  # ROUGE programs differ in these

    def segment_statistics(self, hypothesis: List[str], reference: List[str]) -> List[float]:
        """Return precision, recall and F1 (ratios), and 1 for the sentence itself."""
        if self.kind == "L":
            common = common_subsequence(hypothesis, reference)
            overlap = Overlap(common, len(hypothesis), len(reference))
        else:
            overlap = ngram_overlap(hypothesis, reference, int(self.kind))
        if overlap.common == 0:
            return [0.0, 0.0, 0.0, 1.0]
        precision = overlap.common / overlap.hypothesis
        recall = overlap.common / overlap.reference
        return [precision, recall, 2 * precision * recall / (precision + recall), 1.0]

    def _compute_score_from_stats(self, stats: List[Any]) -> WordScore:
        precision, recall, f1 = (100 * float(total) / float(stats[3]) for total in stats[:3])
        return WordScore(self.name, f1, precision, recall)
