"""Test words in any script: marks stay with letters, scripts without spaces go by character."""

import pytest

from fairseq_plugins.scoring.words import words


@pytest.mark.cases(
    "text expected",
    ("Don't stop: 3.5 km, U_V!", ["don", "t", "stop", "3", "5", "km", "u", "v"]),  # rouge_score
    ("Die Häuser, naïve Café.", ["die", "häuser", "naïve", "café"]),
    ("Привет, мир! Ёлка", ["привет", "мир", "ёлка"]),
    ("हिन्दी में लिखा।", ["हिन्दी", "में", "लिखा"]),
    ("می\u200cخواهم بروم؟", ["می\u200cخواهم", "بروم"]),
    ("他在北京2023年。", ["他", "在", "北", "京", "2023", "年"]),
    ("カレーを食べた", ["カ", "レ", "ー", "を", "食", "べ", "た"]),
    ("สวัสดี", ["ส", "วั", "ส", "ดี"]),
    ("서울에 갑니다", ["서울에", "갑니다"]),
    ("用GPU训练", ["用", "gpu", "训", "练"]),
    ("", []),
    (" -- ... 。", []),
)
def test_words_of_many_scripts(text, expected):
    assert words(text) == expected


def test_options_set_kind_and_case():
    assert words("Zug 北京", "word") == ["zug", "北京"]
    assert words("Zug ดี", "char") == ["z", "u", "g", "ดี"]
    assert words("北京ABC", "word") == ["北京abc"]
    assert words("Der Zug", lower=False) == ["Der", "Zug"]
    assert words("Cafe\u0301") == words("Caf\u00e9") == ["caf\u00e9"], "both spellings of an accent"
