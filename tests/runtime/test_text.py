"""Test that text becomes ids, and ids become text, as in fairseq."""

from types import SimpleNamespace

import numpy as np
import pytest
import sentencepiece
import torch
from fairseq.data import Dictionary
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE

from fairseq_plugins_runtime.model_json import ModelError
from fairseq_plugins_runtime.text import Text
from tests.nlu_bins import train_model

SENTENCES = [
    "ein Hund läuft über den Sand",
    "zwei Männer sitzen auf einer Bank .",
    "2 + 2 = 4",
    "Straße , Öl und Übermut !",
]
ODD_LINES = [
    "",
    "  ",
    "\t",
    "\u200b",
    "▁",
    "▁ ein ▁▁Hund▁",
    "<s> </s> <unk> <pad> <mask>",
    "日本語",
    "😀 Hund 😀😀",
    "e\u0301te\u0301",
    "ein\u00a0Hund\u3000läuft",
    "a\x1cb\x85c",
    "a\u2028b\u2029c",
    "\ufeffein Hund",
    "ein\x00Hund",
    "ﬁnden ½ ①",
    "a\x0bb\x0cc",
    "ein\nHund",
    " ein  Hund ",
    "\u0660\u0661",
    "…",
    "Hund\r",
]
RULES = {"nmt_nfkc": True, "identity": False}
"""Normalisation -> remove extra whitespace."""


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    """A folder of sentencepiece models, one for each of :data:`RULES`."""
    folder = tmp_path_factory.mktemp("pieces")
    for rule, removes_whitespace in RULES.items():
        train_model(
            folder / rule,
            SENTENCES,
            normalization_rule_name=rule,
            remove_extra_whitespaces=removes_whitespace,
        )
    return folder


class FairseqText:
    """fairseq's dictionary and tokenizer; without a sentencepiece model, text is split at spaces.

    The dictionary has some pieces, words that the sentencepiece models lack, and ``<mask>``.
    """

    def __init__(self, path=None):
        self.dictionary, self.bpe = Dictionary(), None
        if path is not None:
            processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
            for number in range(3, processor.GetPieceSize() - 5):
                self.dictionary.add_symbol(processor.IdToPiece(number))
            options = {"sentencepiece_enable_sampling": False, "sentencepiece_alpha": None}
            self.bpe = SentencepieceBPE(SimpleNamespace(sentencepiece_model=str(path), **options))
        for symbol in ("Hund", "ein", "▁", "<mask>"):
            self.dictionary.add_symbol(symbol)

    def ids(self, line):
        text = self.bpe.encode(line.strip()) if self.bpe else line.strip()
        ids = self.dictionary.encode_line(text, append_eos=False, add_if_not_exist=False)
        return ids.tolist()

    def text(self, ids, ignored):
        text = self.dictionary.string(torch.tensor(ids), extra_symbols_to_ignore=ignored)
        return self.bpe.decode(text) if self.bpe else text


def make_texts(pieces, rule, ignored=()):
    """Return fairseq's text and the runtime's, with the same symbols."""
    path = pieces / rule if rule else None
    reference = FairseqText(path)
    symbols = reference.dictionary.symbols
    return reference, Text(symbols, symbols, path, reference.dictionary.unk(), ignored)


@pytest.mark.parametrize("rule", [*RULES, None])
def test_ids_equal_those_of_fairseq(pieces, rule):
    reference, text = make_texts(pieces, rule)
    unknown = 0
    for line in [*SENTENCES, *ODD_LINES]:
        expected = reference.ids(line)
        assert text.ids(line) == expected, repr(line)
        unknown += expected.count(reference.dictionary.unk())
    assert unknown > 5


@pytest.mark.parametrize("rule", ["nmt_nfkc", None])
def test_text_equals_that_of_fairseq(pieces, rule):
    dictionary = make_texts(pieces, rule)[0].dictionary
    ignored = {dictionary.bos(), dictionary.eos(), dictionary.pad(), dictionary.index("<mask>")}
    reference, text = make_texts(pieces, rule, ignored)
    rng = np.random.default_rng(3)
    for length in range(40):
        ids = rng.integers(0, len(dictionary), length).tolist()
        assert text.text(ids) == reference.text(ids, ignored)


def test_a_symbol_that_occurs_twice_has_its_last_id():
    text = Text(["<unk>", "a", "b", "a"], ["<unk>"], None, 0, [])
    assert text.ids("a b c") == [3, 2, 0]


@pytest.mark.parametrize("rule", ["identity", None])
def test_half_a_surrogate_pair_is_refused(pieces, rule):
    _, text = make_texts(pieces, rule)
    with pytest.raises(ModelError, match="half of a surrogate pair"):
        text.ids("ein \ud83d Hund")
