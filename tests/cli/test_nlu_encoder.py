"""Test nlu_encoder under the stock commands: training, resuming without the file, validation."""

import shutil
from collections import namedtuple

import pytest

from fairseq_plugins.checkpoints.encoders import write_dictionary
from tests import nlu_builders

from .commands import checkpoint, logged, output_of, transformer

Trained = namedtuple("Trained", "data save_dir pretrained log")


@pytest.fixture(scope="module")
def trained(run_cli, user_dir, path):
    """Train two epochs from an mBART, which is deleted after the first."""
    pretrained, data, save_dir = path / "mbart", path / "bin", path / "run"
    pretrained.mkdir()
    nlu_builders.mbart_cc25(pretrained)
    symbols = write_dictionary(pretrained, path / "dict.txt")[4:]
    nlu_builders.write_sentences(data, symbols)
    line = [*nlu_builders.command_line(data), "--user-dir", user_dir]
    line += ["--pretrained-encoder", pretrained, "--save-dir", save_dir]
    first = run_cli("train", *line, "--max-epoch", 1)
    shutil.rmtree(pretrained)
    second = run_cli("train", *line, "--max-epoch", 2)
    return Trained(data, save_dir, pretrained, output_of(first) + output_of(second))


def test_it_trains_and_resumes_without_the_file(trained):
    losses = logged(trained.log, "train_loss")
    assert len(losses) == 2
    assert losses[1] < losses[0]
    assert len(logged(trained.log, "valid.de_accuracy")) == 2
    first, second = (checkpoint(trained.save_dir / f"checkpoint{number}.pt") for number in (1, 2))
    assert [state["optimizer_history"][-1]["num_updates"] for state in (first, second)] == [3, 6]
    args = vars(first["cfg"]["model"])
    assert args["pretrained_encoder"] is None
    assert args["initialised_from"] == str(trained.pretrained)


def test_it_validates_in_another_language_without_options_of_the_model(trained, decode):
    """The scores equal those of the last validation during training."""
    line = """--task sentence_prediction --criterion sentence_prediction --num-classes 2
        --max-positions 30 --valid-subset valid.de --batch-size 4 --log-format json"""
    last = trained.save_dir / "checkpoint2.pt"
    process = decode(trained.data, last, line, command="validate")
    for name in ("valid.de_accuracy", "valid.de_loss"):
        (score,) = logged(process, name)
        assert score == logged(trained.log, name)[-1]


def test_a_stock_mbart_classifies_with_its_decoder_and_resumes(trained, train, decode, tmp_path):
    """A resumed run compares the languages with those of its checkpoint."""
    task = f"""--task cross_lingual_classification --criterion sentence_prediction
        --input-format mbart --add-prev-output-tokens --langs {",".join(nlu_builders.LANGUAGES)}
        --max-positions 30 --batch-size 4 --log-format json --valid-subset valid.de"""
    line = f"""{task} --arch mbart_base --share-all-embeddings --max-source-positions 40
        --max-target-positions 40 --dropout 0 --train-subset train.en --lr 0.005
        --no-epoch-checkpoints --seed 3 {" ".join(transformer(ffn=24))}"""
    first = train(trained.data, tmp_path, f"{line} --max-epoch 6")
    resumed = train(trained.data, tmp_path, f"{line} --max-epoch 12")
    losses = [*logged(first, "train_loss"), *logged(resumed, "train_loss")]
    assert len(losses) == 12
    assert losses[-1] < 0.1 * losses[0]
    validated = decode(trained.data, tmp_path / "checkpoint_last.pt", task, command="validate")
    accuracy = logged(resumed, "valid.de_accuracy")[-1]
    assert logged(validated, "valid.de_accuracy") == [accuracy]
