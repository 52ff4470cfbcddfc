"""Test CSLS in blocks against the formula, pair by pair."""

import pytest
import torch

from fairseq_plugins.ops.csls import Csls
from fairseq_plugins.ops.neighbours import Workspace, unit_rows
from tests.reference import lexicon_loops as loops


def draw_sides(first=13, second=9, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [
        unit_rows(torch.randn(count, 6, generator=generator, dtype=torch.float64))
        for count in (first, second)
    ]


def csls_of_all_pairs(x, y, neighbours):
    """Compute CSLS of every pair as it is written, from both sides."""
    scores = torch.tensor(loops.csls(x.numpy(), y.numpy(), neighbours), dtype=torch.float64)
    return scores, scores.T


@pytest.mark.parametrize("block", [1, 4, 100])
@pytest.mark.parametrize("neighbours", [1, 3, 9])
def test_scores_ranks_and_partners_equal_the_formula(block, neighbours, device):
    x, y = draw_sides()
    csls = Csls(x.to(device), y.to(device), neighbours, block)
    ranks = torch.arange(13) % 5, torch.arange(9) * 2
    ranked_partners = csls.partners(tuple(side.to(device) for side in ranks))
    for side, scores in enumerate(csls_of_all_pairs(x, y, neighbours)):
        expected = scores.sort(dim=1, descending=True)
        best = csls.ranked(4)[side]
        assert best.places.tolist() == expected.indices[:, :4].tolist()
        torch.testing.assert_close(best.scores.cpu(), expected.values[:, :4], rtol=0, atol=1e-12)
        assert csls.partners()[side].tolist() == expected.indices[:, 0].tolist()
        last = ranks[side].clamp(max=scores.size(1) - 1)[:, None]
        partners = expected.indices.gather(1, last)[:, 0]
        assert ranked_partners[side].tolist() == partners.tolist()


def test_large_sides_with_many_chunks_equal_one_product():
    x, y = draw_sides(700, 530, seed=2)
    cosines = x @ y.T
    crowding = cosines.topk(10, 1).values.mean(1)[:, None] + cosines.topk(10, 0).values.mean(0)
    scores = 2 * cosines - crowding
    for block in (300, 1000):
        for best, expected in zip(Csls(x, y, 10, block).ranked(3), (scores, scores.T)):
            assert torch.equal(best.places, expected.topk(3, 1).indices)
            torch.testing.assert_close(best.scores, expected.topk(3, 1).values)
    ranks = torch.arange(700).sort().values // 100, torch.zeros(530, dtype=torch.int64)
    partners = scores.topk(8, 1).indices.gather(1, ranks[0][:, None])[:, 0]
    assert torch.equal(Csls(x, y, 10, 300).partners(ranks)[0], partners)


def test_a_workspace_serves_sides_of_different_sizes():
    (x, y), workspace = draw_sides(), Workspace()
    for first in (x, x[:7]):
        csls = Csls(first, y, 3, workspace=workspace)
        assert torch.equal(csls.partners()[0], Csls(first, y, 3).partners()[0])


def test_certainty_counts_mutual_partners_and_means_margins_and_cosines():
    x, y = draw_sides(seed=5)
    scores, cosines = csls_of_all_pairs(x, y, 3), x @ y.T
    best = [side.argmax(1) for side in scores]
    mutual = 0
    for side in (0, 1):
        back = best[1 - side][best[side]]
        mutual += int((back == torch.arange(len(back))).sum())
    margin = torch.cat([side.topk(2, 1).values.diff(dim=1).abs() for side in scores]).mean()
    objective = float(cosines.amax(1).mean() + cosines.amax(0).mean()) / 2
    certainty = Csls(x, y, 3).certainty()
    assert 0 < certainty.mutual < 1
    assert certainty == pytest.approx((mutual / 22, float(margin), objective))
    assert Csls(x[:1], y[:1], 1).certainty().margin == 0
