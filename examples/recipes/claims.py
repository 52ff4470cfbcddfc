"""Verdicts of a study's runs about its claims."""

import statistics
from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Tuple

from .ledger import Ledger, score_of
from .studies import Claim, Study

SIGNIFICANT = 0.05
LEAST_SEEDS = 3
"""Seeds without which a claim is not tested."""


def _differences(
    claim: Claim,
    finals: Sequence[Dict[str, Any]],
    pair: str,
    seeds: Sequence[int],
) -> List[float]:
    """Return better minus worse for each seed that has both."""
    differences = []
    for seed in seeds:
        better = score_of(finals, *claim.better, pair, seed)
        worse = score_of(finals, *claim.worse, pair, seed)
        if better is not None and worse is not None:
            differences.append(better - worse)
    return differences


def _t_test(differences: Sequence[float]) -> float:
    """Return the two-sided p of the paired t-test.

    Equal differences have no spread to compare with: p is 0 then, or 1 if they are 0.
    """
    from scipy.stats import ttest_1samp

    if statistics.pstdev(differences) == 0.0:
        return 0.0 if differences[0] else 1.0
    return float(ttest_1samp(differences, 0.0).pvalue)


@dataclass(frozen=True)
class Outcome:
    """The differences of a claim in one direction, over the seeds.

    Attributes:
        differences: better minus worse, per seed.
        p_values: one of each seed's bootstrap, or that of the t-test over the seeds alone; empty if
            there are too few seeds.
        seeds: number of seeds of the study.
    """

    differences: Sequence[float]
    p_values: Sequence[float]
    seeds: int

    def is_tested(self) -> bool:
        """Return True if all seeds have run, three at least, and all differences have one sign."""
        signs = {(difference > 0) - (difference < 0) for difference in self.differences}
        return self._has_all_seeds() and signs in ({1}, {-1})

    def _has_all_seeds(self) -> bool:
        return len(self.differences) >= max(self.seeds, LEAST_SEEDS)

    def p_value(self) -> float:
        """Return the t-test's p or the bootstraps' second largest p; 1 for an untested claim."""
        return sorted(self.p_values)[-2:][0] if self.is_tested() else 1.0

    def cells(self, corrected: float) -> List[str]:
        """Return differences, corrected p and verdict as cells of a table."""
        numbers = [f"{difference:+.1f}" for difference in self.differences]
        if len(self.p_values) == len(numbers) > 1:
            text = ", ".join(f"{number} ({p:.3f})" for number, p in zip(numbers, self.p_values))
        else:
            p_values = "".join(f" ({format_p(p)})" for p in self.p_values)
            text = ", ".join(numbers) + p_values
        return [text, format_p(corrected) if self.is_tested() else "", self.verdict(corrected)]

    def verdict(self, corrected: float) -> str:
        """Return the verdict in words, given the corrected p."""
        if not self._has_all_seeds():
            return f"open, {len(self.differences)} of {self.seeds} seeds"
        if not self.is_tested():
            return "not shown: signs differ"
        is_better = self.differences[0] > 0
        if corrected < SIGNIFICANT:
            return "shown" if is_better else "refuted"
        return f"not shown: {'' if is_better else 'the other way, '}not significant"


def format_p(p_value: float) -> str:
    """Format a p-value with three decimals."""
    return f"{p_value:.3f}" if p_value >= 0.001 else "< 0.001"


def holm(p_values: Sequence[float]) -> List[float]:
    """Adjust p-values for several tests, in the order given.

    The probability that any true null hypothesis is rejected stays below the level.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure.
    """
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        largest = max(largest, min((len(p_values) - rank) * p_values[place], 1.0))
        adjusted[place] = largest
    return adjusted


def outcomes(study: Study, ledger: Ledger) -> Dict[Tuple[Claim, str], Outcome]:
    """Return the outcome of every claim in every direction in which both arms run."""
    finals, seeds = ledger.finals(), len(study.seeds)
    refused = {(arm.name, pair) for arm in study.arms for pair in arm.refused}
    table = {}
    for number, claim in enumerate(study.claims):
        for pair in study.directions:
            if refused & {(claim.better[0], pair), (claim.worse[0], pair)}:
                continue
            if study.metrics:
                differences = _differences(claim, finals, pair, study.seeds)
                enough = len(differences) >= max(seeds, LEAST_SEEDS)
                p_values = [_t_test(differences)] if enough else []
            else:
                results = _list_results(study, ledger, number, pair)
                differences = [entry["difference"] for entry in results]
                p_values = [entry["p"] for entry in results]
            table[claim, pair] = Outcome(differences, p_values, seeds)
    return table


def _list_results(study: Study, ledger: Ledger, claim: int, pair: str) -> List[Dict[str, Any]]:
    """List the ledger's bootstraps of a claim in a direction, one per seed."""
    results = []
    for seed in study.seeds:
        entries = ledger.get(f"claims/{pair}/seed{seed}").get("results", [])
        results += [entry for entry in entries if entry["claim"] == claim]
    return results
