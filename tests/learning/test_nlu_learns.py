"""Test that classes learned in one language transfer to another, with the stock commands."""

import numpy as np
import pytest

from tests import nlu_bins
from tests.cli.commands import logged

LABELS = ["first", "second", "neither"]
MARKS = (4, 5)
"""Pieces that decide: the class of a pair names the sentence that has one of them."""

FILLERS = {"en": (6, 16), "de": (9, 19)}
"""Range of the other pieces, by language; the languages share some."""

TASK = """--task cross_lingual_classification --criterion sentence_prediction --max-positions 20
    --batch-size 32 --cpu --num-workers 0 --log-format json"""
TRAINING = """--arch nlu_encoder --encoder-family bert --encoder-layers 1 --encoder-embed-dim 32
    --encoder-ffn-embed-dim 32 --encoder-heads 2 --input-format bert --sentence-pooling mean
    --dropout 0 --train-subset train.en --valid-subset valid.en --optimizer adam --lr 0.01
    --lr-scheduler polynomial_decay --total-num-update 75 --max-epoch 5 --no-epoch-checkpoints
    --seed 3"""
THRESHOLD = 90.0


def pairs(count, seed, language):
    """Draw pairs of sentences of two to five pieces, and their classes."""
    rng = np.random.default_rng(seed)
    sides = ([], [])
    labels = []
    for row in range(count):
        label = row % 3
        for side in range(2):
            sentence = rng.integers(*FILLERS[language], size=int(rng.integers(2, 6))).tolist()
            if label == side:
                sentence[int(rng.integers(len(sentence)))] = int(rng.choice(MARKS))
            sides[side].append(sentence)
        labels.append(LABELS[label])
    return (*sides, labels)


def write(data, name, count, seed):
    *sides, labels = pairs(count, seed, name.split(".")[1])
    for number, side in enumerate(sides):
        nlu_bins.write_texts(data, f"input{number}", name, side)
    nlu_bins.write_classes(data, name, labels, LABELS)


@pytest.mark.slow
def test_classes_learned_in_english_transfer_to_german(run_cli, user_dir, tmp_path):
    data, run, predictions = tmp_path / "bin", tmp_path / "run", tmp_path / "predictions"
    for seed, (name, count) in enumerate(
        (("train.en", 480), ("valid.en", 120), ("test.de", 120)), start=1
    ):
        write(data, name, count, seed)
    shared = ["--user-dir", user_dir, *TASK.split()]
    log = run_cli("train", data, *shared, *TRAINING.split(), "--save-dir", run)
    scores = logged(log, "valid.en_accuracy")
    assert scores[-1] >= THRESHOLD
    assert scores[-1] > scores[0]

    line = f"--path {run / 'checkpoint_last.pt'} --valid-subset test.de --predictions {predictions}"
    log = run_cli("validate", data, *shared, *line.split())
    (accuracy,) = logged(log, "test.de_accuracy")
    assert accuracy >= THRESHOLD
    lines = (predictions / "test.de.tsv").read_text().splitlines()
    numbers, labels, gold = zip(*(line.split("\t") for line in lines))
    assert numbers == tuple(str(number) for number in range(120))
    assert list(gold) == pairs(120, 3, "de")[2]
    correct = sum(label == expected for label, expected in zip(labels, gold))
    assert 100 * correct / len(gold) == pytest.approx(accuracy, abs=0.06)
