"""Lexicons that find little, were turned round, or go into another language: how each is told, on words by hand."""

from typing import Dict, List

import pytest

from fairseq_plugins.data import csr_checks
from fairseq_plugins.data.csr_checks import diagnosis, is_backwards, share_found, share_translated

COUNTS = {"The": 9, "dog": 5, "in": 20, "house": 4, "sees": 3}
RIGHT: Dict[str, List[str]] = {
    "the": ["der"],
    "dog": ["hund"],
    "in": ["in"],
    "house": ["haus"],
    "sees": ["sieht"],
    "man": ["man"],
}
TURNED = {"der": ["the"], "hund": ["dog"], "in": ["in"], "haus": ["house"], "sieht": ["sees"], "man": ["man"]}


def test_shares_of_running_words() -> None:
    assert share_found(COUNTS, {"the", "in"}) == pytest.approx(29 / 41)
    assert share_found({}, {"the"}) == 0.0


def test_a_turned_lexicon_is_told_though_it_covers_frequent_words() -> None:
    assert share_found(COUNTS, set(TURNED)) > 0.4, "one word that both languages have"
    assert is_backwards(COUNTS, TURNED) and not is_backwards(COUNTS, RIGHT)
    large = {**RIGHT, **{f"word{number}": [f"wort{number}"] for number in range(90)}}
    assert not is_backwards(COUNTS, large), "a general dictionary of which the text has little"
    small = {"sees": ["in"], "house": ["haus"], "dog": ["hund"]}
    assert share_found(COUNTS, {"in", "haus", "hund"}) > share_found(COUNTS, set(small)) and not is_backwards(
        COUNTS, small
    )


def test_candidates_are_words_of_the_other_text(monkeypatch: pytest.MonkeyPatch) -> None:
    german = ["Der", "Hund", "in", "Haus"]
    assert share_translated(COUNTS, RIGHT, german) == 1.0, "five entries tell nothing"
    monkeypatch.setattr(csr_checks, "FEWEST_JUDGED", 5)
    assert share_translated(COUNTS, RIGHT, german) == pytest.approx(38 / 41), "sieht is missing"
    assert share_translated(COUNTS, RIGHT, ["chien", "dans"]) == 0.0
    assert share_translated(COUNTS, {**RIGHT, "sees": ["blickt", "Hund"]}, german) == 1.0, "any of the candidates"
    assert share_translated(COUNTS, {"dog": ["hund"]}, []) == 1.0


def test_a_lexicon_that_finds_little_is_explained() -> None:
    counts = {"Hund": 5, "katze": 4, "und": 9}
    assert "the opposite direction" in diagnosis(counts, {"dog": ["hund"], "cat": ["katze"], "and": ["und"]})
    assert "it has 77.8 %: lower-case its first column" in diagnosis(counts, {"HUND": ["dog"], "Und": ["and"]})
    text = diagnosis(counts, {"chien": ["dog"], "chat": ["cat"]})
    assert "most frequent words are und, Hund, katze, the lexicon's first chien, chat" in text
    assert "another language" in text
