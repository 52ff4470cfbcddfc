"""CSLS in blocks equals the formula, pair by pair."""

import pytest
import torch

from fairseq_plugins.ops.csls import Csls
from fairseq_plugins.ops.neighbours import unit_rows
from tests.reference import lexicon_loops as loops


def sides(first=13, second=9, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [unit_rows(torch.randn(n, 6, generator=generator, dtype=torch.float64)) for n in (first, second)]


def formula(x, y, neighbours):
    """CSLS of every pair as it is written, from both sides."""
    scores = torch.tensor(loops.csls(x.numpy(), y.numpy(), neighbours), dtype=torch.float64)
    return scores, scores.T


@pytest.mark.parametrize("block", [1, 4, 9, 100])
@pytest.mark.parametrize("neighbours", [1, 3, 9])
def test_scores_ranks_and_partners_equal_the_formula(block, neighbours, device):
    x, y = sides()
    near = Csls(x.to(device), y.to(device), neighbours, block)
    ranks = torch.arange(13) % 5, torch.arange(9) * 2
    chosen = near.partners(tuple(each.to(device) for each in ranks))
    for side, scores in enumerate(formula(x, y, neighbours)):
        expected = scores.sort(dim=1, descending=True)
        found = near.ranked(4)[side]
        assert found.places.tolist() == expected.indices[:, :4].tolist()
        torch.testing.assert_close(found.scores.cpu(), expected.values[:, :4], rtol=0, atol=1e-12)
        assert near.partners()[side].tolist() == expected.indices[:, 0].tolist()
        last = ranks[side].clamp(max=scores.size(1) - 1)[:, None]
        assert chosen[side].tolist() == expected.indices.gather(1, last)[:, 0].tolist()


def test_large_sides_with_many_chunks_equal_one_product():
    x, y = sides(700, 530, seed=2)
    cosines = x @ y.T
    scores = 2 * cosines - cosines.topk(10, 1).values.mean(1)[:, None] - cosines.topk(10, 0).values.mean(0)
    for block in (300, 1000):
        found = Csls(x, y, 10, block).ranked(3)
        assert torch.equal(found[0].places, scores.topk(3, 1).indices)
        torch.testing.assert_close(found[0].scores, scores.topk(3, 1).values)
        assert torch.equal(found[1].places, scores.T.topk(3, 1).indices)
    ranks = torch.arange(700).sort().values // 100, torch.zeros(530, dtype=torch.int64)
    chosen = scores.topk(8, 1).indices.gather(1, ranks[0][:, None])[:, 0]
    assert torch.equal(Csls(x, y, 10, 300).partners(ranks)[0], chosen)


def test_certainty():
    x, y = sides(seed=5)
    scores = formula(x, y, 3)
    best = [side.argmax(1) for side in scores]
    mutual = sum(int((best[1 - n][best[n]] == torch.arange(len(best[n]))).sum()) for n in (0, 1))
    gaps = [side.topk(2, 1).values.diff(dim=1).abs() for side in scores]
    cosines = x @ y.T
    found = Csls(x, y, 3).certainty()
    assert 0 < found.mutual < 1
    expected = (mutual / 22, float(torch.cat(gaps).mean()), float(cosines.amax(1).mean() + cosines.amax(0).mean()) / 2)
    assert found == pytest.approx(expected)
    assert Csls(x[:1], y[:1], 1).certainty().margin == 0
