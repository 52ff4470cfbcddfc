"""BERT's masking: which tokens of a row are predicted, and what stands in their place."""

from typing import NamedTuple

import numpy as np

MASKED, RANDOM = 0.8, 0.1
"""Shares of the predicted tokens that become ``<mask>`` and that become a random piece; the others stay."""


class Replacements(NamedTuple):
    """Ids that masking may write: ``<mask>``, and pieces from ``first_piece`` to before ``end_piece``, of which it is none."""

    mask: int
    first_piece: int
    end_piece: int


def choose_tokens(maskable: np.ndarray, ratio: float, rng: np.random.Generator) -> np.ndarray:
    """Draw the tokens that are predicted among those that are ``maskable`` (S,) bool, True = no special symbol.

    At least one where anything is maskable; a fraction of a token is drawn or not such that the share holds in expectation.
    """
    candidates = np.flatnonzero(maskable)
    count = min(len(candidates), max(1, int(ratio * len(candidates) + rng.random())))
    chosen = np.zeros(len(maskable), dtype=bool)
    chosen[rng.permutation(candidates)[:count]] = True
    return chosen


def replace_tokens(
    tokens: np.ndarray, chosen: np.ndarray, replacements: Replacements, rng: np.random.Generator
) -> np.ndarray:
    """Replace 80 % of the ``chosen`` (S,) tokens (S,) by ``<mask>`` and 10 % by a random piece; 10 % stay.

    Source: Devlin et al. 2019, section 3.1 (task 1).
    """
    draw = rng.random(len(tokens))
    random_piece = rng.integers(replacements.first_piece, replacements.end_piece, len(tokens))
    noisy = np.where(draw < MASKED, replacements.mask, np.where(draw < MASKED + RANDOM, random_piece, tokens))
    return np.where(chosen, noisy, tokens)
