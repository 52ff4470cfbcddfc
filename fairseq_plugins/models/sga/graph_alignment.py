"""SGA with ``--alignment dag``: the loss of a graph of slots, and what the denoiser reads of it."""

from typing import Any, Optional, Tuple

from torch import Tensor

from ...ops.dag import Decoded, linear_dag_with_best, lookahead, read_path
from ...ops.masks import move
from .guidance import Guidance

COPIES = 2
"""The denoiser reads each token so many times: SGA section 4.4, "other generation tasks"."""


def graph_loss(
    model: Any,
    guidance: Guidance,
    tokens: Optional[Tensor],
    slots: Tensor,
    targets: Tensor,
    target_lengths: Tensor,
    chunk_size: int,
) -> Tuple[Tensor, Optional[Decoded]]:
    """Loss 1 per sentence, (B,) nats, and with a denoiser the tokens of the lookahead path.

    ``tokens`` (B, T) are what the alignment unit reads, ``<mask>`` everywhere when None; ``slots`` and ``target_lengths`` (B,),
    ``targets`` (B, U).
    """
    hidden, links = model.align_graph(guidance, slots, tokens)
    weight, bias = model.projection
    loss, path = linear_dag_with_best(
        hidden, weight, bias, links, targets, slots, target_lengths, model.blank, chunk_size, model.has_denoiser
    )
    if path is None:
        return loss, None
    visited = lookahead(links.detach(), path.log_probs, move(slots, links.device))
    return loss, read_path(path, visited, model.mask)
