"""CTC over a vocabulary-sized projection, and the collapse of its outputs.

:mod:`.linear_alignment` has the projection.
"""

from functools import partial
from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .linear_alignment import BestPath, Posteriors, best_path, linear_alignment_loss
from .masks import Places, lengths_to_padding_mask, move
from .vocab_scan import DEFAULT_CHUNK_SIZE, check_chunk_size, scan_vocabulary


def alignable(targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int) -> Tensor:
    """Mark the targets that CTC can emit: slots >= labels + adjacent repeats, none the blank.

    Args:
        targets: (B, S) int64, right-padded.
        input_lengths, target_lengths: (B,) int64, slots and labels.

    Returns:
        (B,) bool.
    """
    input_lengths = move(input_lengths, targets.device)
    target_lengths = move(target_lengths, targets.device)
    inside = ~lengths_to_padding_mask(target_lengths, targets.size(1))
    repeats = ((targets[:, 1:] == targets[:, :-1]) & inside[:, 1:]).sum(dim=1)
    has_blank = ((targets == blank) & inside).any(dim=1)
    return (input_lengths >= target_lengths + repeats) & ~has_blank


def collapse_mask(tokens: Tensor, lengths: Tensor, blank: int) -> Tensor:
    """Mark the slots that survive the collapse: the first of every run of equal tokens, no blanks.

    (B, T) bool.
    """
    first = torch.ones_like(tokens, dtype=torch.bool)
    first[:, 1:] = tokens[:, 1:] != tokens[:, :-1]
    return first & tokens.ne(blank) & ~lengths_to_padding_mask(lengths, tokens.size(1))


def collapse(
    tokens: Tensor, lengths: Tensor, blank: int, pad: Optional[int] = None
) -> Tuple[Tensor, Tensor]:
    """Merge runs of equal tokens (B, T), then drop blanks.

    Returns:
        (B, T') int64 tokens, right-padded with ``pad`` (the blank when None), and lengths (B,).
    """
    survives = collapse_mask(tokens, lengths, blank)  # B T
    counts = survives.sum(dim=1)  # B
    longest = int(counts.max()) if len(counts) else 0
    collapsed = tokens.new_full((len(counts), longest), blank if pad is None else pad)
    collapsed[~lengths_to_padding_mask(counts, longest)] = tokens[survives]
    return collapsed, counts


def linear_best_path(
    hidden: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    lengths: Tensor,
    blank: int,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
) -> BestPath:
    """Find the best token of every slot of ``linear(hidden, weight, bias)``.

    For the arguments see :func:`linear_ctc_with_best`.
    """
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
    """Compute the loss alone, (B,) nats; see :func:`linear_ctc_with_best`."""
    return linear_ctc_with_best(
        hidden,
        weight,
        bias,
        targets,
        input_lengths,
        target_lengths,
        blank,
        chunk_size,
        want_best=False,
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
    """Compute the CTC loss of ``linear(hidden, weight, bias)``, and the best path in the same pass.

    Value and gradient are those of ``ctc_loss(log_softmax(linear(hidden, weight, bias)))``. A
    target that cannot be aligned (see :func:`alignable`) has loss and gradient 0.

    Args:
        hidden: (B, T, C). Half precision is accumulated in float32, but its probabilities are
            rounded (by about 0.4 % in bfloat16). In a slot that is all but certain the true
            gradient is smaller than this error, so there the gradient is noise.
        weight, bias: (V, C), and (V,) or None. Frozen ones get no gradient.
        targets: (B, S) int64, right-padded with anything.
        input_lengths, target_lengths: (B,) int64, numbers of slots and labels. If they lie on the
            host, it need not wait for the device.
        blank: a row of the projection.
        chunk_size: vocabulary rows per chunk.

    Returns:
        (B,) nats in float32 or float64, and the best path; None unless ``want_best``.

    Source: Graves et al. 2006, equations 14 to 16; used in SGA sections 4.3 and 4.4.
    """
    if not 0 <= blank < weight.size(0):
        raise ValueError(
            f"blank must be a row of the projection, in [0, {weight.size(0)}); got {blank}"
        )
    check_chunk_size(chunk_size)
    feasible = alignable(targets, input_lengths, target_lengths, blank)
    ids, columns = label_columns(targets, target_lengths, blank)
    posterior = partial(
        _posteriors, columns=columns, input_lengths=input_lengths, target_lengths=target_lengths
    )
    return linear_alignment_loss(
        hidden,
        weight,
        bias,
        None,
        ids,
        input_lengths,
        feasible,
        posterior,
        blank,
        chunk_size,
        want_best,
    )


def label_columns(targets: Tensor, target_lengths: Tensor, blank: int) -> Tuple[Tensor, Tensor]:
    """Build the alphabet of each sentence: column 0 is the blank, column j its label j.

    Returns:
        The id of each column, (B, 1 + S), and the first column that has the id of each label,
        (B, S).
    """
    if targets.size(1) == 0:  # the reductions below need at least one label
        targets = targets.new_full((targets.size(0), 1), blank)
    targets = targets.masked_fill(
        lengths_to_padding_mask(target_lengths, targets.size(1), targets.device), blank
    )
    ids = torch.cat([torch.full_like(targets[:, :1], blank), targets], dim=1)  # B 1+S
    has_label_id = ids[:, 1:, None] == ids[:, None, :]  # B S 1+S
    return ids, has_label_id.int().argmax(dim=2)  # argmax returns the first maximum


def _posteriors(
    log_probs: Tensor, _: None, columns: Tensor, input_lengths: Tensor, target_lengths: Tensor
) -> Posteriors:
    """Compute CTC over the sentence's alphabet, of log-probabilities (B, T, 1 + S).

    torch's backward returns exp(log_probs) - gamma for every column, whatever the rows sum to.
    Adding exp(log_probs) gives the posterior gamma, from which the gradient over the whole
    vocabulary is made.
    """
    log_probs = log_probs.transpose(0, 1).contiguous()  # T B 1+S
    with torch.enable_grad():
        log_probs.requires_grad_()
        # int64 targets choose the native kernel: cuDNN's versions differ in infinities.
        loss = F.ctc_loss(
            log_probs, columns, input_lengths, target_lengths, blank=0, reduction="none"
        )
        (gradient,) = torch.autograd.grad(loss.sum(), log_probs)
    gamma = (log_probs.detach().exp() - gradient).transpose(0, 1)  # B T 1+S
    gamma = gamma.masked_fill(
        lengths_to_padding_mask(input_lengths, gamma.size(1), gamma.device)[..., None], 0.0
    )
    return Posteriors(loss.detach(), gamma)
