"""Cross-entropy over a vocabulary-sized projection, a chunk of tokens at a time.

With z the logits of a token, t its target, p = softmax(z) and fairseq's two terms

    nll = -log p_t,    smooth = -sum_v log p_v,
    d nll / d z = p - 1_t,    d smooth / d z = V p - 1,

every gradient is made of p, the target's row and constants. The rows sum_v p_v W_v (N x C) are kept
from the forward pass. The weight's share sum_n p_n h_n needs the factor g_nll + V g_smooth of each
token. Whenever the loss is a sum, that factor is the same for all tokens: (1 - e - e_i) + V e_i = 1
for fairseq's label smoothing, e_i = e / (V - 1). So this share, too, is summed in the forward pass,
and backward only scales it: 6 N*C*V operations for a trained weight and 4 for a frozen one, as many
as materialised logits need. If the factor differs between tokens (a weighted loss), backward
computes the logits again: 8.
"""

from typing import Any, NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .vocab_scan import accumulation_dtype, chunk_logits, half_shares

DEFAULT_TOKEN_CHUNK = 256
"""Tokens projected at a time: at V = 250,002, 256 MB of float32 logits."""


class TokenLosses(NamedTuple):
    """Per-token values in nats, all of the target's shape."""

    nll: Tensor  # float, -log p of the target; 0 where the target is ignored
    smooth: Tensor  # float, -sum over the vocabulary of log p; 0 where ignored or not requested
    best: Optional[Tensor]  # int64, most probable token; -1 where ignored. None unless requested


def label_smoothed(nll: Tensor, smooth: Tensor, label_smoothing: float, vocab_size: int) -> Tensor:
    """Smooth as fairseq does: (1 - e - e_i) nll + e_i smooth with e_i = e / (V - 1)."""
    share = label_smoothing / (vocab_size - 1)
    return (1.0 - label_smoothing - share) * nll + share * smooth


def linear_nll(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    target: Tensor,
    label_smoothing: float = 0.0,
    chunk_size: int = DEFAULT_TOKEN_CHUNK,
    ignore_index: Optional[int] = None,
) -> Tuple[Tensor, Tensor]:
    """Compute the terms nll and smooth alone; see :func:`linear_token_losses`."""
    losses = linear_token_losses(
        hidden, weight, bias, target, label_smoothing, chunk_size, ignore_index
    )
    return losses.nll, losses.smooth


def linear_token_losses(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    target: Tensor,
    label_smoothing: float = 0.0,
    chunk_size: int = DEFAULT_TOKEN_CHUNK,
    ignore_index: Optional[int] = None,
    want_best: bool = False,
) -> TokenLosses:
    """Compute the two terms of fairseq's label-smoothed cross-entropy per token.

    Values and gradients are those of materialised logits ``linear(hidden, weight, bias)``, of which
    ``chunk_size`` x V exist at a time. They are computed in float32, or in float64 for float64
    input. :func:`label_smoothed` puts the terms together.

    Args:
        hidden, target: (..., C) floating-point and (...) int64.
        weight, bias: (V, C), and (V,) or None, frozen or trained.
        label_smoothing: epsilon in [0, 1); when 0 the smooth term is not computed.
        ignore_index: target that counts nothing; none when None.
        want_best: also return the most probable token.
    """
    if not 0.0 <= label_smoothing < 1.0:
        raise ValueError(f"label_smoothing must lie in [0, 1); got {label_smoothing}")
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1 token; got {chunk_size}")
    if hidden.shape[:-1] != target.shape or hidden.size(-1) != weight.size(1):
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (hidden, target, weight))
        raise ValueError(
            f"hidden, target and weight must be (..., C), (...) and (V, C); got {shapes}"
        )
    if ignore_index is None:
        rows, labels = hidden.flatten(0, -2), target.flatten()
    else:
        places = target.ne(ignore_index).nonzero(as_tuple=True)  # once: it waits for the device
        rows, labels = hidden[places], target[places]
    # Asked here: autograd has switched the gradient off inside forward.
    want_smooth, grad_enabled = label_smoothing > 0, torch.is_grad_enabled()
    nll, smooth, best = _LinearNLL.apply(
        rows, weight, bias, labels, want_smooth, chunk_size, want_best, grad_enabled
    )

    def spread(numbers: Tensor, filler: int) -> Tensor:
        """Bring (N,) to the target's shape."""
        if ignore_index is None:
            return numbers.view(target.shape)
        return numbers.new_full(target.shape, filler).index_put(places, numbers)

    return TokenLosses(spread(nll, 0), spread(smooth, 0), spread(best, -1) if want_best else None)


class _LinearNLL(torch.autograd.Function):
    """See :func:`linear_token_losses`; hidden (N, C), target (N,)."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Optional[Tensor],
        target: Tensor,
        want_smooth: bool,
        chunk_size: int,
        want_best: bool,
        grad_enabled: bool,
    ) -> Tuple[Tensor, Tensor, Tensor]:
        trained = grad_enabled and (ctx.needs_input_grad[1] or ctx.needs_input_grad[2])
        scan = _TokenScan(weight, bias, grad_enabled and ctx.needs_input_grad[0], trained)
        parts = [
            scan.block(
                hidden[first : first + chunk_size],
                target[first : first + chunk_size],
                want_smooth,
                want_best,
            )
            for first in range(0, max(hidden.size(0), 1), chunk_size)
        ]
        nll, smooth, best, log_sum_exp, expected = (torch.cat(column) for column in zip(*parts))
        ctx.save_for_backward(hidden, weight, bias, target, log_sum_exp, expected)
        # Not saved tensors: they are scaled in place, once.
        ctx.sums = (scan.weight_sum, scan.bias_sum) if trained else None
        ctx.want_smooth, ctx.chunk_size = want_smooth, chunk_size
        ctx.mark_non_differentiable(best)
        return nll, smooth, best

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_nll: Tensor, grad_smooth: Tensor, _: Any
    ) -> Tuple[Optional[Tensor], ...]:
        hidden, weight, bias, target, log_sum_exp, expected = ctx.saved_tensors
        dtype = log_sum_exp.dtype
        factor = grad_nll + weight.size(0) * grad_smooth if ctx.want_smooth else grad_nll  # N, of p
        grad_hidden = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_hidden = factor[:, None] * expected - grad_nll[:, None] * weight[target].to(dtype)
            if ctx.want_smooth:
                grad_hidden -= grad_smooth[:, None] * weight.sum(dim=0, dtype=dtype)
            grad_hidden = grad_hidden.to(hidden.dtype)
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            if ctx.sums is not None and len(factor) and bool(factor.min() == factor.max()):
                grad_weight, grad_bias = (part.mul_(factor[0]) for part in ctx.sums)
            else:
                grad_weight, grad_bias = _probability_sums(
                    hidden, weight, bias, log_sum_exp, factor, ctx.chunk_size
                )
            ctx.sums = None  # a second backward (retain_graph) computes them again
            flat = hidden.to(dtype)
            grad_weight.index_add_(0, target, -grad_nll[:, None] * flat)
            grad_bias.index_add_(0, target, -grad_nll)
            if ctx.want_smooth:
                grad_weight -= grad_smooth @ flat
                grad_bias -= grad_smooth.sum()
            grad_weight = grad_weight.to(weight.dtype)
            grad_bias = None if bias is None else grad_bias.to(bias.dtype)
        return (grad_hidden, grad_weight, grad_bias) + (None,) * 5


class _TokenScan:
    """Projects blocks of tokens, and sums their share of the gradients of weight and bias."""

    def __init__(self, weight: Tensor, bias: Optional[Tensor], want_expected: bool, trained: bool):
        self.weight, self.bias, self.want_expected = weight, bias, want_expected
        self.dtype = accumulation_dtype(weight.dtype)
        self.trained = trained
        if trained:
            self.weight_sum = torch.zeros_like(weight, dtype=self.dtype)
            self.bias_sum = weight.new_zeros(weight.size(0), dtype=self.dtype)

    def block(
        self, hidden: Tensor, target: Tensor, want_smooth: bool, want_best: bool
    ) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Compute nll, smooth, best, log-sum-exp, (n,) each, and expected output rows (n, C).

        What is not requested is 0, the target or empty.
        """
        logits = chunk_logits(hidden, self.weight, self.bias, 0, self.weight.size(0))  # n V
        maximum, best = logits.max(dim=1)
        target_logit = logits.gather(1, target[:, None])[:, 0]
        total = logits.sum(dim=1) if want_smooth else None
        share = logits.sub_(maximum[:, None]).exp_()
        mass = share.sum(dim=1)
        log_sum_exp = maximum + mass.log()
        smooth = torch.zeros_like(log_sum_exp)
        if total is not None:
            smooth = self.weight.size(0) * log_sum_exp - total
        expected = logits.new_empty(len(hidden), 0)
        if self.want_expected or self.trained:
            share, power = half_shares(share, mass, self.weight.dtype)
            mass = mass if power is None else mass * power
        if self.want_expected:
            expected = (share @ self.weight).to(self.dtype) / mass[:, None]
        if self.trained:
            scaled = hidden.to(self.dtype) / mass[:, None]
            add_product(self.weight_sum, share.t(), scaled.to(share.dtype))
            self.bias_sum += share.t().to(self.dtype) @ mass.reciprocal()
        nll = log_sum_exp - target_logit
        return nll, smooth, best if want_best else target, log_sum_exp, expected


def add_product(total: Tensor, first: Tensor, second: Tensor) -> None:
    """Add ``first @ second`` to ``total`` in place, without a buffer if the dtypes agree."""
    if total.dtype == first.dtype:
        total.addmm_(first, second)
    else:
        total += first @ second


def _probability_sums(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    log_sum_exp: Tensor,
    factor: Tensor,
    chunk_size: int,
) -> Tuple[Tensor, Tensor]:
    """Compute sum_n factor_n p_n h_n (V, C) and sum_n factor_n p_n (V,) from the logits again."""
    weight_sum = torch.zeros_like(weight, dtype=log_sum_exp.dtype)
    bias_sum = weight_sum.new_zeros(weight.size(0))
    for first in range(0, hidden.size(0), chunk_size):
        rows = slice(first, first + chunk_size)
        share = chunk_logits(hidden[rows], weight, bias, 0, weight.size(0))
        share = share.sub_(log_sum_exp[rows, None]).exp_().mul_(factor[rows, None])
        bias_sum += share.sum(dim=0)
        add_product(weight_sum, share.to(weight.dtype).t(), hidden[rows])
    return weight_sum, bias_sum
