"""F1 and exact match of answers: edge cases of the official definitions, worked out by hand."""

import pytest

from fairseq_plugins.scoring.squad import answer_f1, answer_words, exact_match


@pytest.mark.cases(
    "text language words",
    ("The Cat, a dog AND an Owl!", None, ["cat", "dog", "and", "owl"]),
    ("a-b", None, ["ab"]),  # punctuation goes before articles, so "a" is no word here
    ("U.S.A.", None, ["usa"]),
    ("«the» cat", None, ["«", "»", "cat"]),  # an ASCII definition: the quotes stay, the article between them goes
    ("«the» cat", "en", ["cat"]),
    ("Der Hund des Königs, ein Ort", "de", ["hund", "königs", "ort"]),
    ("La casa y los perros; una", "es", ["casa", "y", "perros"]),
    ("những con mèo của tôi", "vi", ["con", "mèo", "tôi"]),
    ("القط، في البيت", "ar", ["قط", "في", "بيت"]),
    ("خالد", "ar", ["خ", "د"]),  # the official pattern takes it out of the middle of a word too
    ("一个 the 动物。", "hi", ["一个", "the", "动物"]),
    ("北京2008年奥运会, the games", "zh", ["北", "京", "2008", "年", "奥", "运", "会", "the", "games"]),
    ("the $5 + 3", "en", ["5", "3"]),  # ASCII symbols go in every language
    ("€5 + 3", "de", ["€5", "3"]),  # other symbols are no punctuation
)
def test_words(text, language, words):
    assert answer_words(text, language) == words


def test_f1_counts_words_as_often_as_both_have_them_against_the_best_answer():
    assert answer_f1("to to to be", ["to be or not to be"]) == pytest.approx(2 * 3 / (6 + 4))
    answers = ["cat", "black cat", "dog"]
    assert answer_f1("the black cat!", answers) == answer_f1("cat black", answers) == 1.0
    assert exact_match("the black cat!", answers) and not exact_match("cat black", answers)


def test_answers_without_words():
    assert answer_f1("the", ["a"]) == 0.0
    assert exact_match("the", ["a"])
    assert answer_f1("", ["cat"]) == 0.0
    assert not exact_match("", ["cat"])


def test_chinese_is_compared_by_character():
    assert answer_f1("北京", ["北京市"]) == 0.0
    assert answer_f1("北京", ["北京市"], "zh") == pytest.approx(2 * 2 / (2 + 3))
    assert exact_match("北京。", ["北 京"], "zh")
