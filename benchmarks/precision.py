"""Losses of trainings in half precision beside those in float32, from the logs of ``fairseq-train``."""

import json
import statistics
from typing import Any, Dict, List

BOUND = 0.01
"""Largest mean difference to float32 over the last quarter of the updates, as a share of the loss."""
OVERFLOW = "gradient overflow detected"


def read_log(text: str, updates: int) -> Dict[str, Any]:
    """Losses by batch, batches that were skipped as gradients overflowed, and the median of the updates per second.

    Args:
        text: a log of ``fairseq-train`` with JSON lines for each update.
        updates: how many there must be.

    Raises:
        ValueError: another number of updates is in the log.
    """
    losses: Dict[str, float] = {}
    rates, skipped = [], 0
    for line in text.splitlines():
        skipped += OVERFLOW in line
        if "| train_inner | {" in line:
            record = json.loads(line[line.index("{") :])
            losses[str(int(record["num_updates"]) + skipped)] = float(record["loss"])
            rates.append(float(record["ups"]))
    if len(losses) != updates:
        raise ValueError(f"{len(losses)} updates in the log, not {updates}")
    return {"losses": losses, "skipped": skipped, "ups": statistics.median(rates)}


def compare(method: str, precision: str, run: Dict[str, Any], single: Dict[str, Any], warmup: int) -> Dict[str, Any]:
    """A row of the table: ``run`` against ``single``, the one in float32; both saw batches in the same order."""
    batches = sorted(map(int, run["losses"]))
    shared = [batch for batch in batches if str(batch) in single["losses"]]
    gaps = {batch: _gap(run["losses"][str(batch)], single["losses"][str(batch)]) for batch in shared}
    late = [gap for batch, gap in gaps.items() if batch > warmup]
    last = statistics.mean(list(gaps.values())[-max(1, len(gaps) // 4) :])
    return {
        "method": method,
        "precision": precision,
        "losses": {str(number): run["losses"][str(batches[number - 1])] for number in marks(len(batches))},
        "largest": max(late),
        "mean": statistics.mean(late),
        "last": last,
        "skipped": run["skipped"],
        "ups": run["ups"],
        "agrees": last <= BOUND,
    }


def _gap(value: float, wanted: float) -> float:
    return abs(value - wanted) / abs(wanted)


def marks(updates: int) -> List[int]:
    """Updates whose losses are shown: after a quarter, a half, and all of them."""
    return sorted({max(1, updates // 4), max(1, updates // 2), updates})


def rows(runs: Dict[str, Dict[str, Dict[str, Any]]], warmup: int) -> List[Dict[str, Any]]:
    """``runs``: method -> precision -> what :func:`read_log` gave; a method without float32 has no row yet."""
    return [
        compare(method, precision, run, found["float32"], warmup)
        for method, found in runs.items()
        if "float32" in found
        for precision, run in found.items()
    ]


COLUMNS = ["largest difference after warm-up, %", "mean, %", "mean of the last quarter, %"]
COLUMNS += ["batches skipped", "updates/s", "half precision"]


def cells(row: Dict[str, Any]) -> List[str]:
    """A row as it is shown, behind the method and the precision."""
    gaps = [f"{100 * row[name]:.2f}" for name in ("largest", "mean", "last")]
    verdict = "" if row["precision"] == "float32" else "agrees" if row["agrees"] else "differs"
    return [
        *(f"{loss:.3f}" for loss in row["losses"].values()),
        *gaps,
        str(row["skipped"]),
        f"{row['ups']:.2f}",
        verdict,
    ]
