"""Test the masks of training and of mask-predict: how many, which, and never in padding."""

import functools

import pytest
import torch

from fairseq_plugins.sga import mask_predict


def test_number_and_choice_of_the_masked_tokens_are_uniform(device):
    """The tolerances are 3.5 standard deviations of shares of 6,000 draws."""
    masks = mask_predict.draw_masks(torch.full((6000,), 6, device=device), 9)
    counts = masks.sum(dim=1)
    shares = torch.bincount(counts, minlength=8).float() / 6000
    assert shares[0] == shares[7] == 0
    assert bool(((shares[1:7] - 1 / 6).abs() < 0.017).all()), shares
    for count in (1, 3):
        shares = masks[counts == count, :6].float().mean(dim=0)
        assert bool(((shares - count / 6).abs() < 0.06).all()), (count, shares)


BY_RATIO = functools.partial(mask_predict.draw_masks_by_ratio, least=0.2)


@pytest.mark.cases("draw fewest", (mask_predict.draw_masks, 1), (BY_RATIO, 0))
def test_rows_have_their_own_lengths_and_padding_is_never_masked(draw, fewest, device):
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
    """The first of equal scores are chosen, and padding never is."""
    scores = torch.tensor([[-1, -3, -2, -9], [-1, -1, -1, -1], [-5, 0, 0, 0]], device=device)
    counts, lengths = torch.tensor([[2, 2, 0], [3, 4, 1]], device=device)
    places = mask_predict.lowest_scores(scores.float(), counts, lengths)
    assert places.int().tolist() == [[0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]


@pytest.mark.cases(
    "length counts",
    (8, [8, 6, 4, 2]),
    (5, [5, 3, 2, 1]),
    (3, [3, 2, 2, 2, 1, 1, 1, 0, 0, 0]),
    (7, [7]),
)
def test_the_number_of_masks_decays_linearly(length, counts):
    """CMLM: n = N (T - t) / T, rounded down."""
    lengths, iterations = torch.tensor([length]), len(counts)
    for step, count in enumerate(counts):
        assert mask_predict.masked_counts(lengths, step, iterations).item() == count


def test_likely_lengths_are_best_first_and_of_equal_ones_the_shorter(device):
    log_probs = torch.tensor([[-3.0, -1.0, -2.0, -1.0], [-2.0, -2.0, -2.0, -2.0]], device=device)
    assert mask_predict.likely_lengths(log_probs, 3).tolist() == [[2, 4, 3], [1, 2, 3]]
