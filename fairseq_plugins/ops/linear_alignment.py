"""Losses over all alignments of slots with labels, without ever holding B x T x V logits.

Of each slot's distribution such a loss needs the log-probabilities of a few labels. The rest of the
vocabulary enters through the log-sum-exp, which one chunked pass gives. With z the logits of a
slot, gamma the posterior of its labels and o = sum gamma the probability that the slot is used
(1 for CTC),

    d loss / d z = o softmax(z) - gamma,
    d loss / d hidden = o sum_v softmax(z)_v W_v - sum_k gamma_k W_k.

If the projection is frozen, the first sum is accumulated in the same forward pass (4 B*T*C*V
operations in all, as many as a materialised projection needs). A trained projection is scanned
again in backward (8 against 6).
"""

from typing import Any, Callable, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .masks import Places, spread
from .vocab_scan import (
    DEFAULT_CHUNK_SIZE,
    TOKEN_BLOCK,
    VocabScan,
    accumulation_dtype,
    chunk_logits,
    scan_vocabulary,
    training_chunk,
)


class BestPath(NamedTuple):
    """The best token of every slot."""

    tokens: Tensor  # (B, T) int64, argmax (the lowest id of equal ones); the blank in padding
    pieces: Tensor  # (B, T) int64, argmax over the vocabulary without the blank
    log_probs: Tensor  # (B, T) float, log-probability of ``tokens`` in nats; 0 in padding


class Posteriors(NamedTuple):
    """A loss, and the posteriors that are its gradient."""

    loss: Tensor  # (B,) nats
    gamma: Tensor  # (B, T, K), posterior of each label in each slot; 0 in padding
    used: Optional[Tensor] = None  # (B, T), probability that the slot is used; None: every slot is
    edges: Optional[Tensor] = None  # (B, T, T), posterior of each transition


Posterior = Callable[[Tensor, Optional[Tensor]], Posteriors]
"""(log-probabilities of labels (B, T, K), of transitions (B, T, T) or None) -> posteriors."""


def linear_alignment_loss(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    transitions: Optional[Tensor],
    ids: Tensor,
    slots: Tensor,
    feasible: Tensor,
    posterior: Posterior,
    blank: int,
    chunk_size: int,
    want_best: bool,
) -> Tuple[Tensor, Optional[BestPath]]:
    """Compute the loss of each sentence, and the best path in the same pass.

    Args:
        hidden: (B, T, C). Half precision is accumulated in float32, but its probabilities are
            rounded (by about 0.4 % in bfloat16). In a slot that is all but certain the true
            gradient is smaller than this error, so there the gradient is noise.
        weight, bias: (V, C), and (V,) or None. Frozen ones get no gradient.
        transitions: (B, T, T) log-probabilities of transitions, or None.
        ids: (B, K) int64, the labels of each sentence.
        slots: (B,) int64, number of slots of each sentence. If they lie on the host, it need not
            wait for the device.
        feasible: (B,) bool; False sets loss and gradient of the sentence to 0.
        posterior: computes the loss from the labels' log-probabilities.
        blank: id of the blank, for the best path alone.
        chunk_size: vocabulary rows per chunk.

    Returns:
        (B,) nats in float32 or float64, and the best path; None unless ``want_best``.
    """
    loss, tokens, pieces, log_probs = _LinearAlignment.apply(
        hidden,
        weight,
        bias,
        transitions,
        ids,
        slots,
        feasible,
        posterior,
        blank,
        chunk_size,
        want_best,
    )
    return loss, BestPath(tokens, pieces, log_probs) if want_best else None


def _scan(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    ids: Tensor,
    inside: Places,
    blank: Optional[int],
    chunk_size: int,
    expected: bool = False,
) -> Tuple[VocabScan, Tensor]:
    """Scan the slots ``inside``; return the scan and the labels' log-probabilities (B, T, K)."""
    chunk_size, labels = training_chunk(chunk_size, hidden.device), ids[inside.rows]
    scan = scan_vocabulary(hidden[inside], weight, bias, chunk_size, expected, blank, labels)
    assert scan.label_logits is not None
    log_probs = scan.label_logits - scan.log_sum_exp[:, None]
    return scan, spread(log_probs, inside, hidden.shape[:2])


@torch.no_grad()
def label_log_probs(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    ids: Tensor,
    slots: Tensor,
    blank: int,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
) -> Tuple[Tensor, BestPath]:
    """Compute the labels' log-probabilities in every slot, and the best path.

    For the arguments see :func:`linear_alignment_loss`.

    Returns:
        (B, T, K) nats, 0 in padding; and the path.
    """
    inside = Places.inside(slots, hidden.size(1), hidden.device)
    scan, log_probs = _scan(hidden, weight, bias, ids, inside, blank, chunk_size)
    return log_probs, best_path(scan, inside, hidden.shape[:2], blank)


def best_path(scan: Any, inside: Places, shape: Sequence[int], blank: int) -> BestPath:
    """Choose the best token of each slot from a scan of the slots ``inside`` of shape (B, T)."""
    is_blank = (scan.blank_logit > scan.piece_logit) | (
        (scan.blank_logit == scan.piece_logit) & (blank < scan.piece)
    )
    best_logit = torch.where(is_blank, scan.blank_logit, scan.piece_logit)
    tokens = scan.piece.masked_fill(is_blank, blank)
    log_probs = best_logit - scan.log_sum_exp
    return BestPath(
        tokens=spread(tokens, inside, shape, filler=blank),
        pieces=spread(scan.piece, inside, shape, filler=blank),
        log_probs=spread(log_probs, inside, shape),
    )


class _LinearAlignment(torch.autograd.Function):
    """See :func:`linear_alignment_loss`."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Optional[Tensor],
        transitions: Optional[Tensor],
        ids: Tensor,
        slots: Tensor,
        feasible: Tensor,
        posterior: Posterior,
        blank: int,
        chunk_size: int,
        want_best: bool,
    ) -> Tuple[Tensor, ...]:
        inside, shape = Places.inside(slots, hidden.size(1), hidden.device), hidden.shape[:2]
        trained = ctx.needs_input_grad[1] or ctx.needs_input_grad[2]
        # Of a frozen projection the scan also sums softmax(z)_v W_v: backward needs no second scan.
        wants_expected_row = ctx.needs_input_grad[0] and not trained
        scan_blank = blank if want_best else None
        scan, log_probs = _scan(
            hidden, weight, bias, ids, inside, scan_blank, chunk_size, wants_expected_row
        )
        loss, gamma, used, edges = posterior(log_probs, transitions)
        # An unalignable target gives inf and NaN.
        loss = loss.masked_fill(~feasible, 0.0)
        gamma = gamma.masked_fill(~feasible[:, None, None], 0.0)
        used = None if used is None else used[inside]
        ctx.edges = None if edges is None else edges.masked_fill(~feasible[:, None, None], 0.0)

        if wants_expected_row:
            label_rows = torch.matmul(gamma.to(weight.dtype), weight[ids])[inside]  # N C
            per_slot = _slot_gradients(scan.expected_row, label_rows, used, feasible[inside.rows])
            ctx.save_for_backward(per_slot.to(hidden.dtype))
        elif trained:
            log_sum_exp = scan.log_sum_exp
            ctx.save_for_backward(hidden, weight, bias, log_sum_exp, gamma, ids, feasible, used)
        ctx.trained, ctx.chunk_size, ctx.inside, ctx.shape = trained, chunk_size, inside, shape
        best = best_path(scan, inside, shape, blank) if want_best else _empty_path(ids, loss)
        ctx.mark_non_differentiable(*best)
        return (loss, *best)

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor, *_: Any) -> Tuple[Optional[Tensor], ...]:
        transitions = None if ctx.edges is None else -ctx.edges * grad_loss[:, None, None]
        if ctx.trained:
            return (*_trained_gradients(ctx, grad_loss), transitions, *(None,) * 7)
        if not ctx.needs_input_grad[0]:
            return (None, None, None, transitions, *(None,) * 7)
        (per_slot,) = ctx.saved_tensors
        scale = grad_loss[ctx.inside.rows, None].to(per_slot.dtype)
        return (
            spread(per_slot * scale, ctx.inside, ctx.shape),
            None,
            None,
            transitions,
            *(None,) * 7,
        )


def _empty_path(ids: Tensor, loss: Tensor) -> BestPath:
    """Return a path without slots: autograd functions return tensors alone."""
    return BestPath(ids.new_empty(0), ids.new_empty(0), loss.new_empty(0))


def _slot_gradients(
    expected_row: Optional[Tensor], label_rows: Tensor, used: Optional[Tensor], feasible: Tensor
) -> Tensor:
    """Compute o sum_v softmax(z)_v W_v - sum_k gamma_k W_k of each slot, (N, C).

    0 where ``feasible`` (N,) is False.
    """
    assert expected_row is not None
    row = expected_row if used is None else expected_row * used[:, None]
    return (row - label_rows).masked_fill(~feasible[:, None], 0.0)


def _trained_gradients(
    ctx: Any, grad_loss: Tensor
) -> Tuple[Optional[Tensor], Tensor, Optional[Tensor]]:
    """Compute the gradients of hidden, weight and bias.

    The softmax is recomputed in chunks, then the posteriors are subtracted.
    """
    hidden, weight, bias, log_sum_exp, gamma, ids, feasible, used = ctx.saved_tensors
    dtype = accumulation_dtype(hidden.dtype)
    grad_loss = (grad_loss * feasible).to(dtype)
    scale = grad_loss[ctx.inside.rows]  # N
    if used is not None:
        scale = (scale * used).masked_fill(~feasible[ctx.inside.rows], 0.0)
    flat, chunk_size = hidden[ctx.inside], training_chunk(ctx.chunk_size, hidden.device)  # N C
    grad_flat = flat.new_zeros(flat.shape, dtype=dtype)
    grad_weight = torch.zeros_like(weight, dtype=dtype)
    grad_bias = weight.new_zeros(weight.size(0), dtype=dtype)
    for first in range(0, flat.size(0), TOKEN_BLOCK):
        block = slice(first, first + TOKEN_BLOCK)
        for start in range(0, weight.size(0), chunk_size):
            end = min(start + chunk_size, weight.size(0))
            share = chunk_logits(flat[block], weight, bias, start, end)
            share = share.sub_(log_sum_exp[block, None]).exp_().mul_(scale[block, None])
            grad_bias[start:end] += share.sum(dim=0)
            share = share.to(weight.dtype)
            grad_flat[block] += share @ weight[start:end]
            grad_weight[start:end] += share.t() @ flat[block]
    gamma = gamma * grad_loss[:, None, None]  # B T K
    rows = weight[ids]
    grad_flat -= torch.matmul(gamma.to(rows.dtype), rows)[ctx.inside]
    label_sums = torch.matmul(gamma.transpose(1, 2), hidden.to(dtype))  # B K C
    grad_weight.index_add_(0, ids.flatten(), -label_sums.flatten(0, 1))
    grad_bias.index_add_(0, ids.flatten(), -gamma.sum(dim=1).flatten())
    grad_hidden = None
    if ctx.needs_input_grad[0]:
        grad_hidden = spread(grad_flat.to(hidden.dtype), ctx.inside, ctx.shape)
    bias_or_none = None if bias is None else grad_bias.to(bias.dtype)
    return grad_hidden, grad_weight.to(weight.dtype), bias_or_none
