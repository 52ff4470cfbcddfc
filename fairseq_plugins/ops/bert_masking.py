"""BERT's masking: which tokens of a row are predicted, and what stands in their place."""

from typing import NamedTuple

import numpy as np

MASKED, RANDOM = 0.8, 0.1
"""Shares of the predicted tokens that become ``<mask>``, or a random piece; the rest stays."""


class Replacements(NamedTuple):
    """Ids that masking may write."""

    mask: int  # ``<mask>``, none of the pieces
    first_piece: int
    end_piece: int  # one past the last piece


def choose_tokens(maskable: np.ndarray, ratio: float, rng: np.random.Generator) -> np.ndarray:
    """Draw the tokens that are predicted.

    At least one is drawn if any is maskable. The number is rounded at random, so that the share
    holds in expectation.

    Args:
        maskable: (S,) bool, True = no special symbol.
        ratio: share of the maskable tokens, in (0, 1].

    Returns:
        (S,) bool, True = is predicted.
    """
    candidates = np.flatnonzero(maskable)
    count = min(len(candidates), max(1, int(ratio * len(candidates) + rng.random())))
    predicted = np.zeros(len(maskable), dtype=bool)
    predicted[rng.permutation(candidates)[:count]] = True
    return predicted


def replace_tokens(
    tokens: np.ndarray, predicted: np.ndarray, replacements: Replacements, rng: np.random.Generator
) -> np.ndarray:
    """Replace 80 % of the ``predicted`` tokens by ``<mask>`` and 10 % by a random piece; 10 % stay.

    Args:
        tokens: (S,) ids.
        predicted: (S,) bool, True = is predicted.

    Source: Devlin et al. 2019, section 3.1 (task 1).
    """
    draw = rng.random(len(tokens))
    random_piece = rng.integers(replacements.first_piece, replacements.end_piece, len(tokens))
    noisy = np.where(draw < MASKED + RANDOM, random_piece, tokens)
    noisy = np.where(draw < MASKED, replacements.mask, noisy)
    return np.where(predicted, noisy, tokens)
