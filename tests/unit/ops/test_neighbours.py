"""Nearest neighbours in blocks equal loops over all pairs."""

import pytest
import torch

from fairseq_plugins.ops.neighbours import CHUNK, Workspace, best_matches, row_chunks
from tests.reference.lexicon_loops import cosine, crowding


def sides(first=13, second=9, seed=1):
    """Vectors around a common direction, so that all cosines are positive; float64."""
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(count, 6, generator=generator, dtype=torch.float64) for count in (first, second))
    return x + 2.0, 3.0 * (y + 2.0)


def all_scores(x, y, score, count):
    """Score of every pair, as written: cosine, over half of the two means."""
    x, y = x.numpy(), y.numpy()
    means = [[crowding(one, others, count) for one in own] for own, others in ((x, y), (y, x))]

    def one(i, j):
        return cosine(x[i], y[j]) / ((means[0][i] + means[1][j]) / 2 if score == "margin" else 1)

    scores = [[one(i, j) for j in range(len(y))] for i in range(len(x))]
    return torch.tensor(scores, dtype=torch.float64)


@pytest.mark.parametrize("block", [1, 4, 100])
@pytest.mark.parametrize(("score", "count"), [("cosine", 4), ("margin", 1), ("margin", 4), ("margin", 9)])
def test_best_partners_equal_a_loop_over_all_pairs(score, count, block, device):
    for seed in range(3):
        x, y = sides(seed=seed)
        expected = all_scores(x, y, score, count)
        found = best_matches(x.to(device), y.to(device), score, count, block)
        assert found.forward.tolist() == expected.argmax(1).tolist()
        assert found.backward.tolist() == expected.argmax(0).tolist()
        assert found.forward_scores.tolist() == pytest.approx(expected.amax(1).tolist(), rel=1e-12)
        assert found.backward_scores.tolist() == pytest.approx(expected.amax(0).tolist(), rel=1e-12)


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


def test_memory_is_used_again_and_rows_are_ranked_some_at_a_time():
    workspace, like = Workspace(), torch.zeros(1)
    held = workspace.take("one", 2, 3, like)
    assert workspace.take("one", 2, 3, like) is held and workspace.take("other", 2, 3, like) is not held
    assert [len(rows) for _, rows in row_chunks(torch.zeros(2 * CHUNK + 1, 1))] == [CHUNK, CHUNK, 1]


def test_bad_input_is_refused():
    x, y = sides()
    for options, message in (
        ({"neighbours": 10}, "--neighbours must lie in 1 to 9, the sentences of the smaller side; got 10"),
        ({"x": torch.cat([x, -x])}, "valid: --score cosine"),
    ):
        with pytest.raises(ValueError, match=message):
            best_matches(**{"x": x, "y": y, **options})
