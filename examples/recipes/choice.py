"""The point of a grid that an arm's final runs take, by validation."""

from typing import Any, Dict, Optional, Sequence

from .ledger import Ledger
from .studies import Study

LOWEST = float("-inf")


def choose(study: Study, ledger: Ledger) -> Dict[str, int]:
    """The point of each arm's grid with the best validation in the tuning phase; arms that are not complete are left out.

    The metric of the study decides; in an arm whose task does not log it (stock multilingual translation has no BLEU), the loss.
    """
    chosen = {arm.name: 0 for arm in study.arms if len(arm.grid) == 1}
    for arm in (arm for arm in study.arms if len(arm.grid) > 1):
        jobs = [job for job in study.tuning() if job.arm is arm]
        entries = [ledger.get(job.key) for job in jobs]
        if not all(entry.get("status") for entry in entries):
            continue
        scores = [best_validation(entry, study.metric(job.pair)) for entry, job in zip(entries, jobs)]
        if by_loss(entries, study.metric(jobs[0].pair)):
            losses = [[point["loss"] for point in entry.get("validation", [])] for entry in entries]
            scores = [-min(found) if found else None for found in losses]
        if any(score is not None for score in scores):
            chosen[arm.name] = max(
                range(len(jobs)), key=lambda number: LOWEST if scores[number] is None else scores[number]
            )
    return chosen


def by_loss(entries: Sequence[Dict[str, Any]], metric: str) -> bool:
    """True where no run of an arm has logged the metric."""
    return all(best_validation(entry, metric) is None for entry in entries)


def best_validation(entry: Dict[str, Any], metric: str) -> Optional[float]:
    """Best validation score of a run."""
    scores = [point[metric] for point in entry.get("validation", []) if metric in point]
    return max(scores) if scores else None
