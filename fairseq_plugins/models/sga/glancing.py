"""Glancing: in training, some slots show the alignment unit the token that they should emit."""

from typing import Any, Tuple

import torch
from torch import Tensor

from ...ops import ctc, dag
from ...ops.linear_alignment import label_log_probs
from ...ops.masks import lengths_to_padding_mask, move
from .guidance import Guidance

NOTHING = -1


@torch.no_grad()
def glanced(
    model: Any,
    guidance: Guidance,
    slots: Tensor,
    targets: Tensor,
    target_lengths: Tensor,
    chunk_size: int,
    ratio: float,
) -> Tensor:
    """What the slots hold: ``<mask>``, or the token that the target's best alignment has there. (B, T) int64.

    A first pass without gradients gives the alignment. Each slot with a token (or the blank of CTC) shows it with the probability
    ``ratio`` x the share of these slots whose best token is another one.

    Source: Qian et al. 2021 (GLAT); Huang et al. 2022 for graphs, Gu and Kong 2021 for CTC.
    """
    aligned, best = (_graph if model.transitions is not None else _ctc)(
        model, guidance, slots, targets, target_lengths, chunk_size
    )
    some = aligned.ne(NOTHING)
    wrong = (some & best.ne(aligned)).sum(dim=1) / some.sum(dim=1).clamp(min=1)
    shown = some & (torch.rand(aligned.shape, device=aligned.device) < ratio * wrong[:, None])
    return torch.where(shown, aligned, model.blank_sentence(slots))


def _ctc(
    model: Any, guidance: Guidance, slots: Tensor, targets: Tensor, target_lengths: Tensor, chunk_size: int
) -> Tuple[Tensor, Tensor]:
    """The tokens of the best CTC alignment, and the best tokens of the slots, (B, T) each."""
    hidden, (weight, bias) = model.align(guidance, slots), model.projection
    ids, columns = ctc.label_columns(targets, target_lengths, model.blank)
    log_probs, best = label_log_probs(hidden, weight, bias, ids, slots, model.blank, chunk_size)
    inside, lengths = move(slots, hidden.device), move(target_lengths, hidden.device)
    aligned = ids.gather(1, ctc.best_alignment(log_probs, columns, inside, lengths))
    unaligned = ~ctc.alignable(targets, slots, target_lengths, model.blank)
    outside = lengths_to_padding_mask(inside, aligned.size(1)) | unaligned[:, None]
    return aligned.masked_fill(outside, NOTHING), best.tokens


def _graph(
    model: Any, guidance: Guidance, slots: Tensor, targets: Tensor, target_lengths: Tensor, chunk_size: int
) -> Tuple[Tensor, Tensor]:
    """The tokens of the best path of the graph, and the best tokens of the slots, (B, T) each."""
    (hidden, links), (weight, bias) = model.align_graph(guidance, slots), model.projection
    inside, lengths = move(slots, hidden.device), move(target_lengths, hidden.device)
    outside = lengths_to_padding_mask(lengths, targets.size(1)) | ~dag.alignable(inside, lengths)[:, None]
    ids = targets.masked_fill(outside, model.blank)
    log_probs, best = label_log_probs(hidden, weight, bias, ids, slots, model.blank, chunk_size)
    places = dag.best_slots(log_probs, links, inside, lengths)
    aligned = torch.full_like(best.tokens, NOTHING)
    # What is outside goes to the first slot, which emits nothing.
    return aligned.scatter(1, places.masked_fill(outside, 0), ids.masked_fill(outside, NOTHING)), best.tokens
