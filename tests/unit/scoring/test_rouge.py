"""Test ROUGE: rouge_score's numbers on ASCII text, and a slow loop in every script."""

import random

import pytest

from fairseq_plugins.scoring.rouge import KINDS, Rouge
from tests.reference.scoring_loops import ngram_f1, subsequence_f1

# Hypothesis, reference, and P, R, F1 (in percent) of ROUGE-1, -2, -L by rouge_score 0.1.2 with its
# default tokenizer and without stemmer.
GOLDEN = [
    (
        "The quick brown dog jumps on the log.",
        "The quick brown fox jumps over the lazy dog",
        [(75.0, 66.666667, 70.588235), (28.571429, 25.0, 26.666667), (62.5, 55.555556, 58.823529)],
    ),
    (
        "do not stop; it is 3.5km",
        "Don't stop: it's 3.5 km, U_V-turn!",
        [(42.857143, 27.272727, 33.333333), (16.666667, 10.0, 12.5)]
        + [(42.857143, 27.272727, 33.333333)],
    ),
    (
        "a b a b a a",
        "a a b b a",
        [(83.333333, 100.0, 90.909091), (60.0, 75.0, 66.666667), (66.666667, 80.0, 72.727273)],
    ),
]


def numbers(score):
    return score.precision, score.recall, score.score


@pytest.mark.parametrize("kind", KINDS)
def test_ascii_text_scores_as_in_rouge_score_and_a_corpus_as_the_mean(kind):
    hypotheses, references, rows = zip(*GOLDEN)
    expected = [row[KINDS.index(kind)] for row in rows]
    for hypothesis, reference, row in zip(hypotheses, references, expected):
        score = Rouge(kind).corpus_score([hypothesis], [[reference]])
        assert numbers(score) == pytest.approx(row, abs=1e-5)
    mean = sum(f1 for _, _, f1 in expected) / len(expected)
    score = Rouge(kind).corpus_score(hypotheses, [references])
    assert score.score == pytest.approx(mean, abs=1e-5)


@pytest.mark.parametrize(
    "alphabet", ["abcd", "他在北京", ["हिन्दी", "में", "लिखा"], ["мир", "Café", "für"]]
)
def test_random_sentences_equal_the_slow_loops(alphabet):
    draw = random.Random(4)
    for _ in range(150):
        first, second = (draw.choices(alphabet, k=draw.randint(0, 7)) for _ in range(2))
        pair = [" ".join(first)], [[" ".join(second)]]
        for kind, expected in (
            ("1", ngram_f1(first, second, 1)),
            ("2", ngram_f1(first, second, 2)),
            ("L", subsequence_f1(first, second)),
        ):
            score = Rouge(kind).corpus_score(*pair)
            percent = [100 * share for share in expected]
            assert numbers(score) == pytest.approx(percent, abs=1e-9)


def test_options_change_words_case_and_signature():
    for options, hypothesis, reference, expected in (
        ({}, "他在北京", "他在南京", 75),
        ({"tokens": "word"}, "他在北京", "他在南京", 0),
        ({}, "Der Zug", "der Zug", 100),
        ({"lower": False}, "Der Zug", "der Zug", 50),
    ):
        score = Rouge("1", **options).corpus_score([hypothesis], [[reference]])
        assert score.score == pytest.approx(expected)
    metric = Rouge("2", tokens="char", lower=False)
    score = metric.corpus_score(["ab", "ab"], [["ab", "ax"]])
    assert score.format() == "ROUGE-2 = 50.00 (P = 50.00 R = 50.00)"
    signature = str(metric.get_signature())
    assert signature.startswith("nrefs:1|case:mixed|tok:words-char|stem:none|agg:mean|version:")


def test_the_best_of_several_references_counts():
    metric = Rouge("L")
    assert metric.corpus_score(["a b"], [["x y"], ["a b c"]]).score == pytest.approx(80)
    assert "nrefs:2" in str(metric.get_signature())
