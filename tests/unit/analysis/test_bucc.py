"""BUCC: mining, the threshold of the development set, F1, and files that are refused."""

import pytest
import torch

from fairseq_plugins.analysis.bucc import Mined, best_threshold, mine, quality, read_gold, read_sentences
from fairseq_plugins.ops.neighbours import best_matches
from tests.unit.analysis.commands import written


def test_mining_equals_a_loop_over_all_candidates():
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(count, 5, generator=generator) + 1.0 for count in (12, 10))
    found = best_matches(x, y, "cosine")
    candidates = {(float(s), i, int(j)) for i, (j, s) in enumerate(zip(found.forward, found.forward_scores))}
    candidates |= {(float(s), int(i), j) for j, (i, s) in enumerate(zip(found.backward, found.backward_scores))}
    expected = []
    while candidates:
        _, i, j = max(candidates)
        expected.append((i, j))
        candidates = {one for one in candidates if one[1] != i and one[2] != j}
    assert [(one.first, one.second) for one in mine(found)] == expected
    assert len(expected) > 5


def f1_of(kept, gold):
    """Harmonic mean of precision and recall, as written."""
    right = len({(one.first, one.second) for one in kept} & gold)
    if not right:
        return 0.0
    precision, recall = right / len(kept), right / len(gold)
    return 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize("seed", range(6))
def test_the_threshold_is_as_good_as_any(seed):
    generator = torch.Generator().manual_seed(seed)
    scores = sorted((torch.randint(0, 8, (12,), generator=generator) / 8).tolist(), reverse=True)  # with equal ones
    mined = [Mined(score, number, number) for number, score in enumerate(scores)]
    gold = {(number, number) for number in range(0, 12, 2)} | {(20, 20)}
    threshold = best_threshold(mined, gold)
    every = [f1_of([one for one in mined if one.score >= limit], gold) for limit in sorted(set(scores))]
    assert quality(mined, gold, threshold).f1 == pytest.approx(max(every))


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([(0.9, True), (0.7, True), (0.3, False)], 0.5),  # halfway
        ([(0.9, True), (0.7, True)], 0.7),
        ([(0.9, True), (0.5, True), (0.5, False)], 0.5),  # 2 of 3 right: 0.8, more than 1 of 1: 2/3
        ([(0.9, True), (0.8, False), (0.7, False), (0.6, True)], 0.85),  # 1 of 1 is as good as 2 of 4: the highest
        ([(0.9, True), (0.5, True), (0.5, False), (0.5, False), (0.5, False)], 0.7),  # 0.5 would keep all five: 4/7
    ],
)
def test_the_threshold_lies_between_the_last_kept_and_the_first_left(scores, expected):
    mined = [Mined(score, number, number + (not right)) for number, (score, right) in enumerate(scores)]
    gold = {(number, number) for number, (_, right) in enumerate(scores) if right}
    assert best_threshold(mined, gold) == pytest.approx(expected)


def test_quality_by_hand():
    mined = [Mined(0.9, 0, 0), Mined(0.8, 1, 2), Mined(0.4, 2, 1), Mined(0.1, 3, 3)]
    gold = {(0, 0), (2, 1), (3, 3), (4, 4)}
    assert quality(mined, gold, 0.4) == pytest.approx((2 / 3, 2 / 4, 4 / 7))
    assert quality(mined, gold, 1.0) == (0.0, 0.0, 0.0)


def test_files(tmp_path):
    path = written(tmp_path / "x", "de-1\tEin Satz\twith a tab", "de-2\tZwei")
    assert read_sentences(path) == {"de-1": "Ein Satz\twith a tab", "de-2": "Zwei"}
    assert list(read_sentences(path, limit=1)) == ["de-1"]
    gold = written(tmp_path / "gold", "de-2\ten-7", "de-3\ten-7")
    assert read_gold(gold, ["de-1", "de-2"], ["en-9", "en-7"], cut=True) == {(1, 1)}
    for lines, read, message in (
        (["de-1\tA", "de-2 B"], read_sentences, "x, line 2: 'de-2 B'; valid: id<TAB>sentence"),
        (["de-1\tA", "de-1\tB"], read_sentences, "x, line 2: the id de-1 is there twice"),
        (["a\tx", "b"], lambda path: read_gold(path, ["a"], ["x"]), "line 2: 'b'; valid: id<TAB>id"),
        (["a\tx", "a\ty"], lambda path: read_gold(path, ["a"], ["x"]), "line 2: no sentence has the id y"),
        (["q\tq"], lambda path: read_gold(path, ["a"], ["x"], cut=True), "no pair of sentences"),
    ):
        with pytest.raises(ValueError, match=message):
            read(written(tmp_path / "x", *lines))
    with pytest.raises(ValueError, match="no candidate pairs"):
        best_threshold([], {(0, 0)})
