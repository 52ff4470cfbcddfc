"""Span-corruption pre-training and translation with mixed-in text under the stock commands, each in a subprocess."""

import json
import shutil
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
import torch

from .conftest import World

Run = Callable[..., Any]
TEXTS = ["--add-sentinels", 40, "--tokens-per-sample", 40]
PRETRAINING = ["--task", "span_corruption", "--pairs", "en-de", "--monolingual", "en", *TEXTS]
MIXING = ["--task", "translation_mixing", "-s", "en", "-t", "de", *TEXTS]


@pytest.fixture(scope="module")
def data(world: World, run_cli: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pair en-de, and its English as text of its own."""
    folder = tmp_path_factory.mktemp("data") / "bin"
    shutil.copytree(world.data, folder)
    prefixes = [part for split in ("train", "valid") for part in (f"--{split}pref", world.root / split)]
    dictionary = world.root / "dict.txt"
    run_cli("preprocess", "--only-source", "-s", "en", *prefixes, "--srcdict", dictionary, "--destdir", folder)
    assert (folder / "train.en-None.en.idx").is_file()
    return folder


def train(run_cli: Run, user_dir: str, data: Path, save_dir: Path, updates: int, *more: Any, **options: Any) -> Any:
    """A tiny run of a stock transformer up to an update."""
    return run_cli(
        "train", data, "--user-dir", user_dir, "--arch", "transformer_tiny", "--share-all-embeddings", "--optimizer", "adam",
        "--lr", "0.003", "--label-smoothing", "0.1", "--max-sentences", 8, "--max-update", updates, "--seed", 5, "--cpu",
        "--save-dir", save_dir, "--no-epoch-checkpoints", "--log-format", "json", "--log-interval", 1, *more, **options,
    )  # fmt: skip


def records(result: Any) -> List[Dict[str, Any]]:
    """What a run logged as JSON."""
    lines = (result.stderr + result.stdout).splitlines()
    return [json.loads(line[line.index(' | {"') + 3 :]) for line in lines if ' | {"' in line]


def difference(first: Path, second: Path) -> float:
    """The largest one between the parameters of two runs."""
    left, right = (torch.load(folder / "checkpoint_last.pt", weights_only=False)["model"] for folder in (first, second))
    assert left.keys() == right.keys()
    return max((left[key] - right[key]).abs().max().item() for key in left)


def rows(stdout: str, kind: str) -> Dict[str, str]:
    """Lines "H-3<TAB>score<TAB>text" -> {"3": text}."""
    found = [line.split("\t") for line in stdout.splitlines() if line.startswith(f"{kind}-")]
    return {row[0]: row[-1] for row in found}


@pytest.mark.slow
def test_pretraining_resumes_exactly_and_fills_gaps(data: Path, run_cli: Run, user_dir: str, tmp_path: Path) -> None:
    """The resumed run stops inside the first epoch, goes on with two workers and ends in the second."""
    sampling = ["--pair-share", 0.5, "--sampling-temperature", 2, "--criterion", "label_smoothed_cross_entropy"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    done = train(run_cli, user_dir, data, whole, 24, *PRETRAINING, *sampling)
    found = records(done)
    valid = [float(record["valid_loss"]) for record in found if "valid_loss" in record]
    assert len(valid) == 2 and valid[1] < valid[0]
    train(run_cli, user_dir, data, parts, 6, *PRETRAINING, *sampling, "--disable-validation")
    train(run_cli, user_dir, data, parts, 24, *PRETRAINING, *sampling, "--disable-validation", "--num-workers", 2)
    assert difference(whole, parts) == 0.0

    common = [
        data,
        "--user-dir",
        user_dir,
        "--cpu",
        "--path",
        whole / "checkpoint_last.pt",
        "--max-len-b",
        20,
        *PRETRAINING,
    ]
    output = run_cli("generate", *common, "--gen-subset", "valid", "--beam", 2).stdout
    sources, targets = rows(output, "S"), rows(output, "T")
    assert len(rows(output, "H")) == len(sources) == len(targets) > 12
    for source, target in zip(sources.values(), targets.values()):
        sentinels = [[word for word in text.split() if word.startswith("<extra_id_")] for text in (source, target)]
        assert sentinels[0] == sentinels[1] == [f"<extra_id_{number}>" for number in range(len(sentinels[0]))] != []
    answer = run_cli("interactive", *common, stdin="<extra_id_0> <extra_id_1>\n").stdout
    assert rows(answer, "S") == {"S-0": "<extra_id_0> <extra_id_1>"}
    assert len(rows(answer, "H")) == 1


@pytest.mark.slow
def test_mixing_resumes_exactly_and_decodes_as_translation(
    data: Path, run_cli: Run, user_dir: str, tmp_path: Path
) -> None:
    """12 batches of pairs and 12 of text an epoch; the resumed run starts in the first epoch."""
    mixing = [*MIXING, "--mix-monolingual", "de,en", "--criterion", "label_smoothed_linear_cross_entropy"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    found = records(train(run_cli, user_dir, data, whole, 30, *mixing, "--eval-bleu"))
    assert len([record for record in found if "valid_bleu" in record]) == 2
    ends = [record["train_num_updates"] for record in found if "train_num_updates" in record]
    assert ends[0] == "24", "96 pairs in 12 batches, and as many of text"
    train(run_cli, user_dir, data, parts, 7, *mixing, "--disable-validation")
    train(run_cli, user_dir, data, parts, 30, *mixing, "--disable-validation", "--num-workers", 2)
    assert difference(whole, parts) == 0.0

    common = ["--user-dir", user_dir, "--cpu", "--path", whole / "checkpoint_last.pt", "--max-len-b", 20]
    output = run_cli("generate", data, *common, *MIXING).stdout
    assert len(rows(output, "H")) == 12
    assert not any("<extra_id_" in text for text in rows(output, "S").values())


def test_errors_come_before_the_first_batch(data: Path, run_cli: Run, user_dir: str, tmp_path: Path) -> None:
    few = ["--task", "span_corruption", "--pairs", "en-de", "--criterion", "label_smoothed_cross_entropy"]
    done = train(run_cli, user_dir, data, tmp_path, 1, *few, check=False)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ValueError: --sentinels <extra_id_{}>: the dictionary lacks <extra_id_0>")
    assert "--add-sentinels 86" in last
