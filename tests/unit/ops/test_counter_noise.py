"""Addressed random numbers: SplitMix64's own, uniform, independent of each other, and of what is asked for with them."""

import numpy as np

from fairseq_plugins.ops.counter_noise import epoch_address, mix, streams, uniforms


def test_the_generator_is_splitmix64():
    """Its first numbers from 1234567, as its authors' C program prints them."""
    state = np.array([1234567], dtype=np.uint64) + np.arange(1, 4, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert mix(state).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_numbers_are_a_function_of_their_address():
    whole = uniforms(streams(epoch_address(1, 2), np.arange(9))[:, None], 1, np.arange(7))
    assert uniforms(streams(epoch_address(1, 2), [4]), 1, np.array([5]))[0] == whole[4, 5]
    assert len(np.unique(whole)) == 63
    others = [
        uniforms(streams(epoch_address(seed, epoch), np.arange(9))[:, None], purpose, np.arange(7))
        for seed, epoch, purpose in ((2, 2, 1), (1, 3, 1), (2, 1, 1), (1, 2, 2), (-1, 2, 1))
    ]
    assert len(np.unique(np.stack([whole, *others]))) == 6 * 63


def test_numbers_are_uniform_and_independent():
    """64 x 64 cells of neighbours in every direction of the address, chi-square at 0.001."""
    grid = uniforms(streams(epoch_address(5, 1), np.arange(1000))[:, None], 0, np.arange(500))
    assert grid.min() >= 0.0 and grid.max() < 1.0
    again = {"items": (grid[:-1], grid[1:]), "places": (grid[:, :-1], grid[:, 1:])}
    for name, address, purpose in (("epochs", (5, 2), 0), ("seeds", (6, 1), 0), ("purposes", (5, 1), 1)):
        again[name] = (
            grid,
            uniforms(streams(epoch_address(*address), np.arange(1000))[:, None], purpose, np.arange(500)),
        )
    for name, (first, second) in again.items():
        cells = (first * 32).astype(int) * 32 + (second * 32).astype(int)
        counts = np.bincount(cells.ravel(), minlength=1024)
        expected = cells.size / 1024
        statistic = ((counts - expected) ** 2 / expected).sum()
        assert abs(statistic - 1023) < 3.3 * np.sqrt(2 * 1023), name
