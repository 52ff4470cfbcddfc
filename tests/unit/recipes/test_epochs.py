"""Test trainings by epochs: updates are counted as fairseq-train makes them."""

import pytest

from examples.recipes import epochs
from tests import nlu_builders
from tests.conftest import ROOT

OPTIONS = (
    "--arch nlu_encoder --input-format xlmr --optimizer adam --lr 0.01 --max-positions 30"
    " --task cross_lingual_classification --criterion sentence_prediction"
    f" --lr-scheduler polynomial_decay --cpu --user-dir {ROOT / 'fairseq_plugins'}"
    " --required-batch-size-multiple 1"
)


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Return a training on 12 English rows and 12 translations, without its batch size."""
    monkeypatch.setattr(epochs.sys, "argv", [])  # main() sets it; restored after the test
    encoder, symbols = nlu_builders.write_any("xlmr", tmp_path)[:2]
    data = nlu_builders.write_sentences(tmp_path / "bin", symbols)
    for file in data.rglob("valid.de.*"):
        file.rename(file.with_name(file.name.replace("valid", "translate")))
    return ["fairseq-train", str(data), *OPTIONS.split(), "--pretrained-encoder", str(encoder)]


@pytest.mark.cases(
    "options updates",
    ("--train-subset train.en --batch-size 4 --max-epoch 3", 9),
    ("--train-subset train.en,translate.* --batch-size 5 --max-epoch 2", 10),
    ("--train-subset train.en --batch-size 5 --update-freq 2 --max-epoch 3", 6),
)
def test_updates_are_batches_of_all_epochs(command, options, updates):
    assert epochs.count_updates([*command, *options.split()]) == updates


def test_the_schedule_follows_from_the_updates(command, monkeypatch):
    started = []
    monkeypatch.setattr(epochs.os, "execvp", lambda program, words: started.append(words))
    monkeypatch.setattr(epochs.logging, "disable", lambda level: None)
    words = [*command, "--train-subset", "train.en", "--batch-size", "1", "--max-epoch", "5"]
    for options, warmup in (([], ["--warmup-updates", "6"]), (["--warmup-updates", "0"], [])):
        monkeypatch.setattr(epochs.sys, "argv", ["epochs.py", "0.1", *words, *options])
        epochs.main()
        assert started.pop() == [*words, *options, "--total-num-update", "60", *warmup]
    with pytest.raises(ValueError, match="--max-epoch: missing"):
        epochs.count_updates(words[:-2])
