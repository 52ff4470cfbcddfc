"""Test nearest neighbours in blocks against loops over all pairs."""

import pytest
import torch

from fairseq_plugins.ops.neighbours import best_matches
from tests.reference.lexicon_loops import cosine, crowding


def draw_sides(seed=1):
    """Draw float64 vectors around a common direction, so that all cosines are positive."""
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(count, 6, generator=generator, dtype=torch.float64) for count in (13, 9))
    return x + 2.0, 3.0 * (y + 2.0)


def score_all_pairs(x, y, score, count):
    """Score every pair by its cosine or, for the margin, by cosine over half of the two means."""
    x, y = x.numpy(), y.numpy()
    x_means = [crowding(vector, y, count) for vector in x]
    y_means = [crowding(vector, x, count) for vector in y]
    scores = torch.zeros(len(x), len(y), dtype=torch.float64)
    for i in range(len(x)):
        for j in range(len(y)):
            divisor = (x_means[i] + y_means[j]) / 2 if score == "margin" else 1
            scores[i, j] = cosine(x[i], y[j]) / divisor
    return scores


@pytest.mark.parametrize("block", [1, 4, 100])
@pytest.mark.cases("score count", ("cosine", 4), ("margin", 1), ("margin", 4), ("margin", 9))
def test_best_partners_equal_a_loop_over_all_pairs(score, count, block, device):
    for seed in range(3):
        x, y = draw_sides(seed)
        expected = score_all_pairs(x, y, score, count)
        matches = best_matches(x.to(device), y.to(device), score, count, block)
        assert matches.forward.tolist() == expected.argmax(1).tolist()
        assert matches.backward.tolist() == expected.argmax(0).tolist()
        for scores, dim in ((matches.forward_scores, 1), (matches.backward_scores, 0)):
            assert scores.tolist() == pytest.approx(expected.amax(dim).tolist(), rel=1e-12)


@pytest.mark.parametrize("block", [1, 2, 3, 10])
def test_the_first_of_equal_partners_is_the_best_in_any_blocks(block):
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    y = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    matches = best_matches(x, y, "cosine", block=block)
    assert matches.forward.tolist() == [1, 1, 0]
    assert matches.backward.tolist() == [2, 0, 0, 2]


def test_bad_input_is_refused():
    x, y = draw_sides()
    for options, message in (
        ({"neighbours": 10}, "--neighbours must lie in 1 to 9, .*; got 10"),
        ({"x": torch.cat([x, -x])}, "--score margin: .*; valid: --score cosine"),
    ):
        with pytest.raises(ValueError, match=message):
            best_matches(**{"x": x, "y": y, **options})
