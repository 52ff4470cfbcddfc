"""The peak of allocations that are counted by hand."""

import torch

from fairseq_plugins.plan.live import GRADIENTS, STEP, WEIGHTS, Live


def test_bytes_from_allocation_to_end():
    weight = torch.zeros(10)
    with Live() as live:
        live.label(weight, WEIGHTS, "encoder")
        live.component, live.phase = "encoder", "forward"
        kept = torch.zeros(100)  # 400 bytes
        large = kept.repeat(3)  # 1200
        view = large[:50]
        del large  # the view holds it
        assert live.total == 40 + 400 + 1200
        live.phase = "backward"
        half = kept.half()  # 200
        del view
        kept.add_(1)
        live.label(half, GRADIENTS, "decoder")
        small = torch.zeros(5)  # 20
        assert live.total == 40 + 400 + 200 + 20
    live.close()
    assert live.held == {(WEIGHTS, "encoder"): 40, (STEP, "encoder"): 420, (GRADIENTS, "decoder"): 200}
    assert (live.peak.size, live.peak.phase) == (40 + 400 + 1200 + 200, "backward")
    assert live.peak.held == {(WEIGHTS, "encoder"): 40, (STEP, "encoder"): 1800}
    assert live.largest.size == 1200
    assert live.largest.where.startswith("repeat in encoder, plan/test_live.py:")
    del small
