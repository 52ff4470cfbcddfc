"""Test the probe of sentence pairs: features and scores in loops, choices, bad input."""

import sys

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from fairseq_plugins.analysis import pair_probe
from fairseq_plugins.understanding.encoder import load_text_encoder
from tests import nlu_builders
from tests.unit.analysis.commands import read_refusal, run


def make_pairs(seed, count, shift=0):
    """Make pairs whose class follows from the second sentence.

    ``shift`` rotates the second sentence, for another language.
    """
    generator = np.random.default_rng(seed)
    pairs = []
    for _ in range(count):
        first, second = (generator.integers(0, 20, 4).tolist() for _ in range(2))
        number = int(generator.integers(2))
        second[:3] = [number, 2 + number, 4 + number]
        pairs.append((first, second[shift:] + second[:shift], ("no", "yes")[number]))
    return pairs


PAIRS = {
    "train": make_pairs(1, 120),
    "dev": make_pairs(2, 40),
    "test": make_pairs(3, 30),
    "german": make_pairs(4, 20, shift=1),
}


def write_pairs(path, pairs):
    def text(pieces):
        return " ".join(f"p{piece}" for piece in pieces)

    lines = [f"{text(first)}\t{text(second)}\t{name}\n" for first, second, name in pairs]
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return nlu_builders.write_any("xlmr", tmp_path_factory.mktemp("model") / "xlmr")[0]


@pytest.fixture
def line(model, tmp_path):
    options = [model, "--cpu", "--sentencepiece", "none", "--max-tokens", 60]
    for name in ("train", "dev", "test"):
        options += [f"--{name}", f"en={write_pairs(tmp_path / name, PAIRS[name])}"]
    return options


def test_equal_accuracies_choose_the_lowest_layer_and_the_first_penalty(monkeypatch):
    class Constant:
        def __init__(self, penalty):
            self.fit = lambda rows, classes: None
            self.score = lambda rows, classes: 0.5

    monkeypatch.setattr(pair_probe, "make_classifier", Constant)
    features = {1: np.ones((1, 1)), 2: np.ones((1, 1))}
    pairs = pair_probe.Pairs("en", ["a"], ["b"], ["yes"])
    choice = pair_probe.choose({"train": features, "dev": features}, pairs, pairs)
    assert (choice.layer, choice.penalty) == (1, pair_probe.PENALTIES[0])


@torch.no_grad()
def compute_features(model, pairs, layer):
    encoder = load_text_encoder(model)
    rows = []
    for first, second, _ in pairs:
        u, v = (
            encoder(torch.tensor([[0, *(4 + piece for piece in pieces), 2]]))[layer][0].mean(0)
            for pieces in (first, second)
        )
        rows.append(torch.cat([u, v, (u - v).abs(), u * v]).numpy())
    return np.stack(rows)


def test_scores_equal_classifiers_of_features_in_a_loop(model, line, tmp_path, capsys):
    path = write_pairs(tmp_path / "german", PAIRS["german"])
    content = run("pair-probe", tmp_path / "x.json", *line, "--test", f"de={path}")
    classes = {name: np.array([row[2] for row in pairs]) for name, pairs in PAIRS.items()}
    candidates = []
    for layer in (0, 1, 2):
        features = {name: compute_features(model, PAIRS[name], layer) for name in PAIRS}
        mean, spread = features["train"].mean(0), features["train"].std(0)
        rows = {name: (features[name] - mean) / spread for name in PAIRS}
        for penalty in pair_probe.PENALTIES:
            classifier = LogisticRegression(C=penalty, max_iter=200)
            classifier.fit(rows["train"], classes["train"])
            hits = {name: classifier.predict(rows[name]) == classes[name] for name in PAIRS}
            candidates.append((hits["dev"].mean(), -layer, -penalty, hits))
    accuracy, layer, penalty, hits = max(candidates, key=lambda candidate: candidate[:3])
    assert (content["layer"], content["penalty"]) == (-layer, -penalty)
    assert max(content["dev"].values()) == content["dev"][str(-layer)] == pytest.approx(accuracy)
    signs = {
        language: "".join(str(int(hit)) for hit in hits[name])
        for language, name in (("en", "test"), ("de", "german"))
    }
    assert content["found"] == {language: [row] for language, row in signs.items()}
    assert content["test"]["en"] == pytest.approx(hits["test"].mean()) and hits["test"].mean() > 0.8
    out = capsys.readouterr().out
    assert f"layer {-layer}, C = {-penalty:g}" in out
    assert f"{100 * hits['german'].mean():.1f}" in out


def test_bad_input_is_refused(line, tmp_path, capsys, monkeypatch):
    path = tmp_path / "bad.tsv"
    for text, options, message in (
        ("p1 p2\tp3\n", [], "line 1: valid: sentence<TAB>sentence<TAB>class"),
        ("p1\tp3\tmaybe\n", [], "--test: class ['maybe']"),
        ("p1\tp3\tno\n", ["--dev", f"de={path}"], "--dev: valid: one LANG=FILE; got en, de"),
    ):
        path.write_text(text, encoding="utf-8")
        bad_line = [*line, "--test", f"de={path}", *options]
        assert message in read_refusal(capsys, "pair-probe", *bad_line)
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    assert "scikit-learn" in read_refusal(capsys, "pair-probe", *line)
