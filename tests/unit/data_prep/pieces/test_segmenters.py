"""Test the characters that pieces cover, and BERT's vocabulary with its fairseq dictionary."""

import random
import unicodedata

import pytest

from data_prep.pieces.codes import format_codes
from data_prep.pieces.segmenters import WORD_START, Codes, SentencePiece
from data_prep.understanding import wordpiece
from data_prep.understanding.wordpiece import WordPiece
from tests.nlu_bins import train_model, write
from tests.unit.data_prep.files import assert_refused

PARTS = [*"the|ﬁ|cat| |  |\u3000|\n|１２|cafe\u0301|e\u0301|日本|語|½|㌔|ｶﾞ|🙂|é".split("|")]
PARTS += ["\u200b", "\u00ad", "\u0007", "x\u0301", "İ", "Å", "ß", "ﷺ", "가", "\u1100\u1161"]
PARTS += ["…", "a", ","]
VOCABULARY = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat ##s caf ##e ##é 日 本 , R .".split()


def locate_random_texts(model):
    """Yield texts, pieces and spans; assert that spans lead from characters to their pieces."""
    draw = random.Random(7)
    for text in ["".join(draw.choices(PARTS, k=draw.randint(1, 14))) for _ in range(300)]:
        pieces, spans = model.locate(text)
        assert pieces == next(model.encode([text]))
        assert spans == sorted(spans)
        letters = [index for index, sign in enumerate(text) if not sign.isspace()]
        if spans and letters:
            start = draw.choice(letters)
            end = draw.choice([index for index in letters if index >= start]) + 1
            nonempty = [span for span in spans if span[0] < span[1]]
            overlap = [span for span in nonempty if span[1] > start and span[0] < end]
            if {start, end - 1} <= {index for span in spans for index in range(*span)}:
                assert overlap[0][0] <= start and overlap[-1][1] >= end
        yield text, pieces, spans


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nmt_nfkc_cf"])
def test_spans_of_sentencepiece_are_characters_of_the_text(tmp_path, rule):
    model = SentencePiece(train_model(tmp_path / "m", normalization_rule_name=rule))

    def normalize(text):
        return model.model.normalize(text).replace(WORD_START, "")

    exact = 0
    for text, pieces, spans in locate_random_texts(model):
        for number, (piece, (start, end)) in enumerate(zip(pieces, spans)):
            letters = piece.replace(WORD_START, "")
            if not letters:
                assert start == end or "ﷺ" in text[start:end]  # which becomes four words
                continue
            assert 0 <= start < end <= len(text)
            neighbours = spans[max(0, number - 1) : number] + spans[number + 1 : number + 2]
            if all(span[1] <= start or span[0] >= end for span in neighbours):
                assert normalize(text[start:end]) == letters
                exact += 1
            else:
                assert letters in normalize(text[start:end])
    assert exact > 1000


@pytest.mark.parametrize("lowercase", [False, True])
def test_spans_of_wordpiece_are_characters_of_the_text(tmp_path, lowercase):
    model = WordPiece(write(tmp_path / "vocab.txt", *VOCABULARY, "e", "x", "##x"), lowercase)
    removed = ("Cf", "Cc", "Mn") if lowercase else ("Cf", "Cc")
    compared = 0
    for text, pieces, spans in locate_random_texts(model):
        for piece, (start, end) in zip(pieces, spans):
            assert 0 <= start < end <= len(text)
            if piece == "[UNK]":
                continue
            characters = text[start:end]
            if lowercase:
                characters = unicodedata.normalize("NFD", characters.lower())
            letters = [c for c in characters if unicodedata.category(c) not in removed]
            assert "".join(letters) == piece.removeprefix("##")
            compared += 1
    assert compared > 100


def test_spans_by_hand(nlu_model, tmp_path):
    model = SentencePiece(nlu_model[0])
    assert {span for span in model.locate("a ﷺ b")[1][1:-1] if span[0] == 2} == {(2, 2), (2, 3)}
    assert model.locate("") == model.locate(" \n") == ([], [])
    fallback = SentencePiece(train_model(tmp_path / "b", byte_fallback=True, vocab_size=340))
    pieces, spans = fallback.locate("a🙂🙂 z")
    second_sign = [piece for piece, span in zip(pieces, spans) if span == (2, 3)]
    assert second_sign == ["<0xF0>", "<0x9F>", "<0x99>", "<0x82>"]
    assert spans[-1] == (4, 5)
    codes, merges = tmp_path / "codes", [("c", "a"), ("t", "s</w>"), ("日", "本</w>")]
    codes.write_text("".join(format_codes(merges)), encoding="utf-8")
    pieces, spans = Codes(codes).locate("  cats\u2003日本 e\u0301@@ a")
    assert pieces == ["ca@@", "ts", "日本", "e@@", "\u0301@@", "@@@", "@", "a"]
    assert spans == [(2, 4), (4, 6), (7, 9), (10, 11), (11, 12), (12, 13), (13, 14), (15, 16)]


def test_wordpiece_by_hand(tmp_path):
    model = WordPiece(write(tmp_path / "vocab.txt", *VOCABULARY))
    assert list(model.encode(["The cats,R.", "", "cafés [SEP] 日本"])) == [
        ["[UNK]", "cat", "##s", ",", "R", "."],
        [],
        ["caf", "##é", "##s", "[UNK]", "[UNK]", "[UNK]", "日", "本"],
    ]
    assert model.locate("the Cats") == (["the", "[UNK]"], [(0, 3), (4, 8)])
    lowercase = WordPiece(model.path, lowercase=True)
    assert lowercase.locate("THÉ Cats")[0] == ["the", "cat", "##s"]
    assert model.dictionary_lines() == [f"{piece} 1\n" for piece in VOCABULARY[5:]]
    twice = write(tmp_path / "twice.txt", *VOCABULARY, "the")
    words = ["--wordpiece", "line 17", "'the'"]
    assert_refused(words, wordpiece.read_vocabulary, twice)
