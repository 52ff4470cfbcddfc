"""BUCC: mining, the threshold of the development set, F1, and files that are refused."""

from functools import partial
from typing import List, Tuple

import pytest
import torch

from fairseq_plugins.analysis.bucc import Mined, best_threshold, mine, quality, read_gold, read_sentences
from fairseq_plugins.ops.neighbours import best_matches


def test_mining_equals_a_loop_over_all_candidates():
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(count, 5, generator=generator) + 1.0 for count in (12, 10))
    found = best_matches(x, y, "cosine")
    candidates = {(float(s), i, int(j)) for i, (j, s) in enumerate(zip(found.forward, found.forward_scores))}
    candidates |= {(float(s), int(i), j) for j, (i, s) in enumerate(zip(found.backward, found.backward_scores))}
    expected: List[Tuple[int, int]] = []
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


def test_the_threshold_lies_between_the_last_kept_and_the_first_left():
    mined = [Mined(0.9, 0, 0), Mined(0.7, 1, 1), Mined(0.3, 2, 5), Mined(0.2, 3, 6)]
    assert best_threshold(mined, {(0, 0), (1, 1)}) == pytest.approx(0.5)
    assert best_threshold(mined[:2], {(0, 0), (1, 1)}) == pytest.approx(0.7)
    equal = [Mined(0.9, 0, 0), Mined(0.5, 1, 1), Mined(0.5, 2, 5)]
    assert best_threshold(equal, {(0, 0), (1, 1)}) == 0.5, "2 of 3 right: 0.8, more than 1 of 1: 2/3"
    alike = [Mined(0.9, 0, 0), Mined(0.8, 2, 5), Mined(0.7, 3, 6), Mined(0.6, 1, 1)]
    assert best_threshold(alike, {(0, 0), (1, 1)}) == pytest.approx(0.85), "1 of 1 is as good as 2 of 4: the highest"
    more = [*equal, Mined(0.5, 3, 6), Mined(0.5, 4, 7)]
    assert best_threshold(more, {(0, 0), (1, 1)}) == 0.7, (
        "0.5 would keep all five: 4/7; the first two alone cannot be kept"
    )


def test_quality_by_hand():
    mined = [Mined(0.9, 0, 0), Mined(0.8, 1, 2), Mined(0.4, 2, 1), Mined(0.1, 3, 3)]
    gold = {(0, 0), (2, 1), (3, 3), (4, 4)}
    found = quality(mined, gold, 0.4)
    assert found == pytest.approx((2 / 3, 2 / 4, 4 / 7))
    assert quality(mined, gold, 1.0) == (0.0, 0.0, 0.0)
    assert quality(mined, gold, 0.0).precision == 3 / 4


def test_files(tmp_path):
    sentences, gold = tmp_path / "x.de", tmp_path / "x.gold"
    sentences.write_text("de-1\tEin Satz\twith a tab\nde-2\tZwei\n", encoding="utf-8")
    assert read_sentences(str(sentences)) == {"de-1": "Ein Satz\twith a tab", "de-2": "Zwei"}
    assert list(read_sentences(str(sentences), limit=1)) == ["de-1"]
    gold.write_text("de-2\ten-7\n", encoding="utf-8")
    assert read_gold(str(gold), ["de-1", "de-2"], ["en-9", "en-7"]) == {(1, 1)}


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("sentences", "de-1\tA\nde-2 B\n", "x, line 2: 'de-2 B'; valid: id<TAB>sentence"),
        ("sentences", "de-1\tA\nde-1\tB\n", "x, line 2: the id de-1 is there twice"),
        ("gold", "a\tx\nb\n", "line 2: 'b'; valid: id<TAB>id"),
        ("gold", "a\tx\na\ty\n", "line 2: no sentence has the id y"),
        ("cut gold", "q\tq\n", "no pair of sentences"),
    ],
)
def test_files_that_are_refused(tmp_path, kind, text, message):
    path = tmp_path / "x"
    path.write_text(text, encoding="utf-8")
    read = (
        read_sentences if kind == "sentences" else partial(read_gold, first=["a"], second=["x"], cut=kind == "cut gold")
    )
    with pytest.raises(ValueError, match=message):
        read(str(path))


def test_nothing_mined_and_pairs_beyond_the_limit(tmp_path):
    (tmp_path / "gold").write_text("a\tx\na\ty\n", encoding="utf-8")
    assert read_gold(str(tmp_path / "gold"), ["a"], ["x"], cut=True) == {(0, 0)}
    with pytest.raises(ValueError, match="no candidate pairs"):
        best_threshold([], {(0, 0)})
