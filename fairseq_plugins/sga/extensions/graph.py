"""SGA with ``--alignment dag``: the loss of a graph of slots, and what the denoiser reads of it."""

from typing import Any, Optional, Tuple

from torch import Tensor

from ...ops.dag import Decoded, linear_dag_with_best, lookahead, read_path
from ...ops.masks import move
from ..units import Guidance
from .glancing import Glance

COPIES = 2
"""The denoiser reads each token so many times: SGA section 4.4, "other generation tasks"."""


def graph_loss(
    model: Any,
    guidance: Guidance,
    seen: Optional[Glance],
    slots: Tensor,
    targets: Tensor,
    target_lengths: Tensor,
    chunk_size: int,
) -> Tuple[Tensor, Optional[Decoded]]:
    """Loss 1 per sentence, (B,) nats, and with a denoiser the tokens of the lookahead path, without a glance at the target.

    ``seen`` is what the alignment unit reads, ``<mask>`` everywhere when None; ``slots`` and ``target_lengths`` (B,),
    ``targets`` (B, U).
    """
    hidden, links = model.align_graph(guidance, slots, None if seen is None else seen.tokens)
    weight, bias = model.projection
    want_best = model.has_denoiser and seen is None
    loss, path = linear_dag_with_best(
        hidden, weight, bias, links, targets, slots, target_lengths, model.blank, chunk_size, want_best
    )
    if not model.has_denoiser:
        return loss, None
    if seen is not None:
        path, links = seen.path, seen.links
    assert path is not None
    visited = lookahead(links.detach(), path.log_probs, move(slots, links.device))
    return loss, read_path(path, visited, model.mask)
