"""CTC over a vocabulary-sized projection (see :mod:`.linear_alignment`), and the collapse of its outputs."""

from functools import partial
from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .linear_alignment import BestPath, Posteriors, best_path, linear_alignment_loss
from .masks import Places, lengths_to_padding_mask, move
from .vocab_scan import DEFAULT_CHUNK_SIZE, check_chunk_size, scan_vocabulary


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
    return best_path(scan, inside, hidden.shape[:2], blank)


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
    feasible = alignable(targets, input_lengths, target_lengths, blank)
    ids, columns = label_columns(targets, target_lengths, blank)
    posterior = partial(_posteriors, columns=columns, input_lengths=input_lengths, target_lengths=target_lengths)
    return linear_alignment_loss(
        hidden, weight, bias, None, ids, input_lengths, feasible, posterior, blank, chunk_size, want_best
    )


def label_columns(targets: Tensor, target_lengths: Tensor, blank: int) -> Tuple[Tensor, Tensor]:
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
    log_probs: Tensor, _: None, columns: Tensor, input_lengths: Tensor, target_lengths: Tensor
) -> Posteriors:
    """CTC over the sentence's own alphabet, of log-probabilities (B, T, 1 + S).

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
    return Posteriors(loss.detach(), gamma)
