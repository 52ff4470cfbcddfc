"""nlu_encoder under the stock commands: --task sentence_prediction trains, resumes without the file, validates."""

import shutil
from collections import namedtuple

import pytest

from fairseq_plugins.checkpoints.encoders import write_dictionary
from tests import nlu_builders

from .commands import checkpoint, logged, transformer

Trained = namedtuple("Trained", "root log")


@pytest.fixture(scope="module")
def trained(run_cli, user_dir, path):
    """Two epochs from an mBART, whose file was deleted after the first. ``path`` has ``bin`` and ``run``."""
    (path / "mbart").mkdir()
    nlu_builders.mbart_cc25(path / "mbart")
    symbols = write_dictionary(path / "mbart", path / "whole.txt")[4:]
    nlu_builders.write_sentences(path / "bin", symbols)
    line = [*nlu_builders.command_line(path / "bin"), "--user-dir", user_dir, "--pretrained-encoder", path / "mbart"]
    line += ["--save-dir", path / "run"]
    first = run_cli("train", *line, "--max-epoch", 1)
    shutil.rmtree(path / "mbart")
    second = run_cli("train", *line, "--max-epoch", 2)
    return Trained(path, first.stdout + first.stderr + second.stdout + second.stderr)


def test_it_trains_and_resumes_without_the_file(trained):
    losses = logged(trained.log, "train_loss")
    assert len(losses) == 2 and losses[1] < losses[0]
    assert len(logged(trained.log, "valid.de_accuracy")) == 2
    first, second = (checkpoint(trained.root / "run" / f"checkpoint{number}.pt") for number in (1, 2))
    assert [state["optimizer_history"][-1]["num_updates"] for state in (first, second)] == [3, 6]
    args = vars(first["cfg"]["model"])
    assert args["pretrained_encoder"] is None and args["initialised_from"] == str(trained.root / "mbart")


def test_it_validates_in_another_language(trained, decode):
    """With no option of the model and no pretrained file; the numbers are those of the training's last validation."""
    line = """--task sentence_prediction --criterion sentence_prediction --num-classes 2 --max-positions 30
        --valid-subset valid.de --batch-size 4 --log-format json"""
    done = decode(trained.root / "bin", trained.root / "run" / "checkpoint2.pt", line, command="validate")
    for name in ("valid.de_accuracy", "valid.de_loss"):
        assert logged(done, name) == logged(trained.log, name)[-1:] != []


def test_a_stock_mbart_classifies_with_its_decoder_and_resumes(trained, train, decode, tmp_path):
    """A resumed run compares the languages of its own checkpoint."""
    data = trained.root / "bin"
    task = f"""--task cross_lingual_classification --criterion sentence_prediction --input-format mbart --add-prev-output-tokens
        --langs {",".join(nlu_builders.LANGUAGES)} --max-positions 30 --batch-size 4 --log-format json --valid-subset valid.de"""
    more = """--arch mbart_base --share-all-embeddings --max-source-positions 40 --max-target-positions 40 --dropout 0
        --train-subset train.en --lr 0.005 --no-epoch-checkpoints --seed 3"""
    first, done = (
        train(data, tmp_path, f"{task} {more} --max-epoch {number}", *transformer(ffn=24)) for number in (6, 12)
    )
    losses = [*logged(first, "train_loss"), *logged(done, "train_loss")]
    assert len(losses) == 12 and losses[-1] < 0.1 * losses[0]
    again = decode(data, tmp_path / "checkpoint_last.pt", task, command="validate")
    assert logged(again, "valid.de_accuracy") == logged(done, "valid.de_accuracy")[-1:]
