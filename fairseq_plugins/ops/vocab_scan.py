"""Scan a vocabulary-sized projection in chunks: log-sum-exp, expected output row, best tokens.

Never holds tokens x V: at most ``TOKEN_BLOCK`` x ``chunk_size`` logits exist at a time.
"""

from typing import Any, Iterable, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from torch import Tensor

from .linear import linear

DEFAULT_CHUNK_SIZE = 8192
"""Vocabulary rows per chunk; with TOKEN_BLOCK tokens, 64 MiB of float32 logits."""

CPU_CHUNK_SIZE = 2048
"""Largest number of vocabulary rows per chunk in training on the CPU.

A scan reads and writes its logits several times, and 16 MiB of them stay in the cache. In bfloat16
this is twice as fast as 64 MiB at a vocabulary of 8,000, and a tenth faster at 250,000.
"""

TOKEN_BLOCK = 2048
"""Tokens per block: enough for a fast matrix product, few enough to bound the memory."""


class VocabScan(NamedTuple):
    """Output of a pass over the vocabulary for N tokens; a field that was not requested is None."""

    log_sum_exp: Tensor  # (N,) float
    expected_row: Optional[Tensor]  # (N, C) float, sum_v softmax(z)_v W_v, a part of the gradient
    label_logits: Optional[Tensor]  # (N, U) float, logits of the requested tokens
    blank_logit: Optional[Tensor]  # (N,) float
    piece_logit: Optional[Tensor]  # (N,) float, best logit among all tokens but the blank
    piece: Optional[Tensor]  # (N,) int64, that token; the lowest id of equally good ones


class TopScan(NamedTuple):
    """The likeliest tokens of N slots, the blank apart."""

    log_probs: Tensor  # (N, K) float, nats, in descending order
    tokens: Tensor  # (N, K) int64; of equally likely ones the lower id first
    blank_log_prob: Tensor  # (N,) float, nats
    log_sum_exp: Tensor  # (N,) float


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return float64 for float64 (in tests), else float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def half_shares(share: Tensor, mass: Tensor, dtype: torch.dtype) -> Tuple[Tensor, Optional[Tensor]]:
    """Convert shares exp(z - max) (N, V) to the type of the weight, for a matrix product.

    float16 ends at 65,504, which a sum over many rows of a weight exceeds. There each token's
    shares, whose sum is ``mass`` (N,), are multiplied by a power of two, so that they sum to at
    most 1,024.

    Returns:
        The shares, and the powers (N,), by which the caller divides its product; None unless
        ``dtype`` is float16.
    """
    if dtype != torch.float16:
        return share.to(dtype), None
    power = torch.exp2(-(mass / 1024).log2().ceil().clamp(min=0))
    return (share * power[:, None]).to(dtype), power


def chunk_logits(
    hidden: Tensor, weight: Tensor, bias: Optional[Tensor], start: int, end: int
) -> Tensor:
    """Compute logits (N, end - start) of some vocabulary rows, in the accumulation dtype."""
    logits = linear(hidden, weight[start:end], None if bias is None else bias[start:end])
    return logits.to(accumulation_dtype(hidden.dtype))


def exact_logits(hidden: Tensor, rows: Tensor, bias: Optional[Tensor]) -> Tensor:
    """Compute logits in the accumulation dtype: nothing is rounded to half precision.

    Args:
        hidden: (B, N, C).
        rows: (B, U, C), some rows of the projection.
        bias: (B, 1, U), theirs, or None.

    Returns:
        (B, N, U).
    """
    dtype = accumulation_dtype(hidden.dtype)
    logits = torch.matmul(hidden.to(dtype), rows.to(dtype).transpose(-1, -2))
    return logits if bias is None else logits + bias.to(dtype)


def _exact_rows(
    hidden: Tensor, weight: Tensor, bias: Optional[Tensor], start: int, end: int
) -> Tensor:
    """Compute :func:`exact_logits` of rows ``start`` to ``end``. (N, C) -> (N, end - start)."""
    dtype = accumulation_dtype(hidden.dtype)
    rows_bias = None if bias is None else bias[start:end].to(dtype)
    return linear(hidden.to(dtype), weight[start:end].to(dtype), rows_bias)


def check_chunk_size(chunk_size: int, name: str = "chunk_size") -> None:
    """Raise ValueError for a chunk without a row."""
    if chunk_size < 1:
        raise ValueError(f"{name} must be at least 1 vocabulary row; got {chunk_size}")


def training_chunk(chunk_size: int, device: torch.device) -> int:
    """Choose the vocabulary rows per chunk of a loss and its gradient."""
    return min(chunk_size, CPU_CHUNK_SIZE) if device.type == "cpu" else chunk_size


def scan_vocabulary(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    expected: bool = False,
    blank: Optional[int] = None,
    labels: Optional[Tensor] = None,
) -> VocabScan:
    """Scan ``linear(hidden, weight, bias)`` once.

    The running maximum rescales what was summed before.

    Args:
        hidden: (N, C).
        weight, bias: (V, C), and (V,) or None.
        chunk_size: vocabulary rows per chunk.
        expected: also return the expected output row.
        blank: also return the blank's logit and the best other token.
        labels: (N, U) int64, tokens whose logits are returned too. These are the very numbers that
            enter the log-sum-exp: in half precision, logits of another matrix product are rounded
            differently and give probabilities above one.

    Source: Milakov and Gimelshein 2018, online softmax.
    """
    check_chunk_size(chunk_size)
    blocks = []
    for first in range(0, max(hidden.size(0), 1), TOKEN_BLOCK):
        rows = slice(first, first + TOKEN_BLOCK)
        block_labels = None if labels is None else labels[rows]
        block = _Block(hidden[rows], weight, bias, expected, blank, block_labels)
        for start in range(0, weight.size(0), chunk_size):
            block.add(start, min(start + chunk_size, weight.size(0)))
        blocks.append(block.result())
    return VocabScan(*(_join(parts) for parts in zip(*blocks)))


def _join(parts: Sequence[Optional[Tensor]]) -> Any:
    """Concatenate a field of all blocks; None if it was not requested."""
    tensors = [part for part in parts if part is not None]
    return torch.cat(tensors) if tensors else None


def scan_top(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    count: int,
    blank: int,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    excluded: Iterable[int] = (),
) -> TopScan:
    """Find the ``count`` likeliest tokens of every slot of ``linear(hidden, weight, bias)``.

    Probabilities are those of the whole vocabulary. A vocabulary with fewer tokens gives fewer.

    Args:
        hidden: (N, C).
        weight, bias: (V, C), and (V,) or None.
        blank: never among the tokens.
        excluded: never among the tokens either.
    """
    check_chunk_size(chunk_size)
    excluded = {blank, *excluded}
    count = min(count, weight.size(0) - len(excluded))
    blocks = []
    for first in range(0, max(hidden.size(0), 1), TOKEN_BLOCK):
        rows = slice(first, first + TOKEN_BLOCK)
        blocks.append(
            _scan_top_of_block(hidden[rows], weight, bias, count, blank, excluded, chunk_size)
        )
    return TopScan(*(torch.cat(parts) for parts in zip(*blocks)))


def _scan_top_of_block(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    count: int,
    blank: int,
    excluded: Set[int],
    chunk_size: int,
) -> TopScan:
    """Run :func:`scan_top` on a block: merge the best of each chunk with those before it."""
    best = hidden.new_empty(hidden.size(0), 0, dtype=accumulation_dtype(hidden.dtype))
    tokens = torch.empty(best.shape, dtype=torch.int64, device=hidden.device)
    sums, blank_logit = [], best.new_zeros(hidden.size(0))
    for start in range(0, weight.size(0), chunk_size):
        end = min(start + chunk_size, weight.size(0))
        logits = _exact_rows(hidden, weight, bias, start, end)
        sums.append(logits.logsumexp(dim=1))
        if start <= blank < end:
            blank_logit = logits[:, blank - start].clone()
        columns = [token - start for token in excluded if start <= token < end]
        logits[:, columns] = float("-inf")
        chunk_best, indices = _find_largest(logits, min(count, end - start))
        candidates = torch.cat([best, chunk_best], dim=1)
        best, order = candidates.sort(dim=1, descending=True, stable=True)
        best, order = best[:, :count], order[:, :count]
        tokens = torch.cat([tokens, indices + start], dim=1).gather(1, order)
    log_sum_exp = torch.stack(sums).logsumexp(dim=0)
    return TopScan(best - log_sum_exp[:, None], tokens, blank_logit - log_sum_exp, log_sum_exp)


def _find_largest(logits: Tensor, count: int) -> Tuple[Tensor, Tensor]:
    """Find the largest ``count`` of each row, in descending order; of equal ones the first.

    (N, V) -> values and indices, (N, K) each.
    """
    best, indices = logits.topk(count, dim=1)
    last = best[:, -1:]
    has_ties = (logits == last).sum(dim=1) > (best == last).sum(dim=1)  # N
    for row in has_ties.nonzero()[:, 0].tolist():  # topk takes any of those equal to the last
        indices[row] = logits[row].argsort(descending=True, stable=True)[:count]
    indices = indices.sort(dim=1).values
    best, order = logits.gather(1, indices).sort(dim=1, descending=True, stable=True)
    return best, indices.gather(1, order)


class _Block:
    """Running maxima and sums of a block of tokens; see :func:`scan_vocabulary`."""

    def __init__(
        self,
        hidden: Tensor,
        weight: Tensor,
        bias: Optional[Tensor],
        expected: bool,
        blank: Optional[int],
        labels: Optional[Tensor],
    ):
        dtype = accumulation_dtype(hidden.dtype)
        tokens = hidden.size(0)
        self.hidden, self.weight, self.bias = hidden, weight, bias
        self.blank, self.labels = blank, labels
        self.maximum = hidden.new_full((tokens,), float("-inf"), dtype=dtype)
        self.total = hidden.new_zeros(tokens, dtype=dtype)
        self.row = hidden.new_zeros(tokens, hidden.size(1), dtype=dtype) if expected else None
        self.label_logits: Optional[Tensor] = None
        if labels is not None:
            self.label_logits = hidden.new_zeros(labels.shape, dtype=dtype)
        self.piece_logit = self.maximum.clone()
        self.blank_logit = self.maximum.clone()
        self.piece = torch.zeros(tokens, dtype=torch.int64, device=hidden.device)

    def add(self, start: int, end: int) -> None:
        """Scan the vocabulary rows from ``start`` to before ``end``."""
        logits = chunk_logits(self.hidden, self.weight, self.bias, start, end)
        if self.labels is not None and self.label_logits is not None:
            in_chunk = (self.labels >= start) & (self.labels < end)
            chunk_labels = logits.gather(1, (self.labels - start).clamp(0, end - start - 1))
            self.label_logits = torch.where(in_chunk, chunk_labels, self.label_logits)
        best = self._update_best(logits, start, end)
        maximum = torch.maximum(self.maximum, best)
        rescale = torch.exp(self.maximum - maximum)
        share = logits.sub_(maximum[:, None]).exp_()
        mass = share.sum(dim=1)
        self.total = self.total * rescale + mass
        if self.row is not None:
            share, power = half_shares(share, mass, self.weight.dtype)
            self.row.mul_(rescale[:, None])
            row = share @ self.weight[start:end]
            self.row += row if power is None else row.to(power.dtype) / power[:, None]
        self.maximum = maximum

    def _update_best(self, logits: Tensor, start: int, end: int) -> Tensor:
        """Update the blank's logit and the best other token; ``logits`` stay as they are.

        Returns the chunk's maximum, (N,).
        """
        if self.blank is None:
            return logits.max(dim=1).values
        column = self.blank - start if start <= self.blank < end else None
        if column is not None:
            self.blank_logit = logits[:, column].clone()
            logits[:, column] = float("-inf")
        best, index = logits.max(dim=1)
        better = best > self.piece_logit
        self.piece_logit = torch.where(better, best, self.piece_logit)
        self.piece = torch.where(better, index + start, self.piece)
        if column is not None:
            logits[:, column] = self.blank_logit
            best = torch.maximum(best, self.blank_logit)
        return best

    def result(self) -> VocabScan:
        """Return the outcome of all chunks."""
        row = None if self.row is None else self.row / self.total[:, None]
        log_sum_exp = self.maximum + self.total.log()
        if self.blank is None:
            return VocabScan(log_sum_exp, row, self.label_logits, None, None, None)
        best = self.blank_logit, self.piece_logit, self.piece
        return VocabScan(log_sum_exp, row, self.label_logits, *best)
