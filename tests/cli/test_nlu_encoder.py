"""nlu_encoder under the stock commands: --task sentence_prediction trains, resumes without the file, validates; hydra the same."""

import shutil
from collections import namedtuple

import pytest

from fairseq_plugins.checkpoints.dictionary import write_dictionary
from tests import nlu_builders

from .commands import checkpoint, largest_difference, logged, transformer

Trained = namedtuple("Trained", "root log")


@pytest.fixture(scope="module")
def trained(run_cli, user_dir, tmp_path_factory):
    """Two epochs from an mBART, whose file was deleted after the first. ``root`` has ``bin``, ``run`` and ``copy`` of the mBART.

    The data's dictionary is the one that write_dictionary writes; the stock task's <mask> adds nothing to it.
    """
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


def test_it_validates_in_another_language(trained, decode):
    """With no option of the model and no pretrained file; the numbers are those of the training's last validation."""
    line = """--task sentence_prediction --criterion sentence_prediction --num-classes 2 --max-positions 30
        --valid-subset valid.de --batch-size 4 --log-format json"""
    done = decode(trained.root / "bin", trained.root / "run" / "checkpoint2.pt", line, command="validate")
    for name in ("valid.de_accuracy", "valid.de_loss"):
        assert logged(done, name) == logged(trained.log, name)[-1:] != []


def test_hydra_builds_and_trains_what_argparse_does(trained, hydra, tmp_path):
    """Bit-equal weights after an epoch."""
    config = f"""
common: {{seed: 3}}
task: {{_name: sentence_prediction, data: {trained.root / "bin"}, num_classes: 2, max_positions: 30}}
model: {{_name: nlu_encoder, pretrained_encoder: {trained.root / "copy"}}}
criterion: {{_name: sentence_prediction}}
optimization: {{max_epoch: 1}}
dataset: {{batch_size: 4, train_subset: train.en, valid_subset: "valid.en,valid.de"}}
"""
    made = hydra(tmp_path, config)
    left, right = (path / "checkpoint1.pt" for path in (trained.root / "run", made))
    assert largest_difference(left, right) == 0.0
    assert checkpoint(right)["cfg"]["model"]["initialised_from"] == str(trained.root / "copy")


def test_a_stock_mbart_classifies_with_its_decoder(trained, train, decode, tmp_path):
    """It learns, and validation reads its checkpoint."""
    data = trained.root / "bin"
    task = f"""--task cross_lingual_classification --criterion sentence_prediction --input-format mbart --add-prev-output-tokens
        --langs {",".join(nlu_builders.LANGUAGES)} --max-positions 30 --batch-size 4 --log-format json --valid-subset valid.de"""
    more = """--arch mbart_base --share-all-embeddings --max-source-positions 40 --max-target-positions 40 --dropout 0
        --train-subset train.en --lr 0.005 --max-epoch 12 --no-epoch-checkpoints --seed 3"""
    done = train(data, tmp_path, f"{task} {more}", *transformer(ffn=24))
    losses = logged(done, "train_loss")
    assert losses[-1] < 0.1 * losses[0]
    again = decode(data, tmp_path / "checkpoint_last.pt", task, command="validate")
    assert logged(again, "valid.de_accuracy") == logged(done, "valid.de_accuracy")[-1:]
