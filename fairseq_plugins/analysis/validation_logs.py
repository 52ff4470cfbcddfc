"""What ``fairseq-validate --log-format json`` printed: the numbers of every subset."""

import json
import re
from typing import Dict, List, Optional

_JSON = re.compile(r"\| (?P<subset>[^|]+) \| (?P<stats>\{.*\})\s*$")
PREFERRED = ("ndcg", "f1", "accuracy")
"""Metrics by which tasks are compared when none is named: the first one that a log has."""


def read_log(path: str) -> Dict[str, Dict[str, float]]:
    """Numbers by subset and name, as ``{"test.de": {"accuracy": 41.3, …}}``; of repeated subsets the last counts.

    Args:
        path: standard error of ``fairseq-validate --log-format json``.

    Raises:
        ValueError: no subset's numbers in it.
    """
    found: Dict[str, Dict[str, float]] = {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            match = _JSON.search(line)
            if not match:
                continue
            subset = match["subset"].strip()
            numbers = prefixed_numbers(match["stats"], subset + "_")
            if numbers:
                found[subset] = numbers
    if not found:
        raise ValueError(f"{path}: no numbers of a subset; valid: what fairseq-validate --log-format json prints")
    return found


def prefixed_numbers(text: str, prefix: str) -> Dict[str, float]:
    """Numbers of a JSON object whose names begin with ``prefix``, without it; empty where the text is no JSON."""
    try:
        stats = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    numbers = {}
    for key, value in stats.items():
        if key.startswith(prefix):
            try:
                numbers[key[len(prefix) :]] = float(value)
            except (TypeError, ValueError):
                continue
    return numbers


def choose_metric(logs: List[Dict[str, Dict[str, float]]], wanted: Optional[str], task: str) -> str:
    """The metric of a task: the wanted one, or the first of :data:`PREFERRED` that every subset has.

    Raises:
        ValueError: some subset does not have it.
    """
    each = [set(numbers) for log in logs for numbers in log.values()]
    common = set.intersection(*each)
    chosen = wanted or next((name for name in PREFERRED if name in common), None)
    if chosen is None or chosen not in common:
        raise ValueError(
            f"--metric {task}={wanted or '(none given)'}: valid: {', '.join(sorted(common)) or '(nothing in common)'}"
        )
    return chosen
