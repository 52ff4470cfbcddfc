"""The floor of the benchmark of free generation, by hand."""

import pytest
import torch

from benchmarks import free_decoding
from benchmarks.systems import Sizes, dictionary, prompted_lm, sga

SIZES = Sizes(vocab=60, layers=2, width=16, heads=2, prompts=3)
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "weights", "tables", "through", "projected"),
    [
        ("SGA 0 iterations", 2, 1, 5 + 10, 10),
        ("SGA 4 iterations", 5, 4, 5 + 4 * 5, 5 + 3 + 2 + 1),
        ("SGA 4 iterations + denoiser", 6, 5, 5 + 4 * 5 + 10, 5 + 3 + 2 + 1 + 10),
        ("SGA 4 iterations + denoiser, packed", 6, 5, 5 + 4 * 5 + 10, 5 + 3 + 2 + 1 + 10),
        ("MSP beam 1", 2 + 6, 6, 2 * 5 + 6, 6),
        ("MSP by torch's own products, beam 1", 2 + 6, 6, 2 * 5 + 6, 6),
        ("MSP beam 4", 2 + 6, 6, 2 * 5 + 4 * 6, 4 * 6),
    ],
)
def test_the_floor_by_hand(name, weights, tables, through, projected):
    """Layers have 12 C^2 weights, 9 C biases and 4 C of layer norms, 4 bytes each; source and target 5 tokens, and MSP's </s>."""
    model = prompted_lm(SIZES, dictionary(60), CPU) if name.startswith("MSP") else sga(SIZES, CPU)
    layers = 2 * (12 * 16**2 + 13 * 16)
    reading = {"gflops": 1e9, "gb_per_s": 1e-9}
    assert free_decoding.least_seconds(SIZES, 5, name, model, reading) == 4 * (weights * layers + tables * 60 * 16)
    computing = {"gflops": 1e-9, "gb_per_s": 1e9}
    flops = through * 2 * 2 * 12 * 16**2 + projected * 2 * 60 * 16
    assert free_decoding.least_seconds(SIZES, 5, name, model, computing) == flops
