"""CSLS in blocks equals the formula, pair by pair."""

import pytest
import torch

from fairseq_plugins.ops.csls import Csls
from fairseq_plugins.ops.neighbours import Similarities, Workspace, nearest_similarities, row_chunks, unit_rows
from tests.reference import lexicon_loops as loops


def sides(first=13, second=9, seed=1):
    """Rows of length 1, float64."""
    generator = torch.Generator().manual_seed(seed)
    x, y = (unit_rows(torch.randn(count, 6, generator=generator, dtype=torch.float64)) for count in (first, second))
    return x, y


@pytest.mark.parametrize("block", [1, 4, 9, 100])
@pytest.mark.parametrize("neighbours", [1, 3, 9])
def test_scores_and_ranks_equal_the_formula(block, neighbours, device):
    x, y = sides()
    expected = loops.csls(x.numpy(), y.numpy(), neighbours)
    forward, backward = Csls(x.to(device), y.to(device), neighbours, block).ranked(4)
    for side, rows in ((forward, expected), (backward, list(zip(*expected)))):
        assert side.places.tolist() == [loops.by_rank(row)[:4] for row in rows]
        assert side.scores.tolist() == [pytest.approx(sorted(row, reverse=True)[:4], abs=1e-12) for row in rows]


@pytest.mark.parametrize("block", [1, 4, 100])
def test_partners_are_the_best_or_those_of_the_rank(block):
    x, y = sides(seed=3)
    expected = loops.csls(x.numpy(), y.numpy(), 3)
    near = Csls(x, y, 3, block)
    forward, backward = near.partners()
    assert forward.tolist() == [loops.by_rank(row)[0] for row in expected]
    assert backward.tolist() == [loops.by_rank(row)[0] for row in zip(*expected)]
    ranks = torch.arange(13) % 5, torch.arange(9) * 2
    forward, backward = near.partners(ranks)
    assert forward.tolist() == [loops.by_rank(row)[rank] for row, rank in zip(expected, ranks[0].tolist())]
    last = [min(rank, 12) for rank in ranks[1].tolist()]
    assert backward.tolist() == [loops.by_rank(row)[rank] for row, rank in zip(zip(*expected), last)]


def test_large_sides_with_many_chunks_equal_one_product():
    generator = torch.Generator().manual_seed(2)
    x, y = (unit_rows(torch.randn(count, 5, generator=generator, dtype=torch.float64)) for count in (700, 530))
    cosines = x @ y.T
    near = cosines.topk(10, 1).values.mean(1)[:, None] + cosines.topk(10, 0).values.mean(0)
    expected = (2 * cosines - near).topk(3, 1)
    for block in (300, 1000):
        found = Csls(x, y, 10, block).ranked(3)
        assert torch.equal(found[0].places, expected.indices)
        torch.testing.assert_close(found[0].scores, expected.values)
        assert torch.equal(found[1].places, (2 * cosines - near).T.topk(3, 1).indices)
    ranks = torch.arange(700).sort().values // 100, torch.zeros(530, dtype=torch.int64)
    chosen = (2 * cosines - near).topk(8, 1).indices.gather(1, ranks[0][:, None])[:, 0]
    assert torch.equal(Csls(x, y, 10, 300).partners(ranks)[0], chosen)


def test_certainty():
    x, y = sides(seed=5)
    expected = loops.csls(x.numpy(), y.numpy(), 3)
    rows, columns = expected, list(zip(*expected))
    forward, backward = ([loops.by_rank(row)[0] for row in side] for side in (rows, columns))
    mutual = sum(backward[partner] == i for i, partner in enumerate(forward))
    mutual += sum(forward[partner] == j for j, partner in enumerate(backward))
    gaps = [sorted(row)[-1] - sorted(row)[-2] for side in (rows, columns) for row in side]
    nearest = [max(loops.cosine(a, b) for b in y.numpy()) for a in x.numpy()]
    back = [max(loops.cosine(a, b) for a in x.numpy()) for b in y.numpy()]
    found = Csls(x, y, 3).certainty()
    assert found.mutual == pytest.approx(mutual / 22)
    assert 0 < found.mutual < 1
    assert found.margin == pytest.approx(sum(gaps) / 22)
    assert found.objective == pytest.approx((sum(nearest) / 13 + sum(back) / 9) / 2)


def test_a_workspace_is_used_again_and_does_no_harm():
    workspace = Workspace()
    x, y = sides()
    first = Csls(x, y, 3, workspace=workspace).ranked(2)
    held = workspace.take("cosines", 13, 9, x)
    again = Csls(*sides(seed=7), 3, workspace=workspace).ranked(2)
    assert workspace.take("cosines", 13, 9, x) is held
    assert workspace.take("cosines", 13, 8, x) is not held
    alone = Csls(*sides(seed=7), 3).ranked(2)
    assert torch.equal(again[0].places, alone[0].places) and torch.equal(again[1].scores, alone[1].scores)
    assert not torch.equal(first[0].scores, again[0].scores)


@pytest.mark.parametrize("block", [4, 100])
def test_blocks_and_their_transposes(block):
    x, y = sides()
    seen = torch.zeros(13, 9, dtype=torch.float64)
    similarities = Similarities(x, y, block)
    for _ in range(2):  # as often as they are asked for
        for here, there, values, turned in similarities:
            assert torch.equal(values.T, turned)
            seen[here, there] += values
    torch.testing.assert_close(seen, 2 * x @ y.T)


def test_chunks_cover_the_rows_once():
    matrix = torch.arange(1200.0).view(600, 2)
    parts = list(row_chunks(matrix))
    assert torch.equal(torch.cat([part for _, part in parts]), matrix)
    assert [rows.start for rows, _ in parts] == [0, *(rows.stop for rows, _ in parts[:-1])]


def test_nearest_similarities_are_sorted_and_complete():
    x, y = sides()
    for block in (2, 100):
        rows, columns = nearest_similarities(Similarities(x, y, block), 4)
        torch.testing.assert_close(rows, (x @ y.T).topk(4, 1).values)
        torch.testing.assert_close(columns, (x @ y.T).T.topk(4, 1).values)


def test_bad_options_are_refused():
    x, y = sides()
    with pytest.raises(ValueError, match="--neighbours must be at least 1; got 0"):
        Csls(x, y, 0)
    with pytest.raises(ValueError, match="--top must be at least 1; got 0"):
        Csls(x, y).ranked(0)
    with pytest.raises(ValueError, match="--neighbours must lie in 1 to 9"):
        nearest_similarities(Similarities(x, y), 10)
