"""BUCC: mining, the threshold of the development set, F1, and files that are refused."""

from pathlib import Path
from typing import List, Set, Tuple

import pytest
import torch

from fairseq_plugins.analysis.bucc import (
    Mined,
    best_threshold,
    mine,
    quality,
    read_gold,
    read_sentences,
)
from fairseq_plugins.ops.neighbours import Matches, best_matches


def matches(forward: List[Tuple[int, float]], backward: List[Tuple[int, float]]) -> Matches:
    """Best partners with their scores."""
    columns = [torch.tensor(column) for column in (*zip(*forward), *zip(*backward))]
    return Matches(*columns)


def test_mining_is_one_to_one_from_the_best_score_down() -> None:
    """Sources 0 and 1 both want target 0; source 1 loses, and gets target 1, which wants it."""
    found = mine(matches([(0, 0.9), (0, 0.8), (2, 0.3)], [(0, 0.9), (1, 0.5), (2, 0.3)]))
    assert [(one.first, one.second) for one in found] == [(0, 0), (1, 1), (2, 2)]
    assert [one.score for one in found] == pytest.approx([0.9, 0.5, 0.3])


def test_both_directions_give_candidates() -> None:
    """Target 1 is wanted by no source, but wants source 1."""
    forward_only = mine(matches([(0, 0.9), (0, 0.8)], [(0, 0.9), (0, 0.1)]))
    assert [(one.first, one.second) for one in forward_only] == [(0, 0)]
    found = mine(matches([(0, 0.9), (0, 0.8)], [(0, 0.9), (1, 0.1)]))
    assert [(one.first, one.second) for one in found] == [(0, 0), (1, 1)]


def test_mining_equals_a_loop_over_all_candidates() -> None:
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


def f1_of(kept: List[Mined], gold: Set[Tuple[int, int]]) -> float:
    """Harmonic mean of precision and recall, as written."""
    right = len({(one.first, one.second) for one in kept} & gold)
    if not right:
        return 0.0
    precision, recall = right / len(kept), right / len(gold)
    return 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize("seed", range(6))
def test_the_threshold_is_as_good_as_any(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = sorted((torch.randint(0, 8, (12,), generator=generator) / 8).tolist(), reverse=True)  # with equal ones
    mined = [Mined(score, number, number) for number, score in enumerate(scores)]
    gold = {(number, number) for number in range(0, 12, 2)} | {(20, 20)}
    threshold = best_threshold(mined, gold)
    every = [f1_of([one for one in mined if one.score >= limit], gold) for limit in sorted(set(scores))]
    assert quality(mined, gold, threshold).f1 == pytest.approx(max(every))


def test_the_threshold_lies_between_the_last_kept_and_the_first_left() -> None:
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


def test_quality_by_hand() -> None:
    mined = [Mined(0.9, 0, 0), Mined(0.8, 1, 2), Mined(0.4, 2, 1), Mined(0.1, 3, 3)]
    gold = {(0, 0), (2, 1), (3, 3), (4, 4)}
    found = quality(mined, gold, 0.4)
    assert found == pytest.approx((2 / 3, 2 / 4, 4 / 7))
    assert quality(mined, gold, 1.0) == (0.0, 0.0, 0.0)
    assert quality(mined, gold, 0.0).precision == 3 / 4


def test_files(tmp_path: Path) -> None:
    sentences, gold = tmp_path / "x.de", tmp_path / "x.gold"
    sentences.write_text("de-1\tEin Satz\twith a tab\nde-2\tZwei\n", encoding="utf-8")
    assert read_sentences(str(sentences)) == {"de-1": "Ein Satz\twith a tab", "de-2": "Zwei"}
    assert list(read_sentences(str(sentences), limit=1)) == ["de-1"]
    gold.write_text("de-2\ten-7\n", encoding="utf-8")
    assert read_gold(str(gold), ["de-1", "de-2"], ["en-9", "en-7"]) == {(1, 1)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("de-1\tA\nde-2 B\n", r"x, line 2: 'de-2 B'; valid: id<TAB>sentence"),
        ("de-1\tA\nde-1\tB\n", "x, line 2: the id de-1 is there twice"),
    ],
)
def test_bad_sentences(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_sentences(str(tmp_path / "x"))


def test_bad_gold(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    for text, message in (
        ("a\tx\nb\n", "line 2: 'b'; valid: id<TAB>id"),
        ("a\tx\na\ty\n", "line 2: no sentence has the id y"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            read_gold(str(path), ["a"], ["x"])
    assert read_gold(str(path), ["a"], ["x"], cut=True) == {(0, 0)}
    path.write_text("q\tq\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no pair of sentences"):
        read_gold(str(path), ["a"], ["x"], cut=True)
    with pytest.raises(ValueError, match="no candidate pairs"):
        best_threshold([], {(0, 0)})


def test_every_pair_is_mined_where_sentences_are_their_own_translations() -> None:
    x = torch.eye(6) + 0.1
    found = mine(best_matches(x, x.flip(0), "margin", 4))
    assert {(one.first, one.second) for one in found} == {(number, 5 - number) for number in range(6)}
