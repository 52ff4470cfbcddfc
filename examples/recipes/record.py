"""Facts of one training run, for the results table: updates, wall time, validation curve, seed, options, machine."""

import os
import platform
import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import torch

KEPT = ("arch", "criterion", "lr", "max_tokens", "batch_size", "seed", "no_denoising", "prompt_length", "bf16")

TRAINED = re.compile(r"num\. (shared|expert) model params: [\d,]+ \(num\. trained: ([\d,]+)\)")
TIMES = re.compile(r"^times: real ([\d.]+) user ([\d.]+) sys ([\d.]+)$", re.MULTILINE)
"""What the workflow writes behind the log of a training that was not killed, in seconds."""
EARLIER = "stage*"
"""Folders of the stages of a run before its last one, in its own."""

VALIDATION = ("num_updates", "loss", "bleu", "accuracy", "f1", "ndcg")


def mean_passes(run: Path) -> Dict[str, float]:
    """Mean denoising passes a sentence of each generate log, by the largest number allowed."""
    means = {}
    for path in sorted(run.glob("generate-[0-9]*.log")):
        steps = [
            int(line.split("\t")[1]) for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("I-")
        ]
        if steps:
            means[path.stem.partition("-")[2]] = sum(steps) / len(steps)
    return means


def trained_parameters(log: Path) -> int:
    """Trainable values, as fairseq-train counts them when it starts, of the last start; tied embeddings count once.

    A checkpoint does not tell: it holds frozen parts too, and its optimizer has no state for what never got a gradient.

    Raises:
        ValueError: no such line in the log.
    """
    counts: Dict[str, int] = {}
    with open(log, encoding="utf-8", errors="replace") as file:
        for kind, count in TRAINED.findall(file.read()):
            counts[kind] = int(count.replace(",", ""))
    if not counts:
        raise ValueError(f"{log}: no line 'num. shared model params: ... (num. trained: ...)' of fairseq-train")
    return sum(counts.values())


def cores(log: Path) -> Optional[float]:
    """Seconds of CPU time per second of wall time, over the starts of a training that were not killed; None without one."""
    found = [[float(one) for one in line] for line in TIMES.findall(log.read_text(encoding="utf-8", errors="replace"))]
    real, user, system = (sum(column) for column in zip(*found)) if found else (0.0, 0.0, 0.0)
    return (user + system) / real if real else None


def machine(cpu: bool) -> str:
    """What a run was trained on; ``cpu`` of ``fairseq-train`` says that a GPU was not used."""
    gpu = "" if cpu or not torch.cuda.is_available() else f"{torch.cuda.get_device_name()}, "
    return f"{gpu}{os.cpu_count()} CPU cores, {platform.machine()}, torch {torch.__version__}"


def updates_and_seconds(state: Dict[str, Any]) -> Tuple[int, float]:
    """Updates and wall time of the training that wrote a checkpoint."""
    updates = int(state["optimizer_history"][-1]["num_updates"])
    return updates, float(state["extra_state"]["previous_training_time"])


def earlier_stages(run: Path) -> Tuple[int, float]:
    """Updates and wall time of the stages inside the run's folder from which its last stage started."""
    found = sorted(run.glob(f"{EARLIER}/checkpoint_last.pt"))
    counts = [updates_and_seconds(torch.load(path, weights_only=True, map_location="cpu")) for path in found]
    return sum(updates for updates, _ in counts), sum(seconds for _, seconds in counts)


def validation_point(record: Dict[str, Any]) -> Dict[str, float]:
    """The numbers that are kept of a validation; empty for other records. The first subset counts: ``valid``, ``valid.en``."""
    prefix = next((key[: -len("loss")] for key in record if key.startswith("valid") and key.endswith("_loss")), None)
    if prefix is None:
        return {}
    return {key: float(record[prefix + key]) for key in VALIDATION if prefix + key in record}


def parts_of(run: Path) -> List[Path]:
    """Folders of the models that a run trained one after another, each for itself; none for a run of one model."""
    if (run / "checkpoint_last.pt").is_file():
        return []
    return sorted(path.parent for path in run.glob("*/checkpoint_last.pt") if not path.parent.match(EARLIER))


def describe(run: Path) -> Dict[str, Any]:
    """Facts of a run from its log and its last checkpoint, with the updates and the time of the stages before it.

    Of several models updates, time and parameters are added up; there is no one validation curve.
    """
    parts = [_describe(part) for part in parts_of(run)]
    if not parts:
        return _describe(run)
    added = {key: sum(part[key] for part in parts) for key in ("updates", "earlier_updates", "trained_parameters")}
    times = {
        key: round(sum(part[key] for part in parts), 1) for key in ("train_seconds", "cpu_seconds") if key in parts[0]
    }
    return {**parts[0], **added, **times, "validation": [], "mean_passes": {}}


def _describe(run: Path) -> Dict[str, Any]:
    from fairseq_plugins.analysis.logs import json_records  # needs torch

    curve = [point for point in map(validation_point, json_records(run / "train.log")) if point]
    state = torch.load(run / "checkpoint_last.pt", weights_only=True, map_location="cpu")
    options: Dict[str, Any] = {}
    for section in ("model", "optimization", "dataset", "common"):
        part = state["cfg"][section]
        options.update(part if isinstance(part, dict) else vars(part))  # models without a dataclass keep a Namespace
    (updates, seconds), (earlier, earlier_seconds) = updates_and_seconds(state), earlier_stages(run)
    busy = cores(run / "train.log")
    return {
        **({} if busy is None else {"cpu_seconds": round((seconds + earlier_seconds) * busy, 1)}),
        "updates": updates + earlier,
        "earlier_updates": earlier,  # of them, those before the last stage, which alone has the curve
        "train_seconds": round(seconds + earlier_seconds, 1),
        "trained_parameters": trained_parameters(run / "train.log"),
        "validation": curve,
        "mean_passes": mean_passes(run),
        "options": {key: options[key] for key in KEPT if key in options},
        "machine": machine(bool(options.get("cpu"))),
    }
