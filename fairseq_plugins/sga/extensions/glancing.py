"""Glancing: in training, some slots show the alignment unit the token that they should emit."""

from typing import Any, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from ...ops import ctc, dag
from ...ops.linear_alignment import BestPath, label_log_probs
from ...ops.masks import lengths_to_padding_mask, move
from ..units import Guidance

NOTHING = -1


class Glance(NamedTuple):
    """What the alignment unit reads instead of ``<mask>`` everywhere, and what it gave for that before."""

    tokens: Tensor  # (B, T) int64
    path: BestPath
    links: Optional[Tensor] = None  # (B, T, T) log-probabilities of a graph's transitions


@torch.no_grad()
def glanced(
    model: Any,
    guidance: Guidance,
    slots: Tensor,
    targets: Tensor,
    target_lengths: Tensor,
    chunk_size: int,
    ratio: float,
) -> Glance:
    """What the slots hold: ``<mask>``, or the token that the target's best alignment has there.

    A first pass without gradients gives the alignment. Each slot with a token (or the blank of CTC) shows it with the probability
    ``ratio`` x the share of these slots whose best token is another one.

    Source: Qian et al. 2021 (GLAT); Huang et al. 2022 for graphs, Gu and Kong 2021 for CTC.
    """
    aligned, path, links = (_graph if model.transitions is not None else _ctc)(
        model, guidance, slots, targets, target_lengths, chunk_size
    )
    some = aligned.ne(NOTHING)
    wrong = (some & path.tokens.ne(aligned)).sum(dim=1) / some.sum(dim=1).clamp(min=1)
    shown = some & (torch.rand(aligned.shape, device=aligned.device) < ratio * wrong[:, None])
    return Glance(torch.where(shown, aligned, model.blank_sentence(slots)), path, links)


def _ctc(
    model: Any, guidance: Guidance, slots: Tensor, targets: Tensor, target_lengths: Tensor, chunk_size: int
) -> Tuple[Tensor, BestPath, Optional[Tensor]]:
    """The tokens of the best CTC alignment, (B, T), and the best path."""
    hidden, (weight, bias) = model.align(guidance, slots), model.ctc_projection()
    ids, columns = ctc.label_columns(targets, target_lengths, model.blank)
    log_probs, best = label_log_probs(hidden, weight, bias, ids, slots, model.blank, chunk_size)
    inside, lengths = move(slots, hidden.device), move(target_lengths, hidden.device)
    aligned = ids.gather(1, ctc.best_alignment(log_probs, columns, inside, lengths))
    unaligned = ~ctc.alignable(targets, slots, target_lengths, model.blank)
    outside = lengths_to_padding_mask(inside, aligned.size(1)) | unaligned[:, None]
    return aligned.masked_fill(outside, NOTHING), best, None


def _graph(
    model: Any, guidance: Guidance, slots: Tensor, targets: Tensor, target_lengths: Tensor, chunk_size: int
) -> Tuple[Tensor, BestPath, Optional[Tensor]]:
    """The tokens of the best path of the graph, (B, T), the best tokens of the slots and the transitions."""
    (hidden, links), (weight, bias) = model.align_graph(guidance, slots), model.projection
    inside, lengths = move(slots, hidden.device), move(target_lengths, hidden.device)
    outside = lengths_to_padding_mask(lengths, targets.size(1)) | ~dag.alignable(inside, lengths)[:, None]
    ids = targets.masked_fill(outside, model.blank)
    log_probs, best = label_log_probs(hidden, weight, bias, ids, slots, model.blank, chunk_size)
    places = dag.best_slots(log_probs, links, inside, lengths)
    aligned = torch.full_like(best.tokens, NOTHING)
    # What is outside goes to the first slot, which emits nothing.
    return aligned.scatter(1, places.masked_fill(outside, 0), ids.masked_fill(outside, NOTHING)), best, links
