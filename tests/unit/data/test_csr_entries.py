"""Entries: look-up, candidates as pieces with and without the mark, what is left out, and what is wrong with a lexicon."""

import numpy as np
import pytest
from fairseq.data import Dictionary

from data_prep.pieces.segmenters import load_model
from fairseq_plugins.data.csr_entries import NONE, Entries, WordEncoder
from tests import csr_builders as csr
from tests import nlu_bins


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    model, dictionary = nlu_bins.model_and_dictionary(tmp_path_factory.mktemp("model"))
    return WordEncoder(load_model(model), Dictionary.load(str(dictionary)))


def shown(encoder, word, marked):
    return " ".join(encoder.dictionary[piece] for piece in encoder.encode([word], marked)[0] or [])


def test_candidates_have_a_mark_where_they_are_to_have_one(encoder):
    for word in ("Katze", "Hund", "file", "日本"):
        assert shown(encoder, word, True).startswith("▁")
        assert not shown(encoder, word, False).startswith("▁")
        for marked in (True, False):
            assert shown(encoder, word, marked).replace(" ", "").lstrip("▁") == word
    assert encoder.encode(["Katze", "ЖЖ", "Hund"], True)[1] is None, "<unk>"
    assert encoder.encode(["\u200b"], True) == [None], "nothing is left of it"


def test_words_are_brought_into_the_models_form(encoder):
    assert [encoder.normal(word) for word in ("ﬁnal", " e\u0301té ", "a b")] == ["final", "été", "a b"]
    entries = Entries(encoder)
    entries.use({"ﬁle": ["Katze"], "file": ["Hund", "Katze"]})
    assert entries.lexicon == {"file": ["Katze", "Hund"]}


def test_a_model_of_other_pieces_is_refused_and_symbols_that_were_added_are_no_pieces(encoder, tmp_path):
    other = nlu_bins.train_model(tmp_path / "other.model", ["quite another text of English words"], vocab_size=40)
    with pytest.raises(ValueError, match=r"--sentencepiece-model: \d+ of the \d+ pieces .* are none of this model's"):
        WordEncoder(load_model(other), encoder.dictionary)
    model, path = nlu_bins.model_and_dictionary(tmp_path)
    dictionary = Dictionary.load(str(path))
    for symbol in [*(f"madeupword{number:04}" for number in range(9)), "[en_XX]", "<mask>"]:
        dictionary.add_symbol(symbol)
    WordEncoder(load_model(model), dictionary)


def test_look_up_is_exact_then_lower_cased():
    symbols = csr.dictionary()
    entries = Entries(csr.KnownPieces(symbols))
    entries.use({"Dog": ["d1"], "dog": ["d2"], "cat": ["d3", "d99", "cat"], "none": ["d99"], "dogged": ["d4"]})
    assert "dog" in entries.source.words and {"dog", "ca"} <= entries.source.beginnings
    assert "dogged" not in entries.source.beginnings and "cat" not in entries.source.beginnings
    assert [entries.number(word, True) for word in ("Dog", "dog", "DOG")] == [0, 1, 1]
    assert entries.number("dog", False) == 2
    assert {entries.number(word, True) for word in ("none", "house", "CATS")} == {NONE}
    assert entries.left_out == 1
    assert entries.number("Cat", True) == 3 and (entries.left_out, entries.kept, entries.same) == (3, 3, 0)
    entries.use({"dog": ["d5", "e1f2"], "d7": ["d7", "d8"]})
    assert entries.number("dog", True) == 4, "of another language"
    assert entries.number("d7", True) == 5 and entries.same == 1, "the lexicon says so"
    table = entries.table()
    pieces = [[symbols[piece] for piece in part] for part in np.split(table.pieces, table.starts[1:-1])]
    assert pieces == [["▁d1"], ["▁d2"], ["d2"], ["▁d3"], ["▁d5"], ["▁e1", "f2"], ["▁d7"], ["▁d8"]]
    assert table.candidates.tolist() == [0, 1, 2, 3, 4, 6, 8] and table.longest.tolist() == [1, 1, 1, 1, 2, 1]
