"""One pass over a vocabulary-sized projection in chunks: log-sum-exp, expected output row and best tokens.

Never holds tokens x V: at most ``TOKEN_BLOCK`` x ``chunk_size`` logits exist at a time.
"""

from typing import Iterable, NamedTuple, Optional, Set, Tuple

import torch
from torch import Tensor

from .linear import linear

DEFAULT_CHUNK_SIZE = 8192
"""Vocabulary rows a chunk; with TOKEN_BLOCK tokens, 64 MiB of float32 logits."""

CPU_CHUNK_SIZE = 2048
"""Vocabulary rows per chunk, at most, in training on the CPU: a scan reads and writes its logits several times, and 16 MiB of them
stay in the cache. In bfloat16 twice as fast as 64 MiB at 8,000 rows in all, a tenth faster at 250,000."""

TOKEN_BLOCK = 2048
"""Tokens a block: enough rows for the matrix product to run at full speed, few enough to bound the memory."""


class VocabScan(NamedTuple):
    """What one pass over the vocabulary yields for N tokens; fields that were not asked for are None."""

    log_sum_exp: Tensor  # (N,) float
    expected_row: Optional[
        Tensor
    ]  # (N, C) float, sum over v of softmax(z)_v W_v: the gradient's part that spans the vocabulary
    picked: Optional[Tensor]  # (N, U) float, the logits of the tokens that were asked for
    blank_logit: Optional[Tensor]  # (N,) float
    piece_logit: Optional[Tensor]  # (N,) float, best logit among all tokens but the blank
    piece: Optional[Tensor]  # (N,) int64, that token; the lowest id of equally good ones


class TopScan(NamedTuple):
    """The likeliest tokens of N slots, the blank apart."""

    log_probs: Tensor  # (N, K) float, nats, falling
    tokens: Tensor  # (N, K) int64; of equally likely ones the lower id first
    blank_log_prob: Tensor  # (N,) float, nats
    log_sum_exp: Tensor  # (N,) float


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """float64 stays float64 (for tests); everything else accumulates in float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def half_shares(share: Tensor, mass: Tensor, dtype: torch.dtype) -> Tuple[Tensor, Optional[Tensor]]:
    """Shares exp(z - max) (N, V) of some vocabulary rows in the type of the weight, for a matrix product.

    float16 ends at 65,504, which a sum over so many rows of a weight exceeds: there each token's shares, whose sum is ``mass``
    (N,), are multiplied by a power of two that leaves them a sum of at most 1,024. The powers (N,) are returned too, or None.
    """
    if dtype != torch.float16:
        return share.to(dtype), None
    power = torch.exp2(-(mass / 1024).log2().ceil().clamp(min=0))
    return (share * power[:, None]).to(dtype), power


def chunk_logits(hidden: Tensor, weight: Tensor, bias: Optional[Tensor], start: int, end: int) -> Tensor:
    """Logits (N, end - start) of some vocabulary rows, in the accumulation dtype."""
    logits = linear(hidden, weight[start:end], None if bias is None else bias[start:end])
    return logits.to(accumulation_dtype(hidden.dtype))


def exact_logits(hidden: Tensor, rows: Tensor, bias: Optional[Tensor]) -> Tensor:
    """Logits (B, N, U) of some rows (B, U, C) of the projection, with their bias (B, 1, U) or None, in the accumulation dtype.

    They are multiplied and summed there: nothing is rounded to half precision.
    """
    dtype = accumulation_dtype(hidden.dtype)
    logits = torch.matmul(hidden.to(dtype), rows.to(dtype).transpose(-1, -2))
    return logits if bias is None else logits + bias.to(dtype)


def _exact_rows(hidden: Tensor, weight: Tensor, bias: Optional[Tensor], start: int, end: int) -> Tensor:
    """Compute :func:`exact_logits` of rows ``start`` to ``end``. (N, C) -> (N, end - start)."""
    dtype = accumulation_dtype(hidden.dtype)
    rows_bias = None if bias is None else bias[start:end].to(dtype)
    return linear(hidden.to(dtype), weight[start:end].to(dtype), rows_bias)


def check_chunk_size(chunk_size: int, name: str = "chunk_size") -> None:
    if chunk_size < 1:
        raise ValueError(f"{name} must be at least 1 vocabulary row; got {chunk_size}")


def training_chunk(chunk_size: int, device: torch.device) -> int:
    """Choose the vocabulary rows per chunk for a loss and its gradient; decoding keeps ``chunk_size``."""
    return min(chunk_size, CPU_CHUNK_SIZE) if device.type == "cpu" else chunk_size


def scan_vocabulary(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    expected: bool = False,
    blank: Optional[int] = None,
    pick: Optional[Tensor] = None,
) -> VocabScan:
    """Scan ``linear(hidden, weight, bias)`` once, of hidden (N, C), weight (V, C), bias (V,) or None.

    The running maximum rescales what was summed before, as in the online softmax (Milakov and Gimelshein 2018).

    Args:
        chunk_size: vocabulary rows per chunk.
        expected: also return the expected output row.
        blank: also return the blank's logit and the best other token.
        pick: (N, U) int64, tokens whose logits are returned as well. They are the very numbers that enter the log-sum-exp: in
            half precision, logits from another matrix product are rounded differently and give probabilities above one.
    """
    check_chunk_size(chunk_size)
    blocks = []
    for first in range(0, max(hidden.size(0), 1), TOKEN_BLOCK):
        rows = slice(first, first + TOKEN_BLOCK)
        block = _Block(hidden[rows], weight, bias, expected, blank, None if pick is None else pick[rows])
        for start in range(0, weight.size(0), chunk_size):
            block.add(start, min(start + chunk_size, weight.size(0)))
        blocks.append(block.result())
    columns = [[part for part in parts if part is not None] for parts in zip(*blocks)]
    return VocabScan(*(torch.cat(parts) if parts else None for parts in columns))  # type: ignore[arg-type]


def scan_top(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    count: int,
    blank: int,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    excluded: Iterable[int] = (),
) -> TopScan:
    """The likeliest tokens of every slot of ``linear(hidden, weight, bias)``, by the probabilities of the whole vocabulary.

    ``count`` tokens per slot, or as many as there are, and never the blank or one of ``excluded``; hidden (N, C), weight (V, C),
    bias (V,) or None.
    """
    check_chunk_size(chunk_size)
    barred = {blank, *excluded}
    count = min(count, weight.size(0) - len(barred))
    blocks = []
    for first in range(0, max(hidden.size(0), 1), TOKEN_BLOCK):
        rows = slice(first, first + TOKEN_BLOCK)
        blocks.append(_top_of_block(hidden[rows], weight, bias, count, blank, barred, chunk_size))
    return TopScan(*(torch.cat(parts) for parts in zip(*blocks)))


def _top_of_block(
    hidden: Tensor, weight: Tensor, bias: Optional[Tensor], count: int, blank: int, barred: Set[int], chunk_size: int
) -> TopScan:
    """:func:`scan_top` of one block: the best so far and the best of each chunk, sorted together."""
    best = hidden.new_empty(hidden.size(0), 0, dtype=accumulation_dtype(hidden.dtype))
    tokens = torch.empty(best.shape, dtype=torch.int64, device=hidden.device)
    sums, blank_logit = [], best.new_zeros(hidden.size(0))
    for start in range(0, weight.size(0), chunk_size):
        end = min(start + chunk_size, weight.size(0))
        logits = _exact_rows(hidden, weight, bias, start, end)
        sums.append(logits.logsumexp(dim=1))
        if start <= blank < end:
            blank_logit = logits[:, blank - start].clone()
        logits[:, [token - start for token in barred if start <= token < end]] = float("-inf")
        values, indices = _largest(logits, min(count, end - start))
        best, order = torch.cat([best, values], dim=1).sort(dim=1, descending=True, stable=True)
        best, order = best[:, :count], order[:, :count]
        tokens = torch.cat([tokens, indices + start], dim=1).gather(1, order)
    log_sum_exp = torch.stack(sums).logsumexp(dim=0)
    return TopScan(best - log_sum_exp[:, None], tokens, blank_logit - log_sum_exp, log_sum_exp)


def _largest(values: Tensor, count: int) -> Tuple[Tensor, Tensor]:
    """The largest ``count`` of each row, falling; of equal ones the first, as ``argmax`` takes it. (N, V) -> (N, K) twice."""
    best, indices = values.topk(count, dim=1)
    last = best[:, -1:]
    for row in ((values == last).sum(dim=1) > (best == last).sum(dim=1)).nonzero()[:, 0].tolist():
        # topk takes any of those equal to the last
        indices[row] = values[row].argsort(descending=True, stable=True)[:count]
    indices = indices.sort(dim=1).values
    best, order = values.gather(1, indices).sort(dim=1, descending=True, stable=True)
    return best, indices.gather(1, order)


class _Block:
    """The running values of one block of tokens; see :func:`scan_vocabulary`."""

    def __init__(
        self,
        hidden: Tensor,
        weight: Tensor,
        bias: Optional[Tensor],
        expected: bool,
        blank: Optional[int],
        pick: Optional[Tensor],
    ):
        dtype = accumulation_dtype(hidden.dtype)
        tokens = hidden.size(0)
        self.hidden, self.weight, self.bias, self.blank, self.pick = hidden, weight, bias, blank, pick
        self.maximum = hidden.new_full((tokens,), float("-inf"), dtype=dtype)
        self.total = hidden.new_zeros(tokens, dtype=dtype)
        self.row = hidden.new_zeros(tokens, hidden.size(1), dtype=dtype) if expected else None
        self.picked = None if pick is None else hidden.new_zeros(pick.shape, dtype=dtype)
        self.piece_logit = self.maximum.clone()
        self.blank_logit = self.maximum.clone()
        self.piece = torch.zeros(tokens, dtype=torch.int64, device=hidden.device)

    def add(self, start: int, end: int) -> None:
        logits = chunk_logits(self.hidden, self.weight, self.bias, start, end)
        if self.pick is not None and self.picked is not None:
            here = (self.pick >= start) & (self.pick < end)
            found = logits.gather(1, (self.pick - start).clamp(0, end - start - 1))
            self.picked = torch.where(here, found, self.picked)
        best = self._best(logits, start, end)
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

    def _best(self, logits: Tensor, start: int, end: int) -> Tensor:
        """Keep the blank's logit and the best other token; returns the largest logit of the chunk, (N,)."""
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
        row = None if self.row is None else self.row / self.total[:, None]
        log_sum_exp = self.maximum + self.total.log()
        if self.blank is None:
            return VocabScan(log_sum_exp, row, self.picked, None, None, None)
        return VocabScan(log_sum_exp, row, self.picked, self.blank_logit, self.piece_logit, self.piece)
