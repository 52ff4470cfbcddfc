"""Logs of ``fairseq-train`` and ``fairseq-validate``: curves of a training, numbers of each subset.

A curve has a name of two parts, as the log has them: ``train_inner.loss`` (every
``--log-interval`` updates), ``train.loss`` (the mean of an epoch), ``valid.bleu`` (a validation
subset).
"""

import contextlib
import json
import math
import os
import re
from datetime import datetime, timedelta
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

UPDATES = "num_updates"
INNER = "train_inner"

_TIME = re.compile(r"\[?(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)")
_START = re.compile(r"fairseq_cli\.train\W.*\{'_name': None, 'common':")  # of an attempt
_JSON = re.compile(r"(?:^|[|-] )(\{\".*\})\s*$")
_PREFIX = re.compile(rf'"(?:([^"]+)_)?{UPDATES}":')
_SUBSET = re.compile(r"\| (?P<subset>[^|]+) \| (?P<stats>\{.*\})\s*$")
_INNER = re.compile(r"(?:^|[|-] )epoch \d+(?: \| [^|]*)?:\s+\d+ / \d+ (.*=.*)$")
_EPOCH = re.compile(r"(?:^|[|-] )epoch \d+ \| (?:valid on '([^']+)' subset \| )?(.* \d.*)$")


# ---- Curves of a training. ----


class Point(NamedTuple):
    """A number at one time of a training."""

    updates: int
    minutes: Optional[float]
    """Running time so far. The time from an attempt's last results to the start of the next attempt
    does not count. None if the log has no times."""
    value: float


Curves = Dict[str, List[Point]]


class Record(NamedTuple):
    """A line of results."""

    name: str  # train_inner, train, or a subset
    numbers: Dict[str, float]


def read_curves(path: str) -> Curves:
    """Read every curve of a log, by name.

    A resumed run logs some updates again. Then the values of the earlier attempt from that update
    on are dropped. Values that are not finite are left out.

    Args:
        path: standard error of ``fairseq-train`` or ``fairseq-hydra-train`` with ``--log-format``
            json, simple or tqdm, or the file of ``--log-file`` (without times).

    Raises:
        ValueError: no such file, or no numbers of a training in it.
    """
    if not os.path.isfile(path):
        raise ValueError(f"{path}: no such file")
    curves: Curves = {}
    clock = _Clock()
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            clock.see(line)
            record = _record(line)
            if record is not None:
                _add(record, clock.minutes(), curves)
    if not curves:
        valid = "what fairseq-train prints (json, simple or tqdm)"
        raise ValueError(f"{path}: no numbers of a training; valid: {valid}")
    return curves


def _add(record: Record, minutes: Optional[float], curves: Curves) -> None:
    """Add the numbers of a record to their curves, and drop points that lie at or after it."""
    updates = int(record.numbers[UPDATES])
    for key, number in record.numbers.items():
        if key in (UPDATES, "epoch", "update") or not math.isfinite(number):
            continue
        points = curves.setdefault(f"{record.name}.{key}", [])
        while points and points[-1].updates >= updates:
            points.pop()
        points.append(Point(updates, minutes, number))


class _Clock:
    """Measure the running time by the times at which lines begin.

    The time of an attempt is added to that of the earlier attempts up to their last results.
    """

    def __init__(self) -> None:
        self.origin: Optional[datetime] = None
        self.now: Optional[datetime] = None
        self.duration = timedelta(0)  # until the last results

    def see(self, line: str) -> None:
        """Read the time of a line; a line without one has that of the line before."""
        match = _TIME.match(line)
        if match:
            self.now = datetime.fromisoformat(match.group(1).replace("T", " "))
            if self.origin is None or _START.search(line):
                self.origin = self.now - self.duration

    def minutes(self) -> Optional[float]:
        """Return the running time at a line of results, the last line that was seen."""
        if self.now is None or self.origin is None:
            return None
        self.duration = self.now - self.origin
        return self.duration.total_seconds() / 60


def _record(line: str) -> Optional[Record]:
    """Parse a line of results; return None for other lines."""
    if UPDATES not in line:
        return None
    if match := _JSON.search(line):
        stats = match.group(1)
        prefix = _PREFIX.search(stats)
        if not prefix:
            return None
        subset = prefix.group(1)
        start = f"{subset}_" if subset else ""
        record = Record(subset or INNER, prefixed_numbers(stats, start))
    elif match := _INNER.search(line):
        record = Record(INNER, _split_numbers(match.group(1), ", ", "="))
    elif match := _EPOCH.search(line):
        record = Record(match.group(1) or "train", _split_numbers(match.group(2), " | ", " "))
    else:
        return None
    return record if UPDATES in record.numbers else None


# ---- Numbers of subsets. ----


def json_records(path: "os.PathLike[str]") -> List[Dict[str, Any]]:
    """Read the JSON records of a log unchanged, in order."""
    with open(path, encoding="utf-8") as file:
        matches = [_JSON.search(line) for line in file]
    return [json.loads(match.group(1)) for match in matches if match]


def read_log(path: str) -> Dict[str, Dict[str, float]]:
    """Read numbers by subset and name, as ``{"test.de": {"accuracy": 41.3, …}}``.

    Of repeated subsets the last one counts.

    Raises:
        ValueError: no subset's numbers in it.
    """
    with open(path, encoding="utf-8", errors="replace") as file:
        return numbers_of_subsets(file, path)


def numbers_of_subsets(lines: Iterable[str], name: str) -> Dict[str, Dict[str, float]]:
    """Parse the lines of a log as :func:`read_log` does; ``name`` is its name in errors."""
    subsets: Dict[str, Dict[str, float]] = {}
    for line in lines:
        match = _SUBSET.search(line)
        if match:
            subset = match["subset"].strip()
            numbers = prefixed_numbers(match["stats"], f"{subset}_")
            if numbers:
                subsets[subset] = numbers
    if not subsets:
        valid = "what fairseq-validate --log-format json prints"
        raise ValueError(f"{name}: no numbers of a subset; valid: {valid}")
    return subsets


# ---- Numbers of a line. ----


def prefixed_numbers(text: str, prefix: str) -> Dict[str, float]:
    """Parse the numbers of a JSON object whose names begin with ``prefix``, and remove it.

    Returns an empty dictionary if the text is not JSON.
    """
    try:
        stats = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    entries = [(key, entry) for key, entry in stats.items() if key.startswith(prefix)]
    return _numbers((key[len(prefix) :], entry) for key, entry in entries)


def _split_numbers(text: str, separator: str, equals: str) -> Dict[str, float]:
    """Parse ``loss=1.5, ppl=2`` or ``loss 1.5 | ppl 2``."""
    parts = [part.partition(equals) for part in text.strip().split(separator)]
    return _numbers((key, entry) for key, _, entry in parts)


def _numbers(entries: Iterable[Tuple[str, Any]]) -> Dict[str, float]:
    """Convert the entries that are numbers, and leave out the others."""
    numbers = {}
    for key, entry in entries:
        with contextlib.suppress(TypeError, ValueError):
            numbers[key] = float(entry)
    return numbers
