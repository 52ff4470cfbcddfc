"""The characters that pieces cover, on text that normalisation changes; BERT's vocabulary and its fairseq dictionary."""

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
PARTS += ["\u200b", "\u00ad", "\u0007", "x\u0301", "İ", "Å", "ß", "ﷺ", "가", "\u1100\u1161", "…", "a", ","]
VOCABULARY = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat ##s caf ##e ##é 日 本 , R .".split()


def spans_of_random_texts(model):
    """Text, pieces and their spans, checked: every stretch of characters that has pieces is found again through them."""
    draw = random.Random(7)
    for text in ["".join(draw.choices(PARTS, k=draw.randint(1, 14))) for _ in range(300)]:
        pieces, spans = model.locate(text)
        assert pieces == next(model.encode([text]))
        assert spans == sorted(spans)
        places = [index for index, sign in enumerate(text) if not sign.isspace()]
        if spans and places:
            begin = draw.choice(places)
            end = draw.choice([place for place in places if place >= begin]) + 1
            touched = [span for span in spans if span[1] > begin and span[0] < end and span[0] < span[1]]
            if {begin, end - 1} <= {index for span in spans for index in range(*span)}:
                assert touched[0][0] <= begin and touched[-1][1] >= end
        yield text, pieces, spans


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nmt_nfkc_cf"])
def test_spans_of_sentencepiece_are_characters_of_the_text(tmp_path, rule):
    model = SentencePiece(train_model(tmp_path / "m", normalization_rule_name=rule))

    def plain(text):
        return model.model.normalize(text).replace(WORD_START, "")

    exact = 0
    for text, pieces, spans in spans_of_random_texts(model):
        for number, (piece, (begin, end)) in enumerate(zip(pieces, spans)):
            bare = piece.replace(WORD_START, "")
            if not bare:
                assert begin == end or "ﷺ" in text[begin:end]  # which becomes four words
                continue
            assert 0 <= begin < end <= len(text)
            near = spans[max(0, number - 1) : number] + spans[number + 1 : number + 2]
            if all(other[1] <= begin or other[0] >= end for other in near):
                assert plain(text[begin:end]) == bare
                exact += 1
            else:
                assert bare in plain(text[begin:end])
    assert exact > 1000


@pytest.mark.parametrize("lowercase", [False, True])
def test_spans_of_wordpiece_are_characters_of_the_text(tmp_path, lowercase):
    known = 0
    model = WordPiece(write(tmp_path / "vocab.txt", *VOCABULARY, "e", "x", "##x"), lowercase)
    for text, pieces, spans in spans_of_random_texts(model):
        for piece, (begin, end) in zip(pieces, spans):
            assert 0 <= begin < end <= len(text)
            if piece == "[UNK]":
                continue
            found = unicodedata.normalize("NFD", text[begin:end].lower()) if lowercase else text[begin:end]
            left_out = ("Cf", "Cc", "Mn") if lowercase else ("Cf", "Cc")
            assert "".join(c for c in found if unicodedata.category(c) not in left_out) == piece.removeprefix("##")
            known += 1
    assert known > 100


def test_spans_by_hand(nlu_model, tmp_path):
    model = SentencePiece(nlu_model[0])
    assert {span for span in model.locate("a ﷺ b")[1][1:-1] if span[0] == 2} == {(2, 2), (2, 3)}
    assert model.locate("") == model.locate(" \n") == ([], [])
    fallback = SentencePiece(train_model(tmp_path / "b", byte_fallback=True, vocab_size=340))
    pieces, spans = fallback.locate("a🙂🙂 z")
    assert [piece for piece, span in zip(pieces, spans) if span == (2, 3)] == ["<0xF0>", "<0x9F>", "<0x99>", "<0x82>"]
    assert spans[-1] == (4, 5)
    codes = tmp_path / "codes"
    codes.write_text("".join(format_codes([("c", "a"), ("t", "s</w>"), ("日", "本</w>")])), encoding="utf-8")
    pieces, spans = Codes(codes).locate("  cats\u2003日本 e\u0301@@ a")
    assert pieces == ["ca@@", "ts", "日本", "e@@", "\u0301@@", "@@@", "@", "a"]
    assert spans == [(2, 4), (4, 6), (7, 9), (10, 11), (11, 12), (12, 13), (13, 14), (15, 16)]


def test_wordpiece_by_hand(tmp_path):
    model = WordPiece(write(tmp_path / "vocab.txt", *VOCABULARY))
    unknown = ["[UNK]"] * 3
    assert list(model.encode(["The cats,R.", "", "cafés [SEP] 日本"])) == [
        ["[UNK]", "cat", "##s", ",", "R", "."], [], ["caf", "##é", "##s", *unknown, "日", "本"]
    ]  # fmt: skip
    assert model.locate("the Cats") == (["the", "[UNK]"], [(0, 3), (4, 8)])
    assert WordPiece(model.path, lowercase=True).locate("THÉ Cats")[0] == ["the", "cat", "##s"]
    assert model.dictionary_lines() == [f"{piece} 1\n" for piece in VOCABULARY[5:]]
    words = ["--wordpiece", "line 17", "'the'", "once"]
    assert_refused(words, wordpiece.read_vocabulary, write(tmp_path / "twice.txt", *VOCABULARY, "the"))
