"""The comparison systems and the chunked cross-entropy under the stock commands, each in a subprocess."""

import json
from pathlib import Path
from typing import Any, Callable, Dict, List

from .conftest import World

Run = Callable[..., Any]


def arguments(world: World, user_dir: str, save_dir: Path, task: str, *more: Any) -> List[Any]:
    """The command line of a tiny training run."""
    return [
        world.data, "--user-dir", user_dir, "--task", task, "-s", "en", "-t", "de", "--optimizer", "adam", "--lr", "0.01",
        "--max-sentences", 8, "--save-dir", save_dir, "--log-format", "json", "--log-interval", 1, "--num-workers", 0,
        "--seed", 5, "--cpu", "--no-epoch-checkpoints", *more,
    ]  # fmt: skip


def records(result: Any) -> List[Dict[str, Any]]:
    """What a run logged as JSON."""
    lines = (result.stderr + result.stdout).splitlines()
    return [json.loads(line[line.index(' | {"') + 3 :]) for line in lines if ' | {"' in line]


def test_nat_ctc_trains_and_decodes(world: World, run_cli: Run, user_dir: str, tmp_path: Path) -> None:
    sizes = ["--embed-dim", 16, "--ffn-embed-dim", 16, "--encoder-layers", 1, "--decoder-layers", 1]
    more = ["--arch", "nat_ctc_tiny", *sizes, "--criterion", "sga_ctc", "--max-epoch", 2, "--eval-bleu"]
    found = records(run_cli("train", *arguments(world, user_dir, tmp_path, "sga_translation", *more)))
    valid = [record for record in found if "valid_loss" in record]
    assert float(valid[1]["valid_loss"]) < float(valid[0]["valid_loss"])
    assert "valid_bleu" in valid[1]
    done = run_cli(
        "generate", world.data, "--user-dir", user_dir, "--task", "sga_translation", "-s", "en", "-t", "de", "--path",
        tmp_path / "checkpoint_best.pt", "--batch-size", 5, "--cpu",
    )  # fmt: skip
    assert sum(line.startswith("H-") for line in done.stdout.splitlines()) == 12


def test_the_chunked_criterion_trains_a_stock_model_as_the_stock_criterion_does(
    world: World, run_cli: Run, user_dir: str, tmp_path: Path
) -> None:
    sizes = ["--arch", "transformer_tiny", "--label-smoothing", "0.1", "--dropout", "0.1", "--max-update", 4]
    losses = {}
    for name, chunk in (
        ("label_smoothed_linear_cross_entropy", ["--loss-chunk-size", 7]),
        ("label_smoothed_cross_entropy", []),
    ):
        more = [*sizes, "--criterion", name, "--report-accuracy", *chunk]
        found = records(run_cli("train", *arguments(world, user_dir, tmp_path / name, "translation", *more)))
        keys = ("train_loss", "train_nll_loss", "valid_loss", "valid_accuracy")
        losses[name] = [record[key] for record in found for key in keys if key in record]
    assert len(losses["label_smoothed_cross_entropy"]) >= 4
    assert losses["label_smoothed_linear_cross_entropy"] == losses["label_smoothed_cross_entropy"]
