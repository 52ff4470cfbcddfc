"""Test METEOR: scores by hand, the alignment against a search over all alignments, the beam."""

import random

import pytest

from fairseq_plugins.scoring.chunks import align
from fairseq_plugins.scoring.meteor import Meteor
from tests.reference.scoring_loops import fewest_chunks


def score_sentence(hypothesis, reference, **options):
    return Meteor(**options).corpus_score([hypothesis], [[reference]]).score


PRESIDENT = "the president spoke to the audience", "the president then spoke to the audience"


@pytest.mark.cases(
    "hypothesis reference expected",
    # m = 6, ch = 2, P = 1, R = 6/7: Fmean = 10 P R / (R + 9 P) = 60/69, penalty = 0.5 (2/6)^3
    (*PRESIDENT, 60 / 69 * 53 / 54),
    # the cat | sat | on the mat: m = 6, ch = 3
    ("the cat sat on the mat", "on the mat sat the cat", 1 - 0.5 / 8),
    ("one two three four", "one two three four", 1 - 0.5 / 64),  # nltk 3.10: 0.9921875
    ("a", "a", 0.5),  # the formula, not a special case
    ("a b", "c d", 0.0),
    ("", "a b", 0.0),
    ("a b", "", 0.0),
    ("他在北京", "他在北京。", 1 - 0.5 / 64),
    ("МИР и дом", "мир и дом", 1 - 0.5 / 27),
)
def test_hand_computed_scores(hypothesis, reference, expected):
    assert score_sentence(hypothesis, reference) == pytest.approx(100 * expected)


def test_the_corpus_score_is_that_of_summed_statistics():
    """The sums are m = 3 + 0 + 2, ch = 1 + 0 + 2, h = 6, r = 7."""
    score = Meteor().corpus_score(["a b c", "x", "a c"], [["a b c d", "y", "c a"]])
    precision, recall = 5 / 6, 5 / 7
    f_mean = precision * recall / (0.9 * precision + 0.1 * recall)
    assert score.score == pytest.approx(100 * f_mean * (1 - 0.5 * (3 / 5) ** 3))
    assert (score.precision, score.recall) == pytest.approx((100 * precision, 100 * recall))


def test_stems_match_by_prefix():
    pair = "die Häuser brannten", "ein Haus brannte"
    # brannten ~ brannte: m = 1, ch = 1, P = R = 1/3
    for prefix, expected in ((None, 0), (5, 100 / 6), (6, 100 / 6), (8, 0)):
        assert score_sentence(*pair, prefix=prefix) == pytest.approx(expected)
    # One chunk, not two.
    assert score_sentence("cat cats", "cats cat", prefix=3) == pytest.approx(100 * (1 - 0.5 / 8))


@pytest.mark.parametrize(("letters", "longest"), [("ab", 5), ("abcd", 6), ("abcdefgh", 8)])
def test_the_alignment_has_the_fewest_chunks_of_all(letters, longest):
    draw = random.Random(7)
    for _ in range(200):
        first, second = (draw.choices(letters, k=draw.randint(0, longest)) for _ in range(2))
        alignment = align(first, second, beam=1000)
        expected = fewest_chunks(first, second)
        assert (alignment.matches, alignment.chunks) == expected, (first, second)
        assert alignment.exact


def test_the_beam_keeps_all_matches_and_tells_that_it_pruned():
    draw = random.Random(8)
    first, second = (draw.choices("abcdefghij", k=40) for _ in range(2))
    wide, narrow = align(first, second, beam=5000), align(first, second, beam=1)
    matches = sum(min(first.count(word), second.count(word)) for word in set(first))
    assert narrow.matches == wide.matches == matches
    assert wide.chunks < narrow.chunks
    assert not narrow.exact and align(["a"], ["a"], beam=1).exact
    assert align(first, second, beam=100).chunks <= wide.chunks + 1, "it keeps the best"
    repeated = align(["ein", "hund"] * 200, "ein mann und ein hund".split(), beam=100)
    assert repeated == (3, 2, True), "quick and exact"


def test_bad_parameters_are_refused():
    for name, value in {"alpha": 1.5, "gamma": -0.1, "beta": float("nan"), "prefix": 0}.items():
        with pytest.raises(ValueError, match=f"--meteor-{name} {value}"):
            Meteor(**{name: value})
