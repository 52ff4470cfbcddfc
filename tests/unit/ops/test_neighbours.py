"""Nearest neighbours in blocks equal loops over all pairs."""

import pytest
import torch

from fairseq_plugins.ops import neighbours
from fairseq_plugins.ops.neighbours import best_matches


def sides(first=13, second=9, seed=1):
    """Vectors around a common direction, so that all cosines are positive; float64."""
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(count, 6, generator=generator, dtype=torch.float64) for count in (first, second))
    return x + 2.0, 3.0 * (y + 2.0)


def cosine(a, b):
    """Of two vectors."""
    return float(a @ b / (a.norm() * b.norm()))


def nearest_mean(one, others, count):
    """Mean cosine of a vector with its nearest ones."""
    return sum(sorted((cosine(one, other) for other in others), reverse=True)[:count]) / count


def all_scores(x, y, score, count):
    """Score of every pair, as written: cosine, over half of the two means."""
    result = []
    for a in x:
        row = []
        for b in y:
            value = cosine(a, b)
            if score == "margin":
                value /= nearest_mean(a, y, count) / 2 + nearest_mean(b, x, count) / 2
            row.append(value)
        result.append(row)
    return result


@pytest.mark.parametrize("block", [1, 4, 100])
@pytest.mark.parametrize(("score", "count"), [("cosine", 4), ("margin", 1), ("margin", 4), ("margin", 9)])
def test_best_partners_equal_a_loop_over_all_pairs(score, count, block, device):
    for seed in range(3):
        x, y = sides(seed=seed)
        expected = all_scores(x, y, score, count)
        found = best_matches(x.to(device), y.to(device), score, count, block)
        assert found.forward.tolist() == [row.index(max(row)) for row in expected]
        columns = [list(column) for column in zip(*expected)]
        assert found.backward.tolist() == [column.index(max(column)) for column in columns]
        assert found.forward_scores.tolist() == pytest.approx([max(row) for row in expected], rel=1e-12)
        assert found.backward_scores.tolist() == pytest.approx([max(column) for column in columns], rel=1e-12)


def test_a_hub_wins_by_cosine_and_not_by_margin():
    """The third target is a little nearer to each source than its own one, but it is near to both."""
    x = torch.tensor([[1.0, 0.0, 0.2], [0.0, 1.0, 0.2]])
    y = torch.tensor([[1.0, 0.0, 1.5], [0.0, 1.0, 1.5], [1.0, 1.0, 0.2]])
    assert best_matches(x, y, "cosine").forward.tolist() == [2, 2]
    assert best_matches(x, y, "margin", 2).forward.tolist() == [0, 1]


@pytest.mark.parametrize("block", [1, 2, 3, 10])
def test_of_equal_scores_the_first_stays_whatever_the_blocks(block):
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    y = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = best_matches(x, y, "cosine", block=block)
    assert found.forward.tolist() == [1, 1, 0]
    assert found.backward.tolist() == [2, 0, 0, 2]


def test_no_more_than_a_block_of_similarities_is_held(monkeypatch):
    shapes = []
    original = neighbours._blocks

    def watched(x, y, block):
        for here, there, similarity in original(x, y, block):
            shapes.append(tuple(similarity.shape))
            yield here, there, similarity

    monkeypatch.setattr(neighbours, "_blocks", watched)
    best_matches(*sides(50, 30), block=8)
    assert max(rows for rows, _ in shapes) == max(columns for _, columns in shapes) == 8
    assert sum(rows * columns for rows, columns in shapes) == 2 * 50 * 30, "two passes"


def test_half_precision_becomes_float32():
    x, y = sides()
    found = best_matches(x.half(), y.half(), "cosine")
    assert found.forward_scores.dtype == torch.float32
    assert found.forward.tolist() == best_matches(x.half().double(), y.half().double(), "cosine").forward.tolist()


def test_bad_input_is_refused():
    x, y = sides()
    cases = [
        ({"score": "dot"}, "--score must be one of cosine, margin; got 'dot'"),
        ({"neighbours": 10}, "--neighbours must lie in 1 to 9, the sentences of the smaller side; got 10"),
        ({"neighbours": 0}, "--neighbours must lie in 1 to 9"),
        ({"block": 0}, "block must be at least 1 sentence; got 0"),
    ]
    for options, message in cases:
        with pytest.raises(ValueError, match=message):
            best_matches(x, y, **options)
    with pytest.raises(ValueError, match="valid: --score cosine"):
        best_matches(torch.cat([x, -x]), y)
