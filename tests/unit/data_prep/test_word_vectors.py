"""gensim's vectors: repeatable, with the options given, and clear where there is nothing to learn."""

import random
import sys

import numpy as np
import pytest

from data_prep import word_vectors
from data_prep.io import read_json
from data_prep.vector_text import read_vectors
from data_prep.word_vectors import VectorOptions, train_vectors
from tests.csr_builders import write_raw
from tests.unit.data_prep.files import killed, refused

SMALL = {"dim": 8, "window": 2, "negative": 2, "epochs": 2, "min_count": 2}


@pytest.fixture
def text(tmp_path):
    """Words of two topics; one of them comes once."""
    rng = random.Random(3)
    lines = [" ".join(rng.choices(topic, k=6)) for topic in (["a", "b", "c"], ["x", "y", "z"]) for _ in range(40)]
    return write_raw(tmp_path / "words", *lines, "once a")


@pytest.mark.parametrize(("method", "sg"), [("skipgram", 1), ("cbow", 0)])
def test_vectors_are_gensims(text, method, sg):
    from gensim.models import Word2Vec

    own = {"vector_size": 8, "window": 2, "negative": 2, "epochs": 2, "min_count": 2}
    stock = Word2Vec([line.split() for line in text.read_text().splitlines()], sg=sg, seed=5, workers=1, **own)
    found = train_vectors(text, VectorOptions(**SMALL, method=method, seed=5))
    assert found.words == stock.wv.index_to_key
    np.testing.assert_array_equal(found.vectors, stock.wv.vectors)


def test_the_command_line_and_a_kill(text, tmp_path, monkeypatch):
    options = [part for name, value in SMALL.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    line = ["--input", str(text), "--output", str(tmp_path / "v"), *options]
    word_vectors.main(line)
    assert len(read_vectors(tmp_path / "v", "--source").words) == 6
    manifest = read_json(tmp_path / "v.json")
    assert manifest["options"]["window"] == 2 and manifest["options"]["gensim"]
    assert manifest["counts"] == {"words": 6, "dim": 8}
    monkeypatch.setattr(word_vectors, "write_vectors", killed)
    with pytest.raises(KeyboardInterrupt):
        word_vectors.main(line)
    assert not (tmp_path / "v.json").exists(), "no manifest of other vectors"


def test_what_is_refused(text, tmp_path, monkeypatch):
    for line, count in (("a b c", 0), ("one one one one one one", 1)):
        words = f"{count} words come 5 times or more (--min-count); valid: 2 or"
        refused(words, train_vectors, write_raw(tmp_path / "few", line), VectorOptions())
    for change, message in (
        ({"dim": 0}, "--dim 0: valid: 1 or more"),
        ({"min_count": 0}, "--min-count 0"),
        ({"seed": -1}, "--seed -1: valid: 0 to"),
        ({"method": "glove"}, "--method glove: valid: skipgram, cbow"),
    ):
        refused(message, VectorOptions, **change)
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    refused("the package gensim is missing; valid: pip install gensim", train_vectors, text, VectorOptions())
