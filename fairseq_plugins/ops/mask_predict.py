"""Which tokens of a sentence are masked: in training, and in the iterations of mask-predict."""

import torch
from torch import Tensor

from .masks import lengths_to_padding_mask


def draw_masks(lengths: Tensor, size: int) -> Tensor:
    """Mask a random part of each row: the number of tokens is uniform over 1 .. N, and so is the choice of them.

    ``lengths`` (B,) int64 are the N; a row without tokens has no mask. (B, ``size``) bool, True = masked. Randomness comes from
    torch's global generator, which fairseq seeds with (seed, update): a resumed run draws the same masks.

    Source: Ghazvininejad et al. 2019 (CMLM), section 2.2; SGA section 4.3.
    """
    count = (torch.rand(lengths.shape, device=lengths.device) * lengths).long() + 1
    scores = torch.rand(lengths.size(0), size, device=lengths.device)
    return lowest_scores(scores, torch.minimum(count, lengths), lengths)


def draw_masks_by_ratio(lengths: Tensor, size: int, least: float) -> Tensor:
    """Mask each token of a row with the probability max(``least``, U); a row draws its own U, uniform over (0, 1).

    A row may be left without a mask. ``least`` lies in [0, 1]; all else as in :func:`draw_masks`.

    Source: the authors' code of SGA, with 0.2 and one U for a whole batch; here one per sentence, which is the same on average
    and does not depend on the batch.
    """
    ratio = torch.rand(lengths.size(0), 1, device=lengths.device).clamp(min=least)
    drawn = torch.rand(lengths.size(0), size, device=lengths.device) < ratio
    return drawn & ~lengths_to_padding_mask(lengths, size)


def lowest_scores(scores: Tensor, counts: Tensor, lengths: Tensor) -> Tensor:
    """(B, T) bool, True: the ``counts`` (B,) tokens of each row with the lowest scores (B, T); of equal ones, those to the left.

    What lies behind ``lengths`` (B,) is never chosen.
    """
    scores = scores.masked_fill(lengths_to_padding_mask(lengths, scores.size(1)), float("inf"))
    order = scores.argsort(dim=1, stable=True)  # place -> column
    rank = order.argsort(dim=1)  # column -> place
    return rank < counts[:, None]


def masked_counts(lengths: Tensor, step: int, iterations: int) -> Tensor:
    """How many of ``lengths`` (B,) tokens are masked before iteration ``step`` (from 0): N (iterations - step) / iterations.

    Rounded down: N at first, then less by a linear decay.

    Source: Ghazvininejad et al. 2019 (CMLM), section 3.1.
    """
    return lengths * (iterations - step) // iterations


def likely_lengths(log_probs: Tensor, count: int) -> Tensor:
    """The ``count`` most probable lengths of each sentence in tokens, (B, K), best first; of equal ones, the shorter.

    ``log_probs`` (B, N) has column j for j + 1 tokens.
    """
    return torch.argsort(log_probs, dim=1, descending=True, stable=True)[:, :count] + 1
