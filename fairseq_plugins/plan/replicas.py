"""What each of several devices needs more than one alone: what carries the gradients from one to the other."""

from typing import Any, NamedTuple

from .live import GRADIENTS
from .rehearsal import Plan

BUFFER = 2**28
"""Numbers in the buffer of ``--ddp-backend legacy_ddp``, or as many as the model has parameters."""
BACKENDS = ("pytorch_ddp", "c10d", "legacy_ddp", "no_c10d")


class Replicas(NamedTuple):
    """Data-parallel training: every device holds the whole model and its own batch.

    Attributes:
        devices: how many.
        buckets: bytes for the exchange of gradients, on each device.
        peak: bytes on each device.
    """

    devices: int
    buckets: int
    peak: int


def replicas(plan: Plan, count: int, options: Any) -> Replicas:
    """The same training on ``count`` devices; ``options``: fairseq's of distributed training.

    Raises:
        ValueError: no device, or a ``--ddp-backend`` that is not planned.
    """
    if count < 1:
        raise ValueError(f"--devices must be at least 1; got {count}")
    peak = plan.steps[0].peak
    if count == 1:
        return Replicas(1, 0, peak.size)
    if options.ddp_backend not in BACKENDS:
        raise ValueError(f"--ddp-backend {options.ddp_backend}: is not planned; valid: {', '.join(BACKENDS)}")
    if options.ddp_backend in ("legacy_ddp", "no_c10d"):
        buckets = min(BUFFER, sum(plan.trained.values()) + sum(plan.frozen.values())) * plan.width
        return Replicas(count, buckets, peak.size + buckets)
    buckets = sum(plan.trained.values()) * plan.width
    present = sum(size for (kind, _), size in peak.held.items() if kind == GRADIENTS)
    # Gradients that are views of the buckets take no bytes of their own.
    more = buckets - min(buckets, present) if options.gradient_as_bucket_view else buckets
    return Replicas(count, buckets, peak.size + more)
