"""Texts as flat arrays: words and entries, lengths, datasets that are read as a whole or row by row."""

import numpy as np
import pytest

from fairseq_plugins.data import csr_text
from fairseq_plugins.data.csr_text import largest_sums
from tests import csr_builders as csr
from tests.csr_builders import dictionary, lexicon, sentences, texts_of

SYMBOLS = dictionary()


def test_coverage_is_counted_by_word():
    rows = {"en": sentences(SYMBOLS, "en", 50, 1), "de": sentences(SYMBOLS, "de", 30, 2)}
    data, found = csr.build(rows, SYMBOLS, words=10)
    for coverage, (language, text) in zip(found, rows.items()):
        words = [word for row in text for word in texts_of(row, SYMBOLS)]
        entries = lexicon(language, "de" if language == "en" else "en", 10)
        assert (coverage.sentences, coverage.words) == (len(text), len(words))
        assert coverage.covered == sum(word in entries for word in words)
        assert coverage.share == pytest.approx(coverage.covered / coverage.words)
        assert coverage.counts == {word: words.count(word) for word in words}
    assert data.text.words.sum() == sum(coverage.words for coverage in found)
    assert data.text.covered[-1] == sum(coverage.covered for coverage in found) == len(data.text.entries)


def test_chunks_are_seams_nowhere(monkeypatch):
    rows = {"en": sentences(SYMBOLS, "en", 15, 1), "de": sentences(SYMBOLS, "de", 15, 2)}
    whole, found = csr.build(rows, SYMBOLS)
    for size in (1, 150):
        monkeypatch.setattr(csr_text, "CHUNK", size)
        parts, again = csr.build(rows, SYMBOLS)
        assert again == found
        for name, one, other in zip(whole.text._fields, whole.text, parts.text):
            assert name in ("entries", "table") or np.array_equal(one, other), name  # entries are numbered as they come
        items = [[csr.plain(data[index]) for index in range(30)] for data in (whole, parts)]
        assert items[0] == items[1]


def test_the_largest_of_each_row():
    values, lengths = np.array([3, 1, 2, 5, 4, 4]), np.array([3, 0, 1, 2])
    assert largest_sums(values, lengths, np.array([2, 0, 1, 1])).tolist() == [5, 0, 5, 4]
    assert largest_sums(values, lengths, np.array([0, 0, 0, 2])).tolist() == [0, 0, 0, 8]
    assert largest_sums(values[:0], np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)).tolist() == [0, 0]
