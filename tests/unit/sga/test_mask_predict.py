"""Masks of training and of mask-predict: how many, which, and never in padding."""

import functools

import pytest
import torch

from fairseq_plugins.sga import mask_predict as ops


def test_number_and_choice_of_the_masked_tokens_are_uniform(device):
    """Shares of 6,000 draws within 3.5 standard deviations."""
    masks = ops.draw_masks(torch.full((6000,), 6, device=device), 9)
    shares = torch.bincount(masks.sum(dim=1), minlength=8).float() / 6000
    assert shares[0] == shares[7] == 0
    assert bool(((shares[1:7] - 1 / 6).abs() < 0.017).all()), shares
    for count in (1, 3):
        chosen = masks[masks.sum(dim=1) == count, :6].float().mean(dim=0)
        assert bool(((chosen - count / 6).abs() < 0.06).all()), (count, chosen)


BY_RATIO = functools.partial(ops.draw_masks_by_ratio, least=0.2)


@pytest.mark.parametrize(("draw", "fewest"), [(ops.draw_masks, 1), (BY_RATIO, 0)])
def test_each_row_has_its_own_length_and_padding_is_never_masked(draw, fewest, device):
    lengths = torch.tensor([4, 1, 0, 7], device=device)
    inside = torch.arange(9, device=device) < lengths[:, None]
    draws = torch.stack([draw(lengths, 9) for _ in range(200)])
    assert not bool((draws & ~inside).any())
    counts = draws.sum(dim=2)
    assert counts.amax(0).tolist() == [4, 1, 0, 7]
    assert counts.amin(0).tolist() == [fewest, fewest, 0, fewest]
    assert not torch.equal(draws[0], draws[1])
    torch.manual_seed(1)
    assert torch.equal(draw(lengths, 9), draws[0]), "the seed of the update decides"


def test_lowest_scores_by_hand(device):
    scores = torch.tensor(
        [[-1.0, -3.0, -2.0, -9.0], [-1.0, -1.0, -1.0, -1.0], [-5.0, 0.0, 0.0, 0.0]], device=device
    )
    chosen = ops.lowest_scores(
        scores, torch.tensor([2, 2, 0], device=device), torch.tensor([3, 4, 1], device=device)
    )
    assert chosen.int().tolist() == [[0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]


@pytest.mark.cases(
    "length counts",
    (8, [8, 6, 4, 2]),
    (5, [5, 3, 2, 1]),
    (3, [3, 2, 2, 2, 1, 1, 1, 0, 0, 0]),
    (7, [7]),
)
def test_the_schedule_decays_linearly(length, counts):
    """CMLM: n = N (T - t) / T, rounded down."""
    iterations, lengths = len(counts), torch.tensor([length])
    assert [
        ops.masked_counts(lengths, step, iterations).item() for step in range(iterations)
    ] == counts


def test_likely_lengths_best_first_and_the_shorter_of_equal_ones(device):
    log_probs = torch.tensor([[-3.0, -1.0, -2.0, -1.0], [-2.0, -2.0, -2.0, -2.0]], device=device)
    assert ops.likely_lengths(log_probs, 3).tolist() == [[2, 4, 3], [1, 2, 3]]
