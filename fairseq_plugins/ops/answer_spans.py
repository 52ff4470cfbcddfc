"""Spans of a passage as answers: loss of start and end, and the best span of each row and of each group of rows."""

from typing import Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

NO_ANSWER = 0
"""The position that a row without the whole answer points at: its first token, as in BERT's SQuAD."""


def outside_passage(width: int, starts: Tensor, lengths: Tensor) -> Tensor:
    """(R, S) bool of S = ``width`` positions, True = outside the passage of each row: ``starts`` and ``lengths`` (R,) int64."""
    place = torch.arange(width, device=starts.device)
    return (place < starts[:, None]) | (place >= (starts + lengths)[:, None])


def span_losses(logits: Tensor, outside: Tensor, targets: Tensor) -> Tensor:
    """Mean of the cross-entropies of start and end; (R,) nats, in float32 at least.

    Only the passage and the position :data:`NO_ANSWER` take part in the softmax: padding would make the loss depend on the batch,
    and question and separators never hold an answer. Of ``logits`` (R, S, 2) of start and end, ``outside`` (R, S) bool, True = not
    the passage, and ``targets`` (R, 2) int64 positions.

    Source: Devlin et al. 2019, section 4.2. Differs: BERT's softmax also takes in question, separators and padding.
    """
    masked = outside.clone()
    masked[:, NO_ANSWER] = False
    return F.cross_entropy(_masked(logits, masked), targets, reduction="none").mean(dim=1)


def best_spans(logits: Tensor, outside: Tensor, longest: int) -> Tuple[Tensor, Tensor, Tensor]:
    """The span of each row with the best sum of start and end logit (R, S, 2): score, first and last position, (R,) each.

    The score is -inf where all positions are ``outside`` (R, S). Memory: R x S x ``longest`` (positions of a span, at least 1).
    """
    begins, ends = _masked(logits, outside).unbind(-1)
    reach = min(longest, logits.size(1))
    reached = F.pad(ends, (0, reach - 1), value=float("-inf")).unfold(1, reach, 1)  # (R, S, reach)
    best, place = (begins[:, :, None] + reached).flatten(1).max(dim=1)
    first = place // reach
    return best, first, first + place % reach


def best_rows(scores: Tensor, group: Tensor, groups: int) -> Tensor:
    """(groups,) int64: the row of each group with the highest of ``scores`` (R,), the first of equal ones; each group has a row."""
    best = scores.new_full((groups,), float("-inf")).scatter_reduce(0, group, scores, "amax")
    rows = torch.arange(len(scores), device=scores.device)
    found = torch.where(scores == best[group], rows, len(scores))
    return found.new_full((groups,), len(scores)).scatter_reduce(0, group, found, "amin")


def _masked(logits: Tensor, outside: Tensor) -> Tensor:
    """In float32 at least, with -inf at masked positions."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return wide.masked_fill(outside[:, :, None], float("-inf"))
