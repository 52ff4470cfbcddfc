"""Test lexicon entries: look-up, neighbours as pieces, and texts read with their words."""

import numpy as np
import pytest
from fairseq.data import Dictionary

from data_prep.pieces.segmenters import load_model
from fairseq_plugins.csr import neighbours
from fairseq_plugins.csr.neighbours import NO_ENTRY, Entries, WordEncoder, read_text
from fairseq_plugins.csr.words import classify_pieces
from tests import csr_builders as csr
from tests import nlu_bins


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    model, dictionary = nlu_bins.model_and_dictionary(tmp_path_factory.mktemp("model"))
    return WordEncoder(load_model(model), Dictionary.load(str(dictionary)))


def test_neighbours_have_a_mark_if_the_word_has_one(encoder):
    for word in ("Katze", "Hund", "file", "日本"):
        for marked in (True, False):
            row = encoder.encode([word], marked)[0]
            pieces = [encoder.dictionary[piece] for piece in row]
            assert pieces[0].startswith("▁") == marked and "".join(pieces).lstrip("▁") == word
    assert encoder.encode(["Katze", "ЖЖ", "Hund"], True)[1] is None, "<unk>"
    assert encoder.encode(["\u200b"], True) == [None], "nothing is left of it"


def test_words_are_normalized_as_the_model_does(encoder):
    words = [encoder.normalize(word) for word in ("ﬁnal", " e\u0301té ", "a b")]
    assert words == ["final", "été", "a b"]
    entries = Entries(encoder, classify_pieces(encoder.dictionary))
    entries.use({"ﬁle": ["Katze"], "file": ["Hund", "Katze"]})
    assert entries.lexicon == {"file": ["Katze", "Hund"]}


def test_a_model_of_other_pieces_is_refused_and_added_symbols_are_no_pieces(encoder, tmp_path):
    text = ["quite another text of English words"]
    model = nlu_bins.train_model(tmp_path / "other.model", text, vocab_size=40)
    with pytest.raises(ValueError, match=r"--sentencepiece-model: \d+ of the \d+ pieces"):
        WordEncoder(load_model(model), encoder.dictionary)
    model, path = nlu_bins.model_and_dictionary(tmp_path)
    dictionary = Dictionary.load(str(path))
    for symbol in [*(f"madeupword{number:04}" for number in range(9)), "[en_XX]", "<mask>"]:
        dictionary.add_symbol(symbol)
    WordEncoder(load_model(model), dictionary)


def test_look_up_is_exact_then_lower_cased():
    symbols = csr.dictionary()
    entries = Entries(csr.KnownPieces(symbols), classify_pieces(symbols))
    cat = ["d3", "d99", "cat"]
    entries.use({"Dog": ["d1"], "dog": ["d2"], "cat": cat, "none": ["d99"], "dogged": ["d4"]})
    assert "dog" in entries.source.words and {"dog", "ca"} <= entries.source.prefixes
    assert not {"dogged", "cat"} & entries.source.prefixes
    assert [entries.number(word, True) for word in ("Dog", "dog", "DOG")] == [0, 1, 1]
    assert entries.number("dog", False) == 2
    assert {entries.number(word, True) for word in ("none", "house", "CATS")} == {NO_ENTRY}
    assert entries.unusable == 1
    assert entries.number("Cat", True) == 3
    assert (entries.unusable, entries.usable, entries.identical) == (3, 3, 0)
    entries.use({"dog": ["d5", "e1f2"], "d7": ["d7", "d8"]})
    assert entries.number("dog", True) == 4, "the entry of another language"
    assert entries.number("d7", True) == 5 and entries.identical == 1, "the lexicon has d7 d7"
    table = entries.table()
    rows = np.split(table.pieces, table.starts[1:-1])
    words = ["▁d1", "▁d2", "d2", "▁d3", "▁d5", "▁e1 f2", "▁d7", "▁d8"]
    assert [" ".join(symbols[piece] for piece in row) for row in rows] == words
    assert table.neighbours.tolist() == [0, 1, 2, 3, 4, 6, 8]
    assert table.longest.tolist() == [1, 1, 1, 1, 2, 1]


@pytest.mark.parametrize("size", [neighbours.CHUNK, 1, 150])
def test_chunks_change_neither_text_nor_words(monkeypatch, size):
    monkeypatch.setattr(neighbours, "CHUNK", size)
    symbols = csr.dictionary()
    rows, lexicon = csr.sentences(symbols, "en", 15, 1), csr.lexicon("en", "de", 10)
    entries = Entries(csr.KnownPieces(symbols), classify_pieces(symbols))
    entries.use(lexicon)
    parts = [csr.list_dataset(part) for part in (rows[:9], [], rows[9:])]
    text = read_text(parts, 7, entries)
    sentences = [csr.texts_of(row, symbols) for row in rows]
    assert text.words.tolist() == [len(words) for words in sentences]
    assert text.covered.tolist() == [sum(word in lexicon for word in row) for row in sentences]
    words = sum(sentences, [])
    assert entries.counts == {word: words.count(word) for word in words}
    assert text.tokens.tolist() == [token for row in rows for token in [*row, 7]]
    assert text.lengths.tolist() == [len(row) + 1 for row in rows]
    starts = np.repeat(np.cumsum([0, *text.lengths[:-1]]), text.covered) + text.places
    spelled = [
        "".join(symbols[token] for token in text.tokens[start : start + pieces]).lstrip("▁")
        for start, pieces in zip(starts, text.pieces)
    ]
    assert spelled == [word for word in words if word in lexicon]
    assert [entries.number(word, True) for word in spelled] != [NO_ENTRY] * len(spelled)
    assert NO_ENTRY not in text.entries
