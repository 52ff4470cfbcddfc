"""ROUGE-N and ROUGE-L on words of any script.

The counting is that of the rouge_score package, whose default tokenizer loses all letters outside a-z.
"""

from collections import Counter
from typing import Any, Dict, List, Tuple

from .metric import WordMetric, WordScore

KINDS = ("1", "2", "L")


def ngram_overlap(hypothesis: List[str], reference: List[str], order: int) -> Tuple[int, int, int]:
    """Count n-grams: (in both, each at most as often as in the other; in the hypothesis; in the reference).

    Source: Lin 2004, section 2 (ROUGE-N).
    """
    first, second = (Counter(zip(*(tokens[start:] for start in range(order)))) for tokens in (hypothesis, reference))
    return sum((first & second).values()), sum(first.values()), sum(second.values())


def common_subsequence(hypothesis: List[str], reference: List[str]) -> int:
    """Length of the longest common subsequence, one bit a hypothesis word.

    A zero bit in ``row`` marks a hypothesis position where the length grows; a word of the reference moves each of these to
    the first match of its block.

    Source: Lin 2004, section 3.1 (ROUGE-L); bit-parallel form: Hyyrö 2004, "Bit-parallel LCS-length computation revisited".
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
    """ROUGE-1, ROUGE-2 or ROUGE-L (``kind``): precision, recall and F1 of each sentence, and their means over the corpus.

    A sentence without words on either side scores 0, as in rouge_score. Of several references the best counts. ROUGE-L
    takes a line as one sequence; summary-level ROUGE-Lsum is not offered.

    Source: Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries", sections 2 and 3.1, with beta = 1.
    """

    def __init__(self, kind: str = "L", tokens: str = "auto", lower: bool = True):
        if kind not in KINDS:
            raise ValueError(f"ROUGE kind {kind}: valid: {', '.join(KINDS)}")
        super().__init__(tokens, lower)
        self.kind = kind
        self.name = f"ROUGE-{kind}"
        self.details = {"stem": "none", "agg": "mean"}  # what ROUGE programs differ in

    def segment_statistics(self, hypothesis: List[str], reference: List[str]) -> List[float]:
        """Precision, recall, F1 (ratios) and 1 for the sentence itself."""
        if self.kind == "L":
            counts = common_subsequence(hypothesis, reference), len(hypothesis), len(reference)
        else:
            counts = ngram_overlap(hypothesis, reference, int(self.kind))
        common, in_hypothesis, in_reference = counts
        if common == 0:
            return [0.0, 0.0, 0.0, 1.0]
        precision, recall = common / in_hypothesis, common / in_reference
        return [precision, recall, 2 * precision * recall / (precision + recall), 1.0]

    def _compute_score_from_stats(self, stats: List[Any]) -> WordScore:
        precision, recall, f1 = (100 * float(total) / float(stats[3]) for total in stats[:3])
        return WordScore(self.name, f1, precision, recall)
