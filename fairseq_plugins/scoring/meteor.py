"""METEOR without any file to download: words match if they are equal, or begin alike.

METEOR programs differ by up to ten points on the same text, so that this variant has its own names
and a signature.
"""

from typing import Any, List, Optional

from .chunks import align
from .metric import WordMetric, WordScore


class Meteor(WordMetric):
    """METEOR from matches m, chunks ch and the numbers of words h and r of both sides.

    P = m / h, R = m / r, Fmean = P R / (alpha P + (1 - alpha) R), score = Fmean (1 - gamma (ch / m)
    ** beta). The corpus score is that of the summed m, ch, h, r, as METEOR's program computes it,
    not the mean of sentence scores. The defaults are the parameters of 2005, which were not tuned
    to a language.

    Differs from the published programs: no synonyms, no paraphrases, no function words, no Snowball
    stemmer (a prefix stands for the stem in every language), punctuation is dropped, and one search
    over all matches minimises the chunks where the program of 2005 counted crossings, matcher by
    matcher. A sentence that equals its reference scores 1 - gamma / m ** beta, as in the paper,
    not 1.

    Args:
        prefix: number of first letters that must be equal for a match; None = whole words. Both
            kinds of matches weigh 1.
        alpha: weight of recall, in [0, 1].
        beta: exponent of the penalty for chunks, at least 0.
        gamma: largest penalty for chunks, in [0, 1].
        beam: of :func:`.chunks.align`.

    Source: Banerjee and Lavie 2005, section 2.2; parameters: Lavie and Agarwal 2007, section 2.
    """

    def __init__(
        self,
        prefix: Optional[int] = None,
        alpha: float = 0.9,
        beta: float = 3.0,
        gamma: float = 0.5,
        beam: int = 100,
        tokens: str = "auto",
        lower: bool = True,
    ):
        super().__init__(tokens, lower)
        if not 0 <= alpha <= 1:
            raise ValueError(f"--meteor-alpha {alpha}: valid: 0 to 1")
        if not 0 <= gamma <= 1:
            raise ValueError(f"--meteor-gamma {gamma}: valid: 0 to 1")
        if not beta >= 0:
            raise ValueError(f"--meteor-beta {beta}: valid: 0 or more")
        if prefix is not None and prefix < 1:
            raise ValueError(f"--meteor-prefix {prefix}: valid: 1 or more")
        if beam < 1:
            raise ValueError(f"METEOR beam {beam}: valid: 1 or more")
        self.prefix = prefix
        self.alpha, self.beta, self.gamma = float(alpha), float(beta), float(gamma)
        self.beam = beam
        self.name = "METEOR-exact" if prefix is None else "METEOR-stem"
        self.details = {
            "stem": "none" if prefix is None else f"prefix{prefix}",
            "syn": "none",
            "alpha": self.alpha,
            "beta": self.beta,
            "gamma": self.gamma,
            "agg": "sum",
            "beam": beam,
        }

    def segment_statistics(self, hypothesis: List[str], reference: List[str]) -> List[float]:
        """Return matches, chunks, words of the hypothesis, words of the reference."""
        first = [word[: self.prefix] for word in hypothesis]
        second = [word[: self.prefix] for word in reference]
        alignment = align(first, second, self.beam)
        return [alignment.matches, alignment.chunks, len(hypothesis), len(reference)]

    def _compute_score_from_stats(self, stats: List[Any]) -> WordScore:
        matches, chunks, in_hypothesis, in_reference = map(float, stats)
        if matches == 0:
            return WordScore(self.name, 0.0, 0.0, 0.0, " frag = 0.000")
        precision, recall = matches / in_hypothesis, matches / in_reference
        f_mean = precision * recall / (self.alpha * precision + (1 - self.alpha) * recall)
        fragmentation = chunks / matches
        score = 100 * (f_mean * (1 - self.gamma * fragmentation**self.beta))
        details = f" frag = {fragmentation:.3f}"
        return WordScore(self.name, score, 100 * precision, 100 * recall, details)
