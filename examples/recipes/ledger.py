"""The ledger of a study: every run with its commands, facts and scores."""

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


class Ledger:
    """Entries of a study by key, stored as JSON. One version of the code has made all of them.

    Args:
        path: the JSON file; if it is missing, there are no entries.
        code: digest of the code, see :func:`digest` (default: that of the entries).

    Raises:
        ValueError: the format is unknown, or an entry was made by another version of the code.
    """

    def __init__(self, path: Path, code: Optional[str] = None):
        content = read_json(path) or {"format": FORMAT, "entries": []}
        if content.get("format") != FORMAT:
            raise ValueError(f"{path}: format {content.get('format')}; valid: {FORMAT}")
        self.path = path
        self.entries: List[Dict[str, Any]] = content["entries"]
        codes = {entry["code"] for entry in self.entries} | ({code} if code else set())
        if len(codes) > 1:
            raise ValueError(f"{path}: code {', '.join(sorted(codes))}; valid: entries of one code")
        self.code = "".join(codes)

    def get(self, key: str) -> Dict[str, Any]:
        """Return the entry of that key, empty if there is none."""
        return next((entry for entry in self.entries if entry["key"] == key), {})

    def runs(self, phase: Optional[str] = None) -> List[Dict[str, Any]]:
        """Return the entries of runs (default: of both phases)."""
        phases = (phase,) if phase else ("tune", "final")
        return [entry for entry in self.entries if entry.get("phase") in phases]

    def finals(self) -> List[Dict[str, Any]]:
        """Return the entries of final runs."""
        return self.runs("final")

    def put(self, entry: Dict[str, Any]) -> None:
        """Add or replace an entry, and write the file."""
        entries = {previous["key"]: previous for previous in self.entries}
        entries[entry["key"]] = {**entry, "code": self.code}
        self.entries = [entries[key] for key in sorted(entries)]
        write_json(self.path, {"format": FORMAT, "entries": self.entries})


def digest(root: Path, patterns: Sequence[str], settings: Dict[str, Any]) -> str:
    """Return a digest of the code and the settings that results depend on.

    Args:
        root: the checkout.
        patterns: of files under it, whose names and contents count.
        settings: see ``Study.settings``.

    Raises:
        ValueError: a pattern that names no file.
    """
    total = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for pattern in patterns:
        paths = sorted(path for path in root.glob(pattern) if path.is_file())
        if not paths:
            raise ValueError(f"code: {pattern} names no file under {root.name}/")
        for path in paths:
            total.update(f"{path.relative_to(root).as_posix()} {sha256(path)}\n".encode())
    return total.hexdigest()[:16]


def commit(root: Path) -> str:
    """Return the checkout's commit, with ``-dirty`` if files differ, or ``unknown``."""
    line = ["git", "describe", "--always", "--dirty"]
    process = subprocess.run(line, cwd=root, capture_output=True, text=True, check=False)
    return process.stdout.strip() or "unknown"


def output_of(
    finals: Sequence[Dict[str, Any]],
    arm: str,
    output: str,
    pair: str,
    seed: int,
) -> Dict[str, Any]:
    """Return the scores of one run and output, empty if they are missing."""
    for entry in finals:
        if (entry["arm"], entry["pair"], entry["seed"]) == (arm, pair, seed):
            return dict(entry.get("outputs", {}).get(output, {}))
    return {}


def score_of(
    finals: Sequence[Dict[str, Any]],
    arm: str,
    output: str,
    pair: str,
    seed: int,
    metric: str = "bleu",
) -> Optional[float]:
    """Return the test score of an output, of several subsets their mean; None if it is missing."""
    scores = output_of(finals, arm, output, pair, seed)
    if not scores:
        return None
    if "subsets" in scores:
        return statistics.mean(scores["subsets"].values())
    return float(scores[metric])


def choose(study: Study, ledger: Ledger) -> Dict[str, int]:
    """Return for each arm the point of its grid with the best validation in tuning.

    Arms whose tuning is not finished, or has no validation, are left out.
    """
    points = {arm.name: 0 for arm in study.arms if len(arm.grid) == 1}
    for arm in (arm for arm in study.arms if len(arm.grid) > 1):
        jobs = [job for job in study.tuning() if job.arm is arm]
        entries = [ledger.get(job.key) for job in jobs]
        if not all(entry.get("status") for entry in entries):
            continue
        metric = study.metric(jobs[0].pair)
        scores = {job.point: best_validation(entry, metric) for job, entry in zip(jobs, entries)}
        validated = {point: score for point, score in scores.items() if score is not None}
        if validated:
            points[arm.name] = max(validated, key=lambda point: validated[point])
    return points


def best_validation(entry: Dict[str, Any], metric: str) -> Optional[float]:
    """Return the best validation score of a run, None if it has none."""
    points = [point for point in entry.get("validation", []) if metric in point]
    return max((point[metric] for point in points), default=None)
