"""Understanding is learned in one language and holds in another: a small encoder from scratch, by the stock commands."""

import numpy as np
import pytest

from tests import nlu_bins
from tests.cli.commands import logged

LABELS = ["first", "second", "neither"]
MARKS = (4, 5)
"""Pieces that decide: a sentence pair's class is which of the two sentences has one of them."""

FILLERS = {"en": (6, 16), "de": (9, 19)}
"""Other pieces, from and to: the languages share some."""

SIZES = ["--encoder-layers", 1, "--encoder-embed-dim", 32, "--encoder-ffn-embed-dim", 32, "--encoder-heads", 2]
THRESHOLD = 90.0


def pairs(count, seed, language):
    """Sentences of two to five pieces, with a mark at any place of the one that the class names."""
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
def test_classes_learned_in_english_hold_in_german(run_cli, user_dir, tmp_path):
    data, save_dir = tmp_path / "bin", tmp_path / "run"
    for seed, (name, count) in enumerate((("train.en", 480), ("valid.en", 120), ("test.de", 120)), start=1):
        write(data, name, count, seed)
    common = ["--user-dir", user_dir, "--task", "cross_lingual_classification", "--criterion", "sentence_prediction"]
    common += ["--max-positions", 20, "--batch-size", 32, "--cpu", "--num-workers", 0, "--log-format", "json"]
    done = run_cli(
        "train", data, *common, "--arch", "nlu_encoder", "--encoder-family", "bert", *SIZES, "--input-format", "bert",
        "--sentence-pooling", "mean", "--dropout", 0, "--train-subset", "train.en", "--valid-subset", "valid.en", "--optimizer",
        "adam", "--lr", 0.01, "--lr-scheduler", "polynomial_decay", "--total-num-update", 75,
        "--max-epoch", 5, "--no-epoch-checkpoints", "--seed", 3, "--save-dir", save_dir,
    )  # fmt: skip
    scores = logged(done, "valid.en_accuracy")
    assert scores[-1] >= THRESHOLD and scores[-1] > scores[0]

    last = save_dir / "checkpoint_last.pt"
    line = ["--path", last, "--valid-subset", "test.de", "--predictions", tmp_path / "predicted"]
    done = run_cli("validate", data, *common, *line)
    score = logged(done, "test.de_accuracy")[0]
    assert score >= THRESHOLD
    rows = [line.split("\t") for line in (tmp_path / "predicted" / "test.de.tsv").read_text().splitlines()]
    assert [row for row, _, _ in rows] == [str(number) for number in range(120)]
    assert [gold for _, _, gold in rows] == pairs(120, 3, "de")[2]
    assert 100 * sum(found == gold for _, found, gold in rows) / len(rows) == pytest.approx(score, abs=0.06)
