"""gensim's vectors: repeatable, with the options given, and clear where there is nothing to learn."""

import random
import sys

import numpy as np
import pytest

from data_prep.word_vectors import VectorOptions, train_vectors
from tests.csr_builders import write_raw
from tests.unit.data_prep.files import refused


@pytest.fixture
def text(tmp_path):
    """Words of two topics; one of them comes once."""
    rng = random.Random(3)
    lines = [" ".join(rng.choices(topic, k=6)) for topic in (["a", "b", "c"], ["x", "y", "z"]) for _ in range(40)]
    return write_raw(tmp_path / "words", *lines, "once a")


@pytest.mark.parametrize(("method", "sg"), [("skipgram", 1), ("cbow", 0)])
def test_vectors_are_gensims(text, method, sg):
    from gensim.models import Word2Vec

    own = {"window": 2, "negative": 2, "epochs": 2, "min_count": 2}
    stock = Word2Vec(
        [line.split() for line in text.read_text().splitlines()], sg=sg, seed=5, workers=1, vector_size=8, **own
    )
    found = train_vectors(text, VectorOptions(**own, dim=8, method=method, seed=5))
    assert found.words == stock.wv.index_to_key
    np.testing.assert_array_equal(found.vectors, stock.wv.vectors)


def test_what_is_refused(text, tmp_path, monkeypatch):
    words = "1 words come 5 times or more (--min-count); valid: 2 or"
    refused(words, train_vectors, write_raw(tmp_path / "few", "one one one one one one"), VectorOptions())
    refused("--method glove: valid: skipgram, cbow", VectorOptions, method="glove")
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    refused("the package gensim is missing; valid: pip install gensim", train_vectors, text, VectorOptions())
