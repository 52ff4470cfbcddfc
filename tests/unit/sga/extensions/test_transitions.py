"""Test transitions against a loop over pairs of slots."""

import math

import pytest
import torch

from fairseq_plugins.sga.extensions import graph
from tests import builders

WIDTH, SLOTS = 8, [6, 4]


def draw_states():
    return builders.drawing(2)(len(SLOTS), max(SLOTS), WIDTH), torch.tensor(SLOTS)


@pytest.mark.parametrize("furthest", [64, 3])
@torch.no_grad()
def test_links_are_a_softmax_over_later_slots(furthest, monkeypatch):
    monkeypatch.setattr(graph, "MAX_DISTANCE", furthest)
    module = graph.Transitions(WIDTH)
    builders.randomise(module, seed=1)
    hidden, lengths = draw_states()
    links = module(hidden, lengths)
    for row, size in enumerate(SLOTS):
        query, key = module.query(hidden[row]), module.key(hidden[row])
        for slot in range(max(SLOTS)):
            expected = torch.full((max(SLOTS),), -math.inf)
            for later in range(slot + 1, size):
                distance = module.distance[min(later - slot - 1, furthest - 1)]
                expected[later] = query[slot] @ key[later] / math.sqrt(WIDTH) + distance
            if slot + 1 < size:
                expected = expected.log_softmax(0)
            torch.testing.assert_close(links[row, slot], expected, rtol=1e-4, atol=1e-5)


def test_gradients_are_finite_where_no_path_goes():
    module = graph.Transitions(WIDTH)
    links = module(*draw_states())
    links.masked_fill(links.isinf(), 0.0).sum().backward()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in module.parameters())


@torch.no_grad()
def test_large_scores_are_finite_in_float16(device):
    """The products are 230,400; float16 ends at 65,504."""
    module = graph.Transitions(256)
    for linear in (module.query, module.key):
        linear.weight.copy_(torch.eye(256))
    hidden = torch.full((1, 6, 256), 30.0, dtype=torch.float16, device=device)
    links = module.to(device).half()(hidden, torch.tensor([6]))
    assert not bool(links.isnan().any())
