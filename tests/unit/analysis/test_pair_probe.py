"""The probe of sentence pairs: features and scores as loops make them, layer and penalty from the development pairs, refusals."""

import sys

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from fairseq_plugins.analysis import pair_probe as room
from fairseq_plugins.understanding.encoder import load_text_encoder
from tests import nlu_builders
from tests.unit.analysis.commands import refused, run


def rows(seed, count, shift=0):
    """Pairs whose class follows from one piece of the second sentence; ``shift``: another language, with another order."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        first, second = (generator.integers(0, 20, 4).tolist() for _ in range(2))
        kind = int(generator.integers(2))
        second[:3] = [kind, 2 + kind, 4 + kind]
        found.append((first, second[shift:] + second[:shift], ("no", "yes")[kind]))
    return found


def written(path, pairs):
    def text(side):
        return " ".join(f"p{piece}" for piece in side)

    path.write_text("".join(f"{text(a)}\t{text(b)}\t{kind}\n" for a, b, kind in pairs), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return nlu_builders.write_any("xlmr", tmp_path_factory.mktemp("model") / "xlmr")[0]


def line(model, folder, *more, train=120, dev=40):
    sets = {"train": rows(1, train), "dev": rows(2, dev), "test": rows(3, 30)}
    items = [model, "--cpu", "--sentencepiece", "none", "--max-tokens", 60]
    for name, pairs in sets.items():
        items += [f"--{name}", f"en={written(folder / f'{name}.tsv', pairs)}"]
    return [*items, *more]


def test_of_equal_accuracies_the_lowest_layer_and_the_first_penalty_are_chosen(monkeypatch):
    class Constant:
        def __init__(self, penalty):
            self.fit = lambda rows, classes: None
            self.score = lambda rows, classes: 0.5

    monkeypatch.setattr(room, "make_classifier", Constant)
    features, pairs = {1: np.ones((1, 1)), 2: np.ones((1, 1))}, room.Pairs("en", ["a"], ["b"], ["yes"])
    found = room.choose({"train": features, "dev": features}, pairs, pairs)
    assert (found.layer, found.penalty) == (1, room.PENALTIES[0])


def features_by_hand(model, pairs, layer):
    encoder = load_text_encoder(model)
    found = []
    for first, second, _ in pairs:
        with torch.no_grad():
            tokens = [torch.tensor([[0, *(4 + piece for piece in side), 2]]) for side in (first, second)]
            u, v = (encoder(side)[layer][0].mean(0) for side in tokens)
        found.append(torch.cat([u, v, (u - v).abs(), u * v]).numpy())
    return np.stack(found)


def classes_of(pairs):
    return np.array([row[2] for row in pairs])


def test_scores_are_those_of_features_made_by_hand(model, tmp_path, capsys):
    german = written(tmp_path / "test.de", rows(4, 20, shift=1))
    found = run("pair-probe", tmp_path / "found.json", *line(model, tmp_path, "--test", f"de={german}"))
    train, german_rows = rows(1, 120), rows(4, 20, shift=1)
    best = []
    for layer in (0, 1, 2):
        sets = train, rows(2, 40), rows(3, 30), german_rows
        fit, dev, english, other = (features_by_hand(model, one, layer) for one in sets)
        mean, spread = fit.mean(0), fit.std(0)
        for penalty in room.PENALTIES:
            classifier = LogisticRegression(C=penalty, max_iter=200).fit((fit - mean) / spread, classes_of(train))
            guesses = [classifier.predict((one - mean) / spread) for one in (dev, english, other)]
            right = [found == classes_of(one) for found, one in zip(guesses, (rows(2, 40), rows(3, 30), german_rows))]
            best.append((right[0].mean(), layer, penalty, {"en": right[1], "de": right[2]}))
    accuracy, layer, penalty, signs = max(best, key=lambda one: (one[0], -one[1], -one[2]))
    assert (found["layer"], found["penalty"]) == (layer, penalty)
    assert max(found["dev"].values()) == found["dev"][str(layer)] == pytest.approx(accuracy)
    assert found["found"] == {name: ["".join(str(int(one)) for one in row)] for name, row in signs.items()}
    assert found["test"]["en"] == pytest.approx(np.mean(signs["en"])) and found["test"]["en"] > 0.8
    shown = capsys.readouterr().out
    assert f"layer {layer}, C = {penalty:g}" in shown and f"{100 * np.mean(signs['de']):.1f}" in shown


def test_bad_input_is_named(model, tmp_path, capsys, monkeypatch):
    for text, more, message in (
        ("p1 p2\tp3\n", [], "line 1: valid: sentence<TAB>sentence<TAB>class"),
        ("p1\tp3\tmaybe\n", [], "--test: class ['maybe']; valid: those of --train"),
        ("p1\tp3\tno\n", ["--dev", f"de={tmp_path / 'bad.tsv'}"], "--dev: valid: one LANG=FILE; got en, de"),
    ):
        file = tmp_path / "bad.tsv"
        file.write_text(text, encoding="utf-8")
        assert message in refused(capsys, "pair-probe", *line(model, tmp_path, "--test", f"de={file}", *more))
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    assert "needs scikit-learn (the extra 'probe')" in refused(capsys, "pair-probe", *line(model, tmp_path))
