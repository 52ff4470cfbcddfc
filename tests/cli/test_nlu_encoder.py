"""nlu_encoder under the stock commands: --task sentence_prediction trains, resumes without the file, validates; hydra the same."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from fairseq_plugins.checkpoints.dictionary import write_dictionary
from tests import nlu_builders

from .commands import checkpoint, hydra, largest_difference, logged, transformer


class Trained(NamedTuple):
    """Two epochs from an mBART, whose file was deleted after the first; ``root`` has ``bin``, ``run`` and ``copy`` of the mBART."""

    root: Path
    log: str


@pytest.fixture(scope="module")
def trained(run_cli, user_dir, tmp_path_factory):
    """The data's dictionary is the one that write_dictionary writes; the stock task's <mask> adds nothing to it."""
    root = tmp_path_factory.mktemp("nlu")
    (root / "mbart").mkdir()
    nlu_builders.mbart_cc25(root / "mbart")
    symbols = write_dictionary(root / "mbart", root / "whole.txt")[4:]
    nlu_builders.write_sentences(root / "bin", symbols)
    shutil.copytree(root / "mbart", root / "copy")
    line = [*nlu_builders.command_line(root / "bin"), "--user-dir", user_dir, "--pretrained-encoder", root / "mbart"]
    line += ["--save-dir", root / "run"]
    first = run_cli("train", *line, "--max-epoch", 1)
    shutil.rmtree(root / "mbart")
    second = run_cli("train", *line, "--max-epoch", 2)
    return Trained(root, first.stdout + first.stderr + second.stdout + second.stderr)


def test_it_trains_and_resumes_without_the_file(trained):
    losses = logged(trained.log, "train_loss")
    assert len(losses) == 2 and losses[1] < losses[0]
    assert len(logged(trained.log, "valid.de_accuracy")) == 2
    first, second = (checkpoint(trained.root / "run" / f"checkpoint{number}.pt") for number in (1, 2))
    assert [state["optimizer_history"][-1]["num_updates"] for state in (first, second)] == [3, 6]
    args = vars(first["cfg"]["model"])
    assert args["pretrained_encoder"] is None and args["initialised_from"] == str(trained.root / "mbart")
    assert args["encoder_languages"] == list(nlu_builders.LANGUAGES)
    assert args["encoder_layout"]["family"] == "mbart" and args["encoder_layout"]["vocab_size"] == 28
    assert "classification_heads.sentence_classification_head.out_proj.weight" in first["model"]


def test_it_validates_in_another_language(trained, run_cli, user_dir):
    """With no option of the model and no pretrained file; the numbers are those of the training's last validation."""
    line = f"""{trained.root / "bin"} --user-dir {user_dir} --task sentence_prediction --criterion sentence_prediction
        --num-classes 2 --max-positions 30 --path {trained.root / "run" / "checkpoint2.pt"} --valid-subset valid.de
        --batch-size 4 --cpu --log-format json --num-workers 0"""
    done = run_cli("validate", *line.split())
    for name in ("valid.de_accuracy", "valid.de_loss"):
        assert logged(done, name) == logged(trained.log, name)[-1:] != []


def test_hydra_builds_and_trains_what_argparse_does(trained, run_cli, user_dir, tmp_path):
    """Bit-equal weights after an epoch."""
    config = f"""
common: {{user_dir: {user_dir}, seed: 3, log_format: json}}
task: {{_name: sentence_prediction, data: {trained.root / "bin"}, num_classes: 2, max_positions: 30}}
model: {{_name: nlu_encoder, pretrained_encoder: {trained.root / "copy"}}}
criterion: {{_name: sentence_prediction}}
optimization: {{lr: [0.01], max_epoch: 1}}
dataset: {{batch_size: 4, train_subset: train.en, valid_subset: "valid.en,valid.de"}}
"""
    made = hydra(run_cli, tmp_path, config)
    left, right = (path / "checkpoint1.pt" for path in (trained.root / "run", made))
    assert largest_difference(left, right) == 0.0
    args = checkpoint(right)["cfg"]["model"]
    assert args["encoder_layout"] == vars(checkpoint(left)["cfg"]["model"])["encoder_layout"]
    assert args["initialised_from"] == str(trained.root / "copy")


def test_a_stock_mbart_classifies_with_its_decoder(trained, run_cli, user_dir, tmp_path):
    """It learns, and validation reads its checkpoint."""
    line = f"""{trained.root / "bin"} --user-dir {user_dir} --task cross_lingual_classification --criterion sentence_prediction
        --input-format mbart --langs {",".join(nlu_builders.LANGUAGES)} --max-positions 30 --add-prev-output-tokens
        --batch-size 4 --cpu --log-format json --num-workers 0""".split()
    more = f"""--arch mbart_base --share-all-embeddings --max-source-positions 40 --max-target-positions 40 --dropout 0
        --train-subset train.en --valid-subset valid.de --optimizer adam --lr 0.005 --max-epoch 12 --no-epoch-checkpoints
        --seed 3 --save-dir {tmp_path / "run"}"""
    done = run_cli("train", *line, *more.split(), *transformer(ffn=24))
    losses = logged(done, "train_loss")
    assert losses[-1] < 0.1 * losses[0]
    again = run_cli("validate", *line, "--path", tmp_path / "run" / "checkpoint_last.pt", "--valid-subset", "valid.de")
    assert logged(again, "valid.de_accuracy") == logged(done, "valid.de_accuracy")[-1:]
