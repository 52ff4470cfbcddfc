"""Test the random numbers of code-switching and the number of replaced words.

``tests/reference/test_csr_switching.py`` compares the replaced words with a loop over spans.
"""

import math

import numpy as np
import pytest

from fairseq_plugins.csr.noise import budgets, epoch_address, mix, streams, uniforms

RATIO = 0.35


def test_the_generator_is_splitmix64():
    """Compare with what the authors' C program prints first for the seed 1234567."""
    steps = np.arange(1, 4, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    numbers = mix(np.array([1234567], dtype=np.uint64) + steps)
    assert numbers.tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def grid(seed, epoch, purpose, items, places):
    stream = streams(epoch_address(seed, epoch), np.arange(items))
    return uniforms(stream[:, None], purpose, np.arange(places))


def test_numbers_are_a_function_of_their_address():
    numbers = grid(1, 2, 1, 9, 7)
    assert uniforms(streams(epoch_address(1, 2), [4]), 1, np.array([5]))[0] == numbers[4, 5]
    addresses = (2, 2, 1), (1, 3, 1), (2, 1, 1), (1, 2, 2), (-1, 2, 1)
    grids = [grid(*address, 9, 7) for address in addresses]
    assert len(np.unique(np.stack([numbers, *grids]))) == 6 * 63


def test_numbers_are_uniform_and_independent():
    """32 x 32 cells of neighbours in every direction of the address, chi-square at 0.001."""
    numbers = grid(5, 1, 0, 1000, 500)
    assert numbers.min() >= 0.0 and numbers.max() < 1.0
    pairs = {"items": (numbers[:-1], numbers[1:]), "places": (numbers[:, :-1], numbers[:, 1:])}
    for name, address in {"epoch": (5, 2, 0), "seed": (6, 1, 0), "purpose": (5, 1, 1)}.items():
        pairs[name] = numbers, grid(*address, 1000, 500)
    for name, (first, second) in pairs.items():
        cells = (first * 32).astype(int) * 32 + (second * 32).astype(int)
        counts = np.bincount(cells.ravel(), minlength=1024)
        expected = cells.size / 1024
        statistic = ((counts - expected) ** 2 / expected).sum()
        assert abs(statistic - 1023) < 3.3 * np.sqrt(2 * 1023), name


def test_the_budget_is_rounded_at_random_and_keeps_its_mean():
    chance = np.linspace(0, 1, 1000, endpoint=False)
    for words in (1, 7, 20, 33):
        budget = budgets(np.full(1000, words), np.full(1000, words), RATIO, chance)
        assert budget.mean() == pytest.approx(RATIO * words, abs=2e-3)
        assert set(budget.tolist()) <= {math.floor(RATIO * words), math.ceil(RATIO * words)}
    sevens = budgets(np.full(1000, 20), np.full(1000, 20), RATIO, chance)
    assert set(sevens.tolist()) == {7}, "0.35 * 20 is whole"
    assert 0.29 * 100 < 29, "as floating-point numbers"
    assert budgets(np.array([100]), np.array([100]), 0.29, np.zeros(1)).tolist() == [29]
    assert budgets(np.array([20, 20]), np.array([3, 0]), RATIO, np.zeros(2)).tolist() == [3, 0]
