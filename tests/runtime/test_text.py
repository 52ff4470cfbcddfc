"""Text to ids and back, as fairseq does it."""

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
ODD = [
    *(
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
    ),
    *(
        "ein\u00a0Hund\u3000läuft",
        "a\x1cb\x85c",
        "a\u2028b\u2029c",
        "\ufeffein Hund",
        "ein\x00Hund",
        "ﬁnden ½ ①",
        "a\x0bb\x0cc",
    ),
    *("ein\nHund", " ein  Hund ", "\u0660\u0661", "…", "Hund\r"),
]


SAMPLING = {"sentencepiece_enable_sampling": False, "sentencepiece_alpha": None}


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    """A folder of sentencepiece models, one for each way of treating spaces and odd characters."""
    folder = tmp_path_factory.mktemp("pieces")
    for rule, removed in (("nmt_nfkc", True), ("identity", False)):
        train_model(folder / rule, SENTENCES, normalization_rule_name=rule, remove_extra_whitespaces=removed)
    return folder


def dictionary(path=None):
    """fairseq's: some pieces, a word that no model of pieces has, and ``<mask>``."""
    found = Dictionary()
    if path is not None:
        processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
        for number in range(3, processor.GetPieceSize() - 5):
            found.add_symbol(processor.IdToPiece(number))
    for symbol in ("Hund", "ein", "▁", "<mask>"):
        found.add_symbol(symbol)
    return found


def text(words, path, ignored):
    """The runtime's with the same symbols."""
    return Text(words.symbols, words.symbols, path, words.unk(), ignored)


@pytest.mark.parametrize("rule", ["nmt_nfkc", "identity", None])
def test_ids_as_fairseq(pieces, rule):
    path = pieces / rule if rule else None
    words = dictionary(path)
    bpe = SentencepieceBPE(SimpleNamespace(sentencepiece_model=str(path), **SAMPLING)) if path else None
    own, unknown = text(words, path, []), 0
    for line in [*SENTENCES, *ODD]:
        encoded = bpe.encode(line.strip()) if bpe else line.strip()
        wanted = words.encode_line(encoded, append_eos=False, add_if_not_exist=False).tolist()
        assert own.ids(line) == wanted, repr(line)
        unknown += wanted.count(words.unk())
    assert unknown > 5


@pytest.mark.parametrize("rule", ["nmt_nfkc", None])
def test_text_as_fairseq(pieces, rule):
    path = pieces / rule if rule else None
    words = dictionary(path)
    bpe = SentencepieceBPE(SimpleNamespace(sentencepiece_model=str(path), **SAMPLING)) if path else None
    ignored = {words.bos(), words.eos(), words.pad(), words.index("<mask>")}
    own, rng = text(words, path, ignored), np.random.default_rng(3)
    for length in range(40):
        ids = rng.integers(0, len(words), length)
        wanted = words.string(torch.from_numpy(ids), extra_symbols_to_ignore=ignored)
        assert own.text(ids.tolist()) == (bpe.decode(wanted) if bpe else wanted)


def test_of_a_symbol_that_occurs_twice_the_last_counts():
    assert Text(["<unk>", "a", "b", "a"], ["<unk>"], None, 0, []).ids("a b c") == [3, 2, 0]


@pytest.mark.parametrize("rule", ["identity", None])
def test_half_of_a_surrogate_pair(pieces, rule):
    with pytest.raises(ModelError, match="half of a surrogate pair"):
        Text(["<unk>"], ["<unk>"], pieces / rule if rule else None, 0, []).ids("ein \ud83d Hund")
