"""One pass over a vocabulary-sized projection in chunks: log-sum-exp, expected output row and best tokens.

Never holds tokens x V: at most ``TOKEN_BLOCK`` x ``chunk_size`` logits exist at a time.
"""

from typing import NamedTuple, Optional

import torch
from torch import Tensor

DEFAULT_CHUNK_SIZE = 8192
"""Vocabulary rows a chunk; with TOKEN_BLOCK tokens, 64 MiB of float32 logits."""

TOKEN_BLOCK = 2048
"""Tokens a block: enough rows for the matrix product to run at full speed, few enough to bound the memory."""


class VocabScan(NamedTuple):
    """What one pass over the vocabulary yields for N tokens; fields that were not asked for are None.

    Attributes:
        log_sum_exp: (N,) float.
        expected_row: (N, C) float, sum over v of softmax(z)_v W_v: the part of the gradient that spans the vocabulary.
        blank_logit: (N,) float.
        piece_logit: (N,) float, best logit among all tokens but the blank.
        piece: (N,) int64, that token.
    """

    log_sum_exp: Tensor
    expected_row: Optional[Tensor]
    blank_logit: Optional[Tensor]
    piece_logit: Optional[Tensor]
    piece: Optional[Tensor]


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """float64 stays float64 (for tests); everything else accumulates in float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def chunk_logits(hidden: Tensor, weight: Tensor, bias: Optional[Tensor], start: int, end: int) -> Tensor:
    """Logits of vocabulary rows ``start`` to ``end``, (N, end - start), in the accumulation dtype."""
    rows = weight[start:end]
    if bias is None:
        logits = hidden @ rows.t()
    else:
        logits = torch.addmm(bias[start:end], hidden, rows.t())
    return logits.to(accumulation_dtype(hidden.dtype))


def check_chunk_size(chunk_size: int) -> None:
    """Raise ValueError unless ``chunk_size`` is a positive number of vocabulary rows."""
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1 vocabulary row; got {chunk_size}")


def scan_vocabulary(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    expected: bool = False,
    blank: Optional[int] = None,
) -> VocabScan:
    """Scan ``linear(hidden, weight, bias)`` once.

    The running maximum rescales what was summed before, as in the online softmax (Milakov and Gimelshein 2018).

    Args:
        hidden: (N, C).
        weight: (V, C).
        bias: (V,) or None.
        chunk_size: vocabulary rows a chunk.
        expected: also return the expected output row.
        blank: also return the blank's logit and the best other token.

    Returns:
        See :class:`VocabScan`.
    """
    check_chunk_size(chunk_size)
    blocks = [_scan_block(block, weight, bias, chunk_size, expected, blank) for block in hidden.split(TOKEN_BLOCK)]
    columns = [[part for part in parts if part is not None] for parts in zip(*blocks)]
    return VocabScan(*(torch.cat(parts) if parts else None for parts in columns))  # type: ignore[arg-type]


def _scan_block(
    hidden: Tensor, weight: Tensor, bias: Optional[Tensor], chunk_size: int, expected: bool, blank: Optional[int]
) -> VocabScan:
    dtype = accumulation_dtype(hidden.dtype)
    tokens = hidden.size(0)
    maximum = hidden.new_full((tokens,), float("-inf"), dtype=dtype)
    total = hidden.new_zeros(tokens, dtype=dtype)
    row = hidden.new_zeros(tokens, hidden.size(1), dtype=dtype) if expected else None
    piece_logit = maximum.clone()
    piece = torch.zeros(tokens, dtype=torch.int64, device=hidden.device)
    blank_logit: Optional[Tensor] = None
    for start in range(0, weight.size(0), chunk_size):
        end = min(start + chunk_size, weight.size(0))
        logits = chunk_logits(hidden, weight, bias, start, end)
        has_blank = blank is not None and start <= blank < end
        if has_blank:
            blank_logit = logits[:, blank - start].clone()  # type: ignore[operator]
            logits[:, blank - start] = float("-inf")  # type: ignore[operator]
        best, index = logits.max(dim=1)
        better = best > piece_logit
        piece_logit = torch.where(better, best, piece_logit)
        piece = torch.where(better, index + start, piece)
        if has_blank:
            logits[:, blank - start] = blank_logit  # type: ignore[operator,assignment]
            best = torch.maximum(best, blank_logit)  # type: ignore[arg-type]
        new_maximum = torch.maximum(maximum, best)
        rescale = torch.exp(maximum - new_maximum)
        share = logits.sub_(new_maximum[:, None]).exp_()
        total = total * rescale + share.sum(dim=1)
        if row is not None:
            row.mul_(rescale[:, None])
            row += share.to(weight.dtype) @ weight[start:end]
        maximum = new_maximum
    if row is not None:
        row /= total[:, None]
    log_sum_exp = maximum + total.log()
    if blank is None:
        return VocabScan(log_sum_exp, row, None, None, None)
    return VocabScan(log_sum_exp, row, blank_logit, piece_logit, piece)
