"""Masks of training and of mask-predict: how many, which, and never in padding."""

import functools

import pytest
import torch

from fairseq_plugins.ops.mask_predict import (
    draw_masks,
    draw_masks_by_ratio,
    likely_lengths,
    lowest_scores,
    masked_counts,
)


def test_the_number_of_masked_tokens_is_uniform_over_one_to_n(device):
    rows = 6000
    masks = draw_masks(torch.full((rows,), 6, device=device), 9)
    shares = torch.bincount(masks.sum(dim=1), minlength=8).float() / rows
    assert shares[0] == 0
    assert shares[7] == 0
    # 3.5 standard deviations of a share of 1/6 in 6,000 draws.
    assert bool(((shares[1:7] - 1 / 6).abs() < 0.017).all()), shares


def test_which_tokens_are_masked_is_uniform_whatever_their_number(device):
    masks = draw_masks(torch.full((6000,), 5, device=device), 5)
    for count in (1, 3):
        chosen = masks[masks.sum(dim=1) == count].float().mean(dim=0)
        assert bool(((chosen - count / 5).abs() < 0.06).all()), (count, chosen)


BY_RATIO = functools.partial(draw_masks_by_ratio, least=0.2)


@pytest.mark.parametrize(("draw", "fewest"), [(draw_masks, 1), (BY_RATIO, 0)])
def test_each_row_has_its_own_length_and_padding_is_never_masked(draw, fewest, device):
    lengths = torch.tensor([4, 1, 0, 7], device=device)
    inside = torch.arange(9, device=device) < lengths[:, None]
    most, least = torch.zeros(4, dtype=torch.int64, device=device), lengths
    for _ in range(200):
        masks = draw(lengths, 9)
        assert not bool((masks & ~inside).any())
        most = torch.maximum(most, masks.sum(dim=1))
        least = torch.minimum(least, masks.sum(dim=1))
    assert most.tolist() == [4, 1, 0, 7]
    assert least.tolist() == [fewest, fewest, 0, fewest]


@pytest.mark.parametrize("draw", [draw_masks, BY_RATIO])
def test_the_seed_of_the_update_decides(draw, device):
    lengths = torch.full((40,), 20, device=device)
    first, second = draw(lengths, 20), draw(lengths, 20)
    torch.manual_seed(1)
    assert torch.equal(draw(lengths, 20), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("least", [0.0, 0.2, 0.6, 1.0])
def test_the_ratio_is_one_draw_a_row_and_at_least_the_given_one(least, device):
    """r = max(m, U): P(a token) = E r = (1 + m^2) / 2, P(all of n) = E r^n = m^(n+1) + (1 - m^(n+1)) / (n + 1)."""
    rows, size = 6000, 4
    masks = draw_masks_by_ratio(torch.full((rows,), size, device=device), size + 2, least).float()
    assert bool((masks[:, size:] == 0).all())
    # 3.5 standard deviations of a share of 1/2 in 6,000 draws.
    assert bool(((masks[:, :size].mean(dim=0) - (1 + least**2) / 2).abs() < 0.023).all())
    everything = float((masks.sum(dim=1) == size).float().mean())
    power = least ** (size + 1)
    assert abs(everything - (power + (1 - power) / (size + 1))) < 0.023


def test_lowest_scores_by_hand(device):
    scores = torch.tensor([[-1.0, -3.0, -2.0, -9.0], [-1.0, -1.0, -1.0, -1.0], [-5.0, 0.0, 0.0, 0.0]], device=device)
    chosen = lowest_scores(scores, torch.tensor([2, 2, 0], device=device), torch.tensor([3, 4, 1], device=device))
    assert chosen.int().tolist() == [[0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("length", "iterations", "counts"),
    [(8, 4, [8, 6, 4, 2]), (5, 4, [5, 3, 2, 1]), (3, 10, [3, 2, 2, 2, 1, 1, 1, 0, 0, 0]), (7, 1, [7])],
)
def test_the_schedule_decays_linearly(length, iterations, counts):
    """CMLM: n = N (T - t) / T, rounded down."""
    lengths = torch.tensor([length, 2 * iterations])
    found = [masked_counts(lengths, step, iterations).tolist() for step in range(iterations)]
    assert [row[0] for row in found] == counts
    assert [row[1] for row in found] == [2 * (iterations - step) for step in range(iterations)]


def test_likely_lengths_best_first_and_the_shorter_of_equal_ones(device):
    log_probs = torch.tensor([[-3.0, -1.0, -2.0, -1.0], [-2.0, -2.0, -2.0, -2.0]], device=device)
    assert likely_lengths(log_probs, 3).tolist() == [[2, 4, 3], [1, 2, 3]]
    assert likely_lengths(log_probs, 1).tolist() == [[2], [1]]
