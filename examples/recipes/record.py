"""Facts of one training run: updates, wall time, validation curve, seed, options, machine."""

import os
import platform
import re
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

import torch

OPTIONS = ("arch", "criterion", "lr", "max_tokens", "batch_size", "seed")
OPTIONS += ("no_denoising", "prompt_length", "bf16")
"""Options of the checkpoint that the ledger keeps."""
TRAINED = re.compile(r"num\. (shared|expert) model params: [\d,]+ \(num\. trained: ([\d,]+)\)")
TIMES = re.compile(r"^times: real ([\d.]+) user ([\d.]+) sys ([\d.]+)$", re.MULTILINE)
"""Line that the workflow appends to the log of a training that was not killed, in seconds."""
EARLIER = "stage*"
"""Folders of a run's stages before its last one, inside its own."""
VALIDATION = ("num_updates", "loss", "bleu", "accuracy", "f1", "ndcg", "ndcg_xglue")
"""Numbers of a validation that the ledger keeps."""


def trained_parameters(log: Path) -> int:
    """Return the number of trained values, as fairseq-train counts them when it last started.

    Tied embeddings count once. A checkpoint does not tell the number: it holds frozen parts too,
    and its optimizer has no state for what never got a gradient.

    Raises:
        ValueError: no such line in the log.
    """
    counts: Dict[str, int] = {}
    with open(log, encoding="utf-8", errors="replace") as file:
        for kind, count in TRAINED.findall(file.read()):
            counts[kind] = int(count.replace(",", ""))
    if not counts:
        line = "num. shared model params: ... (num. trained: ...)"
        raise ValueError(f"{log}: no line '{line}' of fairseq-train")
    return sum(counts.values())


def cores(log: Path) -> Optional[float]:
    """Return CPU seconds per second of wall time, over the attempts that were not killed.

    None if there was no such attempt.
    """
    text = log.read_text(encoding="utf-8", errors="replace")
    starts = [[float(number) for number in line] for line in TIMES.findall(text)]
    real, user, system = (sum(column) for column in zip(*starts)) if starts else (0.0, 0.0, 0.0)
    return (user + system) / real if real else None


def machine(cpu: bool) -> str:
    """Describe the machine; ``cpu``: the option ``--cpu`` of the training, which uses no GPU."""
    gpu = "" if cpu or not torch.cuda.is_available() else f"{torch.cuda.get_device_name()}, "
    return f"{gpu}{os.cpu_count()} CPU cores, {platform.machine()}, torch {torch.__version__}"


def updates_and_seconds(state: Dict[str, Any]) -> Tuple[int, float]:
    """Return updates and wall time of the training that wrote a checkpoint."""
    updates = int(state["optimizer_history"][-1]["num_updates"])
    return updates, float(state["extra_state"]["previous_training_time"])


def _read_checkpoint(folder: Path) -> Dict[str, Any]:
    return torch.load(folder / "checkpoint_last.pt", weights_only=True, map_location="cpu")


def earlier_stages(run: Path) -> Tuple[int, float]:
    """Return updates and wall time, in seconds, of all stages of a run but the last."""
    paths = sorted(run.glob(f"{EARLIER}/checkpoint_last.pt"))
    counts = [updates_and_seconds(_read_checkpoint(path.parent)) for path in paths]
    return sum(updates for updates, _ in counts), sum(seconds for _, seconds in counts)


def validation_point(record: Dict[str, Any]) -> Dict[str, float]:
    """Return the numbers of a validation that are kept, empty for other records of the log.

    Of several subsets (``valid``, ``valid.en``) the first counts.
    """
    for key in record:
        if key.startswith("valid") and key.endswith("_loss"):
            prefix = key.removesuffix("loss")
            names = [name for name in VALIDATION if prefix + name in record]
            return {name: float(record[prefix + name]) for name in names}
    return {}


def describe(run: Path) -> Dict[str, Any]:
    """Return the facts of a run from its log and its last checkpoint.

    Updates and times include the stages before the last one, which alone has the curve.
    """
    from fairseq_plugins.analysis.logs import json_records  # needs torch

    log = run / "train.log"
    state = _read_checkpoint(run)
    options: Dict[str, Any] = {}
    for section in ("model", "optimization", "dataset", "common"):
        part = state["cfg"][section]  # a Namespace of models without a dataclass
        options.update(part if isinstance(part, dict) else vars(part))
    (updates, seconds), (earlier, earlier_seconds) = updates_and_seconds(state), earlier_stages(run)
    seconds += earlier_seconds
    facts = {
        "updates": updates + earlier,
        "earlier_updates": earlier,
        "train_seconds": round(seconds, 1),
        "trained_parameters": trained_parameters(log),
        "validation": [point for point in map(validation_point, json_records(log)) if point],
        "options": {name: options[name] for name in OPTIONS if name in options},
        "machine": machine(bool(options.get("cpu"))),
    }
    busy_cores = cores(log)
    if busy_cores is not None:
        facts["cpu_seconds"] = round(seconds * busy_cores, 1)
    return facts
