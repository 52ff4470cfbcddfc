"""What the runs of a study say of its claims."""

import statistics
from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Tuple

from .ledger import Ledger, score_of
from .studies import Claim, Study

SIGNIFICANT = 0.05


def _differences(claim: Claim, finals: Sequence[Dict[str, Any]], pair: str, seeds: Sequence[int]) -> List[float]:
    """Better minus worse, of the seeds that have both."""
    both = [[score_of(finals, *side, pair, seed) for side in (claim.better, claim.worse)] for seed in seeds]
    return [better - worse for better, worse in both if better is not None and worse is not None]


def _t_test(differences: Sequence[float]) -> float:
    """Two-sided p of the paired t-test; differences that are all the same have no spread to compare with."""
    from scipy.stats import ttest_1samp

    if statistics.pstdev(differences) == 0.0:
        return 0.0 if differences[0] else 1.0
    return float(ttest_1samp(differences, 0.0).pvalue)


@dataclass(frozen=True)
class Outcome:
    """What the runs say of a claim in one direction.

    Attributes:
        differences: better minus worse, by seed.
        p_values: of the bootstrap of each seed, or one of the t-test over the seeds; none where there are too few seeds.
        seeds: of the study.
    """

    differences: Sequence[float]
    p_values: Sequence[float]
    seeds: int

    def tested(self) -> bool:
        """True where every seed is there, three at least, and all have one sign."""
        enough = len(self.differences) >= max(self.seeds, 3)
        return enough and (all(one > 0 for one in self.differences) or all(one < 0 for one in self.differences))

    def p_value(self) -> float:
        """That of the t-test, or the second largest of the seeds' own; 1 where the claim is not tested."""
        return sorted(self.p_values)[-2:][0] if self.tested() else 1.0

    def cells(self, corrected: float) -> List[str]:
        """Differences, corrected p and verdict."""
        each = [f"{one:+.1f}" for one in self.differences]
        if len(self.p_values) == len(each) > 1:
            text = ", ".join(f"{one} ({p:.3f})" for one, p in zip(each, self.p_values))
        else:
            text = ", ".join(each) + "".join(f" ({probability(p)})" for p in self.p_values)
        return [text, probability(corrected) if self.tested() else "", self.verdict(corrected)]

    def verdict(self, corrected: float) -> str:
        """In words."""
        if len(self.differences) < max(self.seeds, 3):
            return f"open, {len(self.differences)} of {self.seeds} seeds"
        if not self.tested():
            return "not shown: signs differ"
        better = self.differences[0] > 0
        if corrected < SIGNIFICANT:
            return "shown" if better else "refuted"
        return "not shown: not significant" if better else "not shown: the other way, not significant"


def probability(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"


def holm(p_values: Sequence[float]) -> List[float]:
    """Adjusted p-values, in the order given: none of the hypotheses is rejected wrongly with more than the level's probability.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure.
    """
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        largest = max(largest, min((len(p_values) - rank) * p_values[place], 1.0))
        adjusted[place] = largest
    return adjusted


def outcomes(study: Study, ledger: Ledger) -> Dict[Tuple[Claim, str], Outcome]:
    """What the ledger says of every claim in every direction."""
    finals = [entry for entry in ledger.current() if entry.get("phase") == "final"]
    seeds, found = len(study.seeds), {}
    refused = {(arm.name, pair) for arm in study.arms for pair in arm.refused}
    for number, claim in enumerate(study.claims):
        for pair in study.directions:
            if refused & {(claim.better[0], pair), (claim.worse[0], pair)}:
                continue
            if study.metrics:
                differences = _differences(claim, finals, pair, study.seeds)
                p_values = [_t_test(differences)] if len(differences) >= max(seeds, 3) else []
            else:
                listed = [ledger.get(f"claims/{pair}/seed{seed}").get("results", []) for seed in study.seeds]
                results = [result for results in listed for result in results if result["claim"] == number]
                differences = [result["difference"] for result in results]
                p_values = [result["p"] for result in results]
            found[claim, pair] = Outcome(differences, p_values, seeds)
    return found
