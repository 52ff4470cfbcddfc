"""Test BERT's masking: the same draws as a slow loop, and the numbers that models depend on."""

import numpy as np
import pytest

from fairseq_plugins.ops.bert_masking import Replacements, choose_tokens, replace_tokens

MASK, FIRST, END = 99, 10, 20
SPECIAL = Replacements(MASK, FIRST, END)


def mask_slowly(tokens, maskable, ratio, seed):
    """Make the same draws in the same order, token by token."""
    rng = np.random.default_rng(seed)
    candidates = [place for place, is_free in enumerate(maskable) if is_free]
    count = min(len(candidates), max(1, int(ratio * len(candidates) + rng.random())))
    places = rng.permutation(np.array(candidates, dtype=int))[:count].tolist()
    draws, pieces = rng.random(len(tokens)), rng.integers(FIRST, END, len(tokens)).tolist()
    masked = list(tokens)
    for place in places:
        if draws[place] < 0.8:
            masked[place] = MASK
        elif draws[place] < 0.9:
            masked[place] = pieces[place]
    return [place in places for place in range(len(tokens))], masked


@pytest.mark.parametrize("ratio", [0.01, 0.15, 1.0])
def test_masking_equals_the_slow_loop(ratio):
    """The smallest ratio masks one token wherever a token may be masked."""
    generator = np.random.default_rng(1)
    for seed in range(60):
        tokens = generator.integers(FIRST, END, 1 + seed % 17)
        maskable = generator.random(len(tokens)) < 0.8
        rng = np.random.default_rng(seed)
        selected = choose_tokens(maskable, ratio, rng)
        masked = replace_tokens(tokens, selected, SPECIAL, rng)
        expected = mask_slowly(tokens.tolist(), maskable.tolist(), ratio, seed)
        assert (selected.tolist(), masked.tolist()) == expected


def test_draws_stay_those_of_earlier_releases():
    """Four tokens are selected: one becomes <mask>, one a random piece, and two stay."""
    rng = np.random.default_rng((1, 2, 3, 1))
    tokens = np.array([0, *range(11, 19), 2])
    selected = choose_tokens(tokens > 2, 0.5, rng)
    assert np.flatnonzero(selected).tolist() == [1, 4, 6, 8]
    masked = replace_tokens(tokens, selected, SPECIAL, rng)
    assert masked.tolist() == [0, 11, 12, 13, MASK, 15, 15, 17, 18, 2]
