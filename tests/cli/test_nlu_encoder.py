"""nlu_encoder under the stock commands: --task sentence_prediction trains, resumes without the file, validates; hydra the same."""

import json
import shutil
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple

import pytest
import torch

from fairseq_plugins.checkpoints.dictionary import write_dictionary
from tests import nlu_builders, nlu_models

Run = Callable[..., Any]


class Trained(NamedTuple):
    """Two epochs from an mBART, whose file was deleted after the first.

    Attributes:
        root: with ``bin``, ``run`` and ``copy`` (of the pretrained folder, with the dictionary of all its rows).
        log: what the two runs wrote.
    """

    root: Path
    log: str


def records(log: str) -> List[Dict[str, Any]]:
    return [json.loads(line[line.index(' | {"') + 3 :]) for line in log.splitlines() if ' | {"' in line]


def state_of(path: Path) -> Dict[str, Any]:
    content: Dict[str, Any] = torch.load(path, weights_only=False)
    return content


@pytest.fixture(scope="module")
def trained(run_cli: Run, user_dir: str, tmp_path_factory: Any) -> Trained:
    """The data's dictionary is the one that write_dictionary writes; the stock task's <mask> adds nothing to it."""
    root = tmp_path_factory.mktemp("nlu")
    (root / "mbart").mkdir()
    nlu_builders.mbart_cc25(root / "mbart")
    symbols = write_dictionary(root / "mbart", root / "whole.txt")[4:]
    nlu_models.write_sentences(root / "bin", symbols)
    shutil.copytree(root / "mbart", root / "copy")
    line = [*nlu_models.command_line(root / "bin"), "--user-dir", user_dir, "--pretrained-encoder", root / "mbart"]
    line += ["--save-dir", root / "run"]
    first = run_cli("train", *line, "--max-epoch", 1)
    shutil.rmtree(root / "mbart")
    second = run_cli("train", *line, "--max-epoch", 2)
    return Trained(root, first.stdout + first.stderr + second.stdout + second.stderr)


def test_it_trains_and_resumes_without_the_file(trained: Trained) -> None:
    losses = [float(record["train_loss"]) for record in records(trained.log) if "train_loss" in record]
    assert len(losses) == 2 and losses[1] < losses[0]
    assert len([record for record in records(trained.log) if "valid.de_accuracy" in record]) == 2
    first, second = (state_of(trained.root / "run" / f"checkpoint{number}.pt") for number in (1, 2))
    updates = [state["optimizer_history"][-1]["num_updates"] for state in (first, second)]
    assert updates == [3, 6]
    args = vars(first["cfg"]["model"])
    assert args["pretrained_encoder"] is None and args["initialised_from"] == str(trained.root / "mbart")
    assert args["encoder_languages"] == list(nlu_builders.LANGUAGES)
    assert args["encoder_layout"]["family"] == "mbart" and args["encoder_layout"]["vocab_size"] == 28
    assert "classification_heads.sentence_classification_head.out_proj.weight" in first["model"]


def test_it_validates_in_another_language(trained: Trained, run_cli: Run, user_dir: str) -> None:
    """With no option of the model and no pretrained file; the numbers are those of the training's last validation."""
    path = trained.root / "run" / "checkpoint2.pt"
    done = run_cli(
        "validate", trained.root / "bin", "--user-dir", user_dir, "--task", "sentence_prediction", "--criterion",
        "sentence_prediction", "--num-classes", 2, "--max-positions", 30, "--path", path, "--valid-subset", "valid.de",
        "--batch-size", 4, "--cpu", "--log-format", "json", "--num-workers", 0,
    )  # fmt: skip
    found = next(record for record in records(done.stderr + done.stdout) if "valid.de_accuracy" in record)
    expected = [record for record in records(trained.log) if "valid.de_accuracy" in record][-1]
    assert float(found["valid.de_accuracy"]) == float(expected["valid.de_accuracy"])
    assert float(found["valid.de_loss"]) == float(expected["valid.de_loss"])


def test_hydra_builds_and_trains_what_argparse_does(
    trained: Trained, run_cli: Run, user_dir: str, tmp_path: Path
) -> None:
    """Bit-equal weights after an epoch."""
    config = f"""
common: {{user_dir: {user_dir}, cpu: true, seed: 3, log_format: json}}
task: {{_name: sentence_prediction, data: {trained.root / "bin"}, num_classes: 2, max_positions: 30}}
model: {{_name: nlu_encoder, pretrained_encoder: {trained.root / "copy"}}}
criterion: {{_name: sentence_prediction}}
optimizer: {{_name: adam}}
lr_scheduler: {{_name: fixed}}
optimization: {{lr: [0.01], max_epoch: 1}}
dataset: {{batch_size: 4, num_workers: 0, train_subset: train.en, valid_subset: "valid.en,valid.de"}}
checkpoint: {{save_dir: {tmp_path / "hydra"}}}
"""
    (tmp_path / "nlu.yaml").write_text(config)
    run_cli("hydra_train", "--config-dir", tmp_path, "--config-name", "nlu", cwd=tmp_path)
    left, right = (state_of(path / "checkpoint1.pt") for path in (trained.root / "run", tmp_path / "hydra"))
    assert left["model"].keys() == right["model"].keys()
    assert [name for name, one in left["model"].items() if not torch.equal(one, right["model"][name])] == []
    args = right["cfg"]["model"]
    assert args["encoder_layout"] == vars(left["cfg"]["model"])["encoder_layout"]
    assert args["initialised_from"] == str(trained.root / "copy")


def test_a_stock_mbart_classifies_with_its_decoder(
    trained: Trained, run_cli: Run, user_dir: str, tmp_path: Path
) -> None:
    """It learns, and validation reads its checkpoint."""
    line = [
        trained.root / "bin", "--user-dir", user_dir, "--task", "cross_lingual_classification", "--criterion",
        "sentence_prediction", "--input-format", "mbart", "--langs", ",".join(nlu_builders.LANGUAGES), "--max-positions", 30,
        "--add-prev-output-tokens", "--batch-size", 4, "--cpu", "--log-format", "json", "--num-workers", 0,
    ]  # fmt: skip
    sizes = [part for side in ("encoder", "decoder") for name, value in (("layers", 1), ("embed-dim", 16),
             ("ffn-embed-dim", 24), ("attention-heads", 2)) for part in (f"--{side}-{name}", value)]  # fmt: skip
    done = run_cli(
        "train", *line, "--arch", "mbart_base", *sizes, "--share-all-embeddings", "--max-source-positions", 40,
        "--max-target-positions", 40, "--dropout", 0, "--train-subset", "train.en", "--valid-subset", "valid.de", "--optimizer",
        "adam", "--lr", 0.005, "--max-epoch", 12, "--no-epoch-checkpoints", "--seed", 3, "--save-dir", tmp_path / "run",
    )  # fmt: skip
    log = records(done.stdout + done.stderr)
    losses = [float(record["train_loss"]) for record in log if "train_loss" in record]
    assert losses[-1] < 0.1 * losses[0]
    seen = [record for record in log if "valid.de_accuracy" in record]
    again = run_cli("validate", *line, "--path", tmp_path / "run" / "checkpoint_last.pt", "--valid-subset", "valid.de")
    found = next(record for record in records(again.stderr + again.stdout) if "valid.de_accuracy" in record)
    assert found["valid.de_accuracy"] == seen[-1]["valid.de_accuracy"]
