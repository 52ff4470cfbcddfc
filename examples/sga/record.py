"""Facts of one training run, for the results table: updates, wall time, validation curve, seed, options, machine."""

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any, Dict

import torch

KEPT = ("arch", "criterion", "lr", "max_tokens", "batch_size", "seed", "no_denoising", "prompt_length")

VALIDATION = ("num_updates", "loss", "bleu", "accuracy", "f1")


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


def count_parameters(tensors: Dict[str, torch.Tensor]) -> int:
    """Values in a state dict; tensors that share their memory (tied embeddings) count once."""
    return sum({value.data_ptr(): value.numel() for value in tensors.values() if value.numel()}.values())


def validation_point(record: Dict[str, Any]) -> Dict[str, float]:
    """The numbers that are kept of a validation; empty for other records. The first subset counts: ``valid``, ``valid.en``."""
    prefix = next((key[: -len("loss")] for key in record if key.startswith("valid") and key.endswith("_loss")), None)
    if prefix is None:
        return {}
    return {key: float(record[prefix + key]) for key in VALIDATION if prefix + key in record}


def describe(run: Path) -> Dict[str, Any]:
    """Facts of a run from its log and its last checkpoint."""
    from fairseq_plugins.analysis.training_logs import json_records  # not before main() has told where the package lies

    curve = [point for point in map(validation_point, json_records(run / "train.log")) if point]
    state = torch.load(run / "checkpoint_last.pt", weights_only=True, map_location="cpu")
    options: Dict[str, Any] = {}
    for section in ("model", "optimization", "dataset", "common"):
        part = state["cfg"][section]
        options.update(part if isinstance(part, dict) else vars(part))  # models without a dataclass keep a Namespace
    trainable = count_parameters(state["model"])
    return {
        "updates": int(state["optimizer_history"][-1]["num_updates"]),
        "train_seconds": round(float(state["extra_state"]["previous_training_time"]), 1),
        "trained_parameters": trainable,
        "validation": curve,
        "mean_passes": mean_passes(run),
        "options": {key: options[key] for key in KEPT if key in options},
        "machine": f"{os.cpu_count()} CPU cores, {platform.machine()}, torch {torch.__version__}",
    }


def main() -> None:
    """Write the facts as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", required=True, type=Path, help="folder with train.log and checkpoint_last.pt")
    parser.add_argument("--output", required=True, type=Path, help="JSON file to write")
    args = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
    import fairseq_plugins  # noqa: F401  (registers what checkpoints may hold)

    args.output.write_text(json.dumps(describe(args.run), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
