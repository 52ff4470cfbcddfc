"""BERT's masking: the draws in order, by a slow loop; shares; what is never masked or written."""

import numpy as np
import pytest

from fairseq_plugins.ops.bert_masking import Replacements, choose_tokens, replace_tokens

MASK, FIRST, END = 99, 10, 20
SPECIAL = Replacements(MASK, FIRST, END)


def slow(tokens, maskable, ratio, seed):
    """The same draws in the same order, token by token."""
    rng = np.random.default_rng(seed)
    candidates = [place for place, free in enumerate(maskable) if free]
    count = min(len(candidates), max(1, int(ratio * len(candidates) + rng.random())))
    chosen = rng.permutation(np.array(candidates, dtype=int))[:count].tolist()
    draws, pieces = rng.random(len(tokens)), rng.integers(FIRST, END, len(tokens)).tolist()
    new = [
        token if place not in chosen or draw >= 0.9 else MASK if draw < 0.8 else piece
        for place, (token, draw, piece) in enumerate(zip(tokens, draws, pieces))
    ]
    return [place in chosen for place in range(len(tokens))], new


@pytest.mark.parametrize("ratio", [0.01, 0.15, 0.5, 1.0])
def test_equals_the_slow_loop(ratio):
    """At least one token, where anything is maskable."""
    generator = np.random.default_rng(1)
    for seed in range(60):
        tokens = generator.integers(FIRST, END, 1 + seed % 17)
        maskable = generator.random(len(tokens)) < 0.8
        rng = np.random.default_rng(seed)
        chosen = choose_tokens(maskable, ratio, rng)
        new = replace_tokens(tokens, chosen, SPECIAL, rng)
        assert (chosen.tolist(), new.tolist()) == slow(tokens.tolist(), maskable.tolist(), ratio, seed)


def test_the_numbers_that_were_always_drawn():
    """Models depend on them: four are chosen, of which one becomes <mask>, one a random piece, and two stay."""
    rng = np.random.default_rng((1, 2, 3, 1))
    tokens = np.array([0, *range(11, 19), 2])
    chosen = choose_tokens((tokens > 2), 0.5, rng)
    assert np.flatnonzero(chosen).tolist() == [1, 4, 6, 8]
    assert replace_tokens(tokens, chosen, SPECIAL, rng).tolist() == [0, 11, 12, 13, MASK, 15, 15, 17, 18, 2]


def test_shares():
    rng = np.random.default_rng(1)
    counts = [int(choose_tokens(np.ones(10, dtype=bool), 0.15, rng).sum()) for _ in range(4000)]
    assert set(counts) == {1, 2}
    assert np.mean(counts) == pytest.approx(1.5, abs=0.03), "a share of 10 tokens that is no whole number"
    tokens = np.full(20000, FIRST)
    new = replace_tokens(tokens, np.ones(len(tokens), dtype=bool), SPECIAL, rng)
    assert (new == MASK).mean() == pytest.approx(0.8, abs=0.01)
    # A random piece is the original one in 1 of 10 cases.
    assert (new == FIRST).mean() == pytest.approx(0.1 + 0.1 / (END - FIRST), abs=0.01)
    assert set(new.tolist()) == {MASK, *range(FIRST, END)}
