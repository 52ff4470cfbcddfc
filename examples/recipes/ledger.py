"""The ledger of a study: every run with its commands, facts and scores, and the points of grids that validation chooses by it."""

import hashlib
import json
import statistics
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from data_prep.files import sha256, write_json
from data_prep.io import read_json

from .studies import Study

FORMAT = 1
LOWEST = float("-inf")


class Ledger:
    """Entries by key, on disk as JSON.

    Entries made with other code than today's (see :func:`digest`) stay in the file and are listed, but never counted with today's.

    Args:
        path: the JSON file, made when missing.
        code: digest of the code that the results depend on.
    """

    def __init__(self, path: Path, code: str):
        self.path, self.code = path, code
        content = read_json(path) or {"format": FORMAT, "entries": []}
        if content.get("format") != FORMAT:
            raise ValueError(f"{path}: format {content.get('format')}; valid: {FORMAT}")
        self.entries: List[Dict[str, Any]] = content["entries"]

    def get(self, key: str) -> Dict[str, Any]:
        """Today's entry of a run, empty when there is none."""
        return next((entry for entry in self.entries if entry["key"] == key and entry["code"] == self.code), {})

    def current(self) -> List[Dict[str, Any]]:
        """Entries made with today's code."""
        return [entry for entry in self.entries if entry["code"] == self.code]

    def foreign(self) -> List[Dict[str, Any]]:
        """Entries made with other code."""
        return [entry for entry in self.entries if entry["code"] != self.code]

    def largest(self) -> "Ledger":
        """The same file, seen by the code with the most finished final runs; of equals, the one written last."""
        finished: Dict[str, int] = {}
        for entry in self.entries:
            done = entry.get("phase") == "final" and entry["status"] == "done"
            finished[entry["code"]] = finished.get(entry["code"], 0) + done
        return Ledger(self.path, max(finished, key=lambda code: finished[code], default=self.code))

    def put(self, entry: Dict[str, Any]) -> None:
        """Add or replace today's entry of a run, and write the file."""
        entry = {**entry, "code": self.code}
        kept = [old for old in self.entries if (old["key"], old["code"]) != (entry["key"], self.code)]
        self.entries = sorted([*kept, entry], key=lambda one: (one["code"] != self.code, one["key"], one["code"]))
        write_json(self.path, {"format": FORMAT, "entries": self.entries})


def digest(root: Path, patterns: Sequence[str], settings: Dict[str, Any]) -> str:
    """Digest of what the results depend on.

    Args:
        root: the checkout.
        patterns: of files under it, taken by name and content.
        settings: see ``Study.settings``.

    Raises:
        ValueError: a pattern that names no file.
    """
    total = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for pattern in patterns:
        found = sorted(path for path in root.glob(pattern) if path.is_file())
        if not found:
            raise ValueError(f"code: {pattern} names no file under {root.name}/")
        for path in found:
            total.update(f"{path.relative_to(root).as_posix()} {sha256(path)}\n".encode())
    return total.hexdigest()[:16]


def commit(root: Path) -> str:
    """Commit of the checkout, marked when files differ from it; ``unknown`` outside a repository."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=root, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def output_of(finals: Sequence[Dict[str, Any]], arm: str, output: str, pair: str, seed: int) -> Dict[str, Any]:
    """Scores of one run and output; empty where it is not there."""
    for entry in finals:
        if (entry["arm"], entry["pair"], entry["seed"]) == (arm, pair, seed):
            return dict(entry.get("outputs", {}).get(output, {}))
    return {}


def score_of(
    finals: Sequence[Dict[str, Any]], arm: str, output: str, pair: str, seed: int, metric: str = "bleu"
) -> Optional[float]:
    """Test score, or the mean over the subsets, of one run and output, if it is there."""
    found = output_of(finals, arm, output, pair, seed)
    if not found:
        return None
    return statistics.mean(found["subsets"].values()) if "subsets" in found else float(found[metric])


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
