"""What ``fairseq-train`` and ``fairseq-validate`` wrote: the curve of every number of a training, the numbers of every subset.

A curve has a name of two parts, as the log has them: ``train_inner.loss`` (every ``--log-interval`` updates), ``train.loss`` (the
mean of an epoch), ``valid.bleu`` (a validation subset).
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
_START = re.compile(r"fairseq_cli\.train\W.*\{'_name': None, 'common':")
_JSON = re.compile(r"(?:^|[|-] )(\{\".*\})\s*$")
_PREFIX = re.compile(rf'"(?:([^"]+)_)?{UPDATES}":')
_SUBSET = re.compile(r"\| (?P<subset>[^|]+) \| (?P<stats>\{.*\})\s*$")
_INNER = re.compile(r"(?:^|[|-] )epoch \d+(?: \| [^|]*)?:\s+\d+ / \d+ (.*=.*)$")
_EPOCH = re.compile(r"(?:^|[|-] )epoch \d+ \| (?:valid on '([^']+)' subset \| )?(.* \d.*)$")


class Point(NamedTuple):
    """A number at one time of a training.

    ``minutes`` are those of running until then, without the time between an attempt's last results and the start of the next one;
    None where the log has no times.
    """

    updates: int
    minutes: Optional[float]
    value: float


Curves = Dict[str, List[Point]]


def read_curves(path: str) -> Curves:
    """Every curve of a log, by name.

    A run that was resumed logs some updates again: what was logged later counts, and what an earlier attempt logged at the same
    or at later updates is left out. So are values that are not finite.

    The log is standard error of ``fairseq-train`` or ``fairseq-hydra-train`` with ``--log-format json``, ``simple`` or ``tqdm``,
    or what ``--log-file`` names (without times).

    Raises ValueError: no such file, or no numbers of a training in it.
    """
    if not os.path.isfile(path):
        raise ValueError(f"{path}: no such file")
    curves: Curves = {}
    clock = _Clock()
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            clock.see(line)
            record = _record(line)
            if record is None:
                continue
            name, numbers = record
            minutes = clock.minutes()
            updates = int(numbers[UPDATES])
            for key, value in numbers.items():
                if key in (UPDATES, "epoch", "update") or not math.isfinite(value):
                    continue
                points = curves.setdefault(f"{name}.{key}", [])
                while points and points[-1].updates >= updates:
                    points.pop()
                points.append(Point(updates, minutes, value))
    if not curves:
        raise ValueError(f"{path}: no numbers of a training; valid: what fairseq-train prints (json, simple or tqdm)")
    return curves


def json_records(path: "os.PathLike[str]") -> List[Dict[str, Any]]:
    """The JSON records of a log as they stand, in order."""
    with open(path, encoding="utf-8") as file:
        found = [_JSON.search(line) for line in file]
    return [json.loads(match.group(1)) for match in found if match]


class _Clock:
    """Minutes of running, from the times that lines begin with; an attempt goes on from the last results of the one before."""

    def __init__(self) -> None:
        self.origin: Optional[datetime] = None
        self.now: Optional[datetime] = None
        self.done = timedelta(0)

    def see(self, line: str) -> None:
        """Take the time of a line; one without keeps that of the line before."""
        found = _TIME.match(line)
        if found:
            self.now = datetime.fromisoformat(found.group(1).replace("T", " "))
            if self.origin is None or _START.search(line):
                self.origin = self.now - self.done

    def minutes(self) -> Optional[float]:
        """Minutes at a line of results."""
        if self.now is None or self.origin is None:
            return None
        self.done = self.now - self.origin
        return self.done.total_seconds() / 60


def _record(line: str) -> Optional[Tuple[str, Dict[str, float]]]:
    """The name and the numbers of a line of results; None for other lines."""
    if UPDATES not in line:
        return None
    if found := _JSON.search(line):
        prefix = _PREFIX.search(found.group(1))
        if not prefix:
            return None
        name = prefix.group(1)
        name, numbers = name or INNER, prefixed_numbers(found.group(1), f"{name}_" if name else "")
    elif found := _INNER.search(line):
        name, numbers = INNER, _pairs(found.group(1), ", ", "=")
    elif found := _EPOCH.search(line):
        name, numbers = found.group(1) or "train", _pairs(found.group(2), " | ", " ")
    else:
        return None
    return (name, numbers) if UPDATES in numbers else None


def _pairs(text: str, between: str, inside: str) -> Dict[str, float]:
    """``loss=1.5, ppl=2`` or ``loss 1.5 | ppl 2`` as numbers; what is none is left out."""
    return _numbers(part.partition(inside)[::2] for part in text.strip().split(between))


def _numbers(items: Iterable[Tuple[str, Any]]) -> Dict[str, float]:
    """Those of the values that are numbers."""
    numbers = {}
    for key, value in items:
        with contextlib.suppress(TypeError, ValueError):
            numbers[key] = float(value)
    return numbers


def read_log(path: str) -> Dict[str, Dict[str, float]]:
    """Numbers by subset and name, as ``{"test.de": {"accuracy": 41.3, …}}``; of repeated subsets the last counts.

    Raises ValueError: no subset's numbers in it.
    """
    with open(path, encoding="utf-8", errors="replace") as file:
        return numbers_of_subsets(file, path)


def numbers_of_subsets(lines: Iterable[str], name: str) -> Dict[str, Dict[str, float]]:
    """The same of the lines of a log; ``name`` is its name in errors."""
    found: Dict[str, Dict[str, float]] = {}
    for line in lines:
        match = _SUBSET.search(line)
        subset = match["subset"].strip() if match else ""
        numbers = prefixed_numbers(match["stats"], subset + "_") if match else {}
        if numbers:
            found[subset] = numbers
    if not found:
        raise ValueError(f"{name}: no numbers of a subset; valid: what fairseq-validate --log-format json prints")
    return found


def prefixed_numbers(text: str, prefix: str) -> Dict[str, float]:
    """Numbers of a JSON object whose names begin with ``prefix``, without it; empty where the text is no JSON."""
    try:
        stats = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return _numbers((key[len(prefix) :], value) for key, value in stats.items() if key.startswith(prefix))
