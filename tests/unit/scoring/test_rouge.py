"""ROUGE equals rouge_score on ASCII text and a slow loop everywhere, in any script."""

import random

import pytest

from fairseq_plugins.scoring.rouge import KINDS, Rouge
from tests.reference.scoring_loops import ngram_f1, subsequence_f1

# Hypothesis, reference, and what rouge_score 0.1.2 (default tokenizer, no stemmer) says: (P, R, F1) of 1, 2, L in percent.
GOLDEN = [
    (
        "The quick brown dog jumps on the log.",
        "The quick brown fox jumps over the lazy dog",
        [(75.0, 66.666667, 70.588235), (28.571429, 25.0, 26.666667), (62.5, 55.555556, 58.823529)],
    ),
    (
        "do not stop; it is 3.5km",
        "Don't stop: it's 3.5 km, U_V-turn!",
        [(42.857143, 27.272727, 33.333333), (16.666667, 10.0, 12.5), (42.857143, 27.272727, 33.333333)],
    ),
    (
        "a b a b a a",
        "a a b b a",
        [(83.333333, 100.0, 90.909091), (60.0, 75.0, 66.666667), (66.666667, 80.0, 72.727273)],
    ),
]


def test_ascii_text_scores_as_in_rouge_score_and_a_corpus_as_the_mean():
    hypotheses, references, expected = zip(*GOLDEN)
    for index, kind in enumerate(KINDS):
        for hypothesis, reference, numbers in GOLDEN:
            score = Rouge(kind).corpus_score([hypothesis], [[reference]])
            assert (score.precision, score.recall, score.score) == pytest.approx(numbers[index], abs=1e-5)
        mean = sum(numbers[index][2] for numbers in expected) / len(GOLDEN)
        assert Rouge(kind).corpus_score(hypotheses, [references]).score == pytest.approx(mean, abs=1e-5)


@pytest.mark.parametrize("alphabet", ["abcd", "他在北京", ["हिन्दी", "में", "लिखा"], ["мир", "Café", "für"]])
def test_random_sentences_equal_the_slow_loops(alphabet):
    generator = random.Random(4)
    for _ in range(150):
        first, second = (generator.choices(alphabet, k=generator.randint(0, 7)) for _ in range(2))
        expected = [ngram_f1(first, second, 1), ngram_f1(first, second, 2), subsequence_f1(first, second)]
        for kind, numbers in zip(KINDS, expected):
            score = Rouge(kind).corpus_score([" ".join(first)], [[" ".join(second)]])
            assert (score.precision, score.recall, score.score) == pytest.approx([100 * n for n in numbers], abs=1e-9)


def test_words_case_signature_and_the_best_of_several_references():
    pair = ["他在北京"], [["他在南京"]]
    assert Rouge("1").corpus_score(*pair).score == pytest.approx(75)
    assert Rouge("1", tokens="word").corpus_score(*pair).score == 0
    assert Rouge("1").corpus_score(["Der Zug"], [["der Zug"]]).score == pytest.approx(100)
    assert Rouge("1", lower=False).corpus_score(["Der Zug"], [["der Zug"]]).score == pytest.approx(50)
    metric = Rouge("2", tokens="char", lower=False)
    score = metric.corpus_score(["ab", "ab"], [["ab", "ax"]])
    signature = str(metric.get_signature())
    assert signature.startswith("nrefs:1|case:mixed|tok:words-char|stem:none|agg:mean|version:fairseq_plugins-")
    assert score.format() == "ROUGE-2 = 50.00 (P = 50.00 R = 50.00)"
    metric = Rouge("L")
    assert metric.corpus_score(["a b"], [["x y"], ["a b c"]]).score == pytest.approx(80)
    assert "nrefs:2" in str(metric.get_signature())
