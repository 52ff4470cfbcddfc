"""CTC over a vocabulary-sized projection, without ever holding B x T x V.

Connectionist temporal classification (Graves et al. 2006) needs, of each slot's distribution, only the blank's and the
sentence's own labels' log-probabilities. Those are a few rows of the projection; the rest of the vocabulary enters through the
log-sum-exp, which one chunked pass gives. With z the logits of a slot and gamma the posterior of its labels,

    d loss / d z = softmax(z) - gamma,    so    d loss / d hidden = sum_v softmax(z)_v W_v - sum_k gamma_k W_k.

The first sum is accumulated in the same forward pass when the projection is frozen (4 units of B*T*C*V in all, as many as a
materialised projection needs); a trained projection is scanned again in backward (8 units against 6).
"""

from typing import Any, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .masks import lengths_to_padding_mask, move
from .places import Places, spread
from .vocab_scan import (
    DEFAULT_CHUNK_SIZE,
    TOKEN_BLOCK,
    accumulation_dtype,
    check_chunk_size,
    chunk_logits,
    scan_vocabulary,
)


class BestPath(NamedTuple):
    """The best token of every slot."""

    tokens: Tensor  # (B, T) int64, argmax over the vocabulary, the lowest id of equally good ones; the blank in padding
    pieces: Tensor  # (B, T) int64, argmax over the vocabulary without the blank
    log_probs: Tensor  # (B, T) float, log-probability of ``tokens`` in nats; 0 in padding


def alignable(targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int) -> Tensor:
    """(B,) bool: which ``targets`` (B, S), right-padded, CTC can emit: T >= S + adjacent repeats, and no blank among the labels."""
    input_lengths, target_lengths = (move(lengths, targets.device) for lengths in (input_lengths, target_lengths))
    inside = ~lengths_to_padding_mask(target_lengths, targets.size(1))
    repeats = ((targets[:, 1:] == targets[:, :-1]) & inside[:, 1:]).sum(dim=1)
    has_blank = ((targets == blank) & inside).any(dim=1)
    return (input_lengths >= target_lengths + repeats) & ~has_blank


def collapse_mask(tokens: Tensor, lengths: Tensor, blank: int) -> Tensor:
    """(B, T) bool: the slots that survive the collapse, the first of every run of equal tokens but blanks."""
    first = torch.ones_like(tokens, dtype=torch.bool)
    first[:, 1:] = tokens[:, 1:] != tokens[:, :-1]
    return first & tokens.ne(blank) & ~lengths_to_padding_mask(lengths, tokens.size(1))


def collapse(tokens: Tensor, lengths: Tensor, blank: int, pad: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    """CTC's collapse: merge runs of equal tokens (B, T), then drop blanks.

    Returns (B, T') int64 tokens, right-padded with ``pad`` (the blank when None), and their lengths (B,).
    """
    keep = collapse_mask(tokens, lengths, blank)
    kept = keep.sum(dim=1)
    out = tokens.new_full((tokens.size(0), int(kept.max()) if len(kept) else 0), blank if pad is None else pad)
    out[~lengths_to_padding_mask(kept, out.size(1))] = tokens[keep]
    return out, kept


def linear_best_path(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    lengths: Tensor,
    blank: int,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
) -> BestPath:
    """The best token of every slot of ``linear(hidden, weight, bias)``, in chunks of the vocabulary."""
    inside = Places.inside(lengths, hidden.size(1), hidden.device)
    scan = scan_vocabulary(hidden[inside], weight, bias, chunk_size, blank=blank)
    return _best_path(scan, inside, hidden.shape[:2], blank)


def linear_ctc_loss(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
) -> Tensor:
    """The loss alone, (B,) nats; see :func:`linear_ctc_with_best`."""
    return linear_ctc_with_best(
        hidden, weight, bias, targets, input_lengths, target_lengths, blank, chunk_size, want_best=False
    )[0]


def linear_ctc_with_best(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    want_best: bool = True,
) -> Tuple[Tensor, Optional[BestPath]]:
    """CTC loss of ``linear(hidden, weight, bias)`` per sentence, (B,) nats in float32 or float64, and the best path.

    Same value and gradient as ``ctc_loss(log_softmax(linear(hidden, weight, bias)))``. Weight and bias may be frozen (then no
    gradient is computed for them) or trained. A target that cannot be aligned (see :func:`alignable`) has loss and gradient 0.
    The best path comes from the same pass over the vocabulary; None unless ``want_best``.

    Args:
        hidden: (B, T, C); half precision is accumulated in float32, but the gradient keeps the rounding of half-precision
            probabilities (about 0.4 % of a weight row), which is noise once a slot is all but certain.
        weight, bias: (V, C), and (V,) or None.
        targets: (B, S) int64, right-padded with anything.
        input_lengths, target_lengths: (B,) int64, slots and labels; the device waits for the host less where they lie there.
        blank: a row of the projection.
        chunk_size: vocabulary rows per chunk.

    Source: Graves et al. 2006, equations 14 to 16; used in SGA section 4.3 and 4.4.
    """
    if not 0 <= blank < weight.size(0):
        raise ValueError(f"blank must be a row of the projection, in [0, {weight.size(0)}); got {blank}")
    check_chunk_size(chunk_size)
    loss, tokens, pieces, log_probs = _LinearCTC.apply(
        hidden, weight, bias, targets, input_lengths, target_lengths, blank, chunk_size, want_best
    )
    return loss, BestPath(tokens, pieces, log_probs) if want_best else None


def _best_path(scan: Any, inside: Places, shape: Sequence[int], blank: int) -> BestPath:
    is_blank = (scan.blank_logit > scan.piece_logit) | ((scan.blank_logit == scan.piece_logit) & (blank < scan.piece))
    best_logit = torch.where(is_blank, scan.blank_logit, scan.piece_logit)
    tokens, log_probs = scan.piece.masked_fill(is_blank, blank), best_logit - scan.log_sum_exp
    parts = (tokens, blank), (scan.piece, blank), (log_probs, 0)
    return BestPath(*(spread(part, inside, shape, filler) for part, filler in parts))


def _label_columns(targets: Tensor, target_lengths: Tensor, blank: int) -> Tuple[Tensor, Tensor]:
    """The alphabet of each sentence: column 0 is the blank, column j its label j.

    Returns the id of each column (B, 1 + S) and the first column that has the id of each label (B, S).
    """
    if targets.size(1) == 0:  # the reductions below need at least one label
        targets = targets.new_full((targets.size(0), 1), blank)
    targets = targets.masked_fill(lengths_to_padding_mask(target_lengths, targets.size(1), targets.device), blank)
    ids = torch.cat([torch.full_like(targets[:, :1], blank), targets], dim=1)  # B 1+S
    same = ids[:, 1:, None] == ids[:, None, :]  # B S 1+S
    return ids, same.int().argmax(dim=2)  # argmax returns the first maximum


def _posteriors(
    log_probs: Tensor, columns: Tensor, input_lengths: Tensor, target_lengths: Tensor
) -> Tuple[Tensor, Tensor]:
    """CTC over the sentence's own alphabet, of log-probabilities (B, T, 1 + S): loss (B,) and gamma (B, T, 1 + S).

    torch's backward returns exp(log_probs) - gamma for every column, whatever the rows sum to; adding exp(log_probs) gives the
    posterior gamma itself, from which the true gradient over the whole vocabulary is made.
    """
    log_probs = log_probs.transpose(0, 1).contiguous()  # T B 1+S
    with torch.enable_grad():
        log_probs.requires_grad_()
        # int64 targets: the native kernel, as cuDNN's needs int32 and handles infinities differently between versions.
        loss = F.ctc_loss(log_probs, columns, input_lengths, target_lengths, blank=0, reduction="none")
        (gradient,) = torch.autograd.grad(loss.sum(), log_probs)
    gamma = (log_probs.detach().exp() - gradient).transpose(0, 1)  # B T 1+S
    gamma = gamma.masked_fill(lengths_to_padding_mask(input_lengths, gamma.size(1), gamma.device)[..., None], 0.0)
    return loss.detach(), gamma


class _LinearCTC(torch.autograd.Function):
    """See :func:`linear_ctc_with_best`."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Optional[Tensor],
        targets: Tensor,
        input_lengths: Tensor,
        target_lengths: Tensor,
        blank: int,
        chunk_size: int,
        want_best: bool,
    ) -> Tuple[Tensor, ...]:
        feasible = alignable(targets, input_lengths, target_lengths, blank)
        inside, shape = Places.inside(input_lengths, hidden.size(1), hidden.device), hidden.shape[:2]
        trained = ctx.needs_input_grad[1] or ctx.needs_input_grad[2]
        expected = ctx.needs_input_grad[0] and not trained
        ids, columns = _label_columns(targets, target_lengths, blank)
        pick, flat = ids[inside.rows], hidden[inside]  # N 1+S, N C
        scan = scan_vocabulary(flat, weight, bias, chunk_size, expected, blank if want_best else None, pick)
        assert scan.picked is not None
        log_probs = spread(scan.picked - scan.log_sum_exp[:, None], inside, shape)
        loss, gamma = _posteriors(log_probs, columns, input_lengths, target_lengths)
        # An unalignable target gives inf and NaN.
        loss, gamma = loss.masked_fill(~feasible, 0.0), gamma.masked_fill(~feasible[:, None, None], 0.0)

        if expected:
            assert scan.expected_row is not None
            rows = weight[ids]  # B 1+S C
            own = torch.matmul(gamma.to(rows.dtype), rows)[inside]
            kept = feasible[inside.rows, None]
            ctx.save_for_backward(((scan.expected_row - own) * kept).to(hidden.dtype))
        elif trained:
            ctx.save_for_backward(hidden, weight, bias, scan.log_sum_exp, gamma, ids, feasible)
        ctx.trained, ctx.chunk_size, ctx.inside, ctx.shape = trained, chunk_size, inside, shape
        empty = targets.new_empty(0)
        best = _best_path(scan, inside, shape, blank) if want_best else (empty, empty.clone(), loss.new_empty(0))
        ctx.mark_non_differentiable(*best)
        return (loss, *best)

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor, *_: Any) -> Tuple[Optional[Tensor], ...]:
        if ctx.trained:
            return (*_trained_gradients(ctx, grad_loss), None, None, None, None, None, None)
        (per_slot,) = ctx.saved_tensors
        scale = grad_loss[ctx.inside.rows, None].to(per_slot.dtype)
        return (spread(per_slot * scale, ctx.inside, ctx.shape),) + (None,) * 8


def _trained_gradients(ctx: Any, grad_loss: Tensor) -> Tuple[Optional[Tensor], Tensor, Optional[Tensor]]:
    """Gradients for hidden, weight and bias: the softmax is recomputed in chunks, then the posteriors are subtracted."""
    hidden, weight, bias, log_sum_exp, gamma, ids, feasible = ctx.saved_tensors
    dtype = accumulation_dtype(hidden.dtype)
    grad_loss = (grad_loss * feasible).to(dtype)
    scale = grad_loss[ctx.inside.rows]  # N
    flat = hidden[ctx.inside]  # N C
    grad_flat = flat.new_zeros(flat.shape, dtype=dtype)
    grad_weight = torch.zeros_like(weight, dtype=dtype)
    grad_bias = weight.new_zeros(weight.size(0), dtype=dtype)
    for first in range(0, flat.size(0), TOKEN_BLOCK):
        block = slice(first, first + TOKEN_BLOCK)
        for start in range(0, weight.size(0), ctx.chunk_size):
            end = min(start + ctx.chunk_size, weight.size(0))
            share = chunk_logits(flat[block], weight, bias, start, end)
            share = share.sub_(log_sum_exp[block, None]).exp_().mul_(scale[block, None])
            grad_bias[start:end] += share.sum(dim=0)
            share = share.to(weight.dtype)
            grad_flat[block] += share @ weight[start:end]
            grad_weight[start:end] += share.t() @ flat[block]
    gamma = gamma * grad_loss[:, None, None]  # B T 1+S
    rows = weight[ids]
    grad_flat -= torch.matmul(gamma.to(rows.dtype), rows)[ctx.inside]
    own = torch.matmul(gamma.transpose(1, 2), hidden.to(dtype))  # B 1+S C
    grad_weight.index_add_(0, ids.flatten(), -own.flatten(0, 1))
    grad_bias.index_add_(0, ids.flatten(), -gamma.sum(dim=1).flatten())
    grad_hidden = spread(grad_flat.to(hidden.dtype), ctx.inside, ctx.shape) if ctx.needs_input_grad[0] else None
    return grad_hidden, grad_weight.to(weight.dtype), grad_bias.to(bias.dtype) if bias is not None else None
