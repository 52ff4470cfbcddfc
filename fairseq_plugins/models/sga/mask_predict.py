"""SGA with ``--alignment mask_predict``: the losses of the masked tokens."""

from typing import Any, Dict, Tuple

import torch
from torch import Tensor

from ...ops.masks import lengths_to_padding_mask
from ...ops.vocab_loss import label_smoothed, linear_token_losses
from .guidance import Guidance


def masked_losses(
    model: Any,
    guidance: Guidance,
    targets: Tensor,
    lengths: Tensor,
    masked: Tensor,
    label_smoothing: float = 0.0,
    read_all: bool = False,
) -> Tuple[Dict[str, Tensor], Tensor]:
    """Loss 1 by mask-predict.

    Args:
        targets: (B, U) int64, right-padded; ``lengths`` (B,).
        masked: (B, U) bool, True = to be predicted.
        label_smoothing: of the masked tokens' cross-entropy, in [0, 1).
        read_all: the denoiser reads the best token at every position, not at the masked ones alone.

    Returns:
        ``alignment`` and, with smoothing, ``alignment_nll`` (without gradient, no part of the total), (B,) nats
        each; what the denoiser reads, (B, upsample U).
    """
    (weight, bias), pad = model.projection, model.masked_lm.sizes.padding_idx
    outside = lengths_to_padding_mask(lengths, targets.size(1), targets.device)
    tokens = targets.masked_fill(masked | outside, model.mask)
    hidden = model.run_unit(tokens, lengths.clamp(min=1), model.alignment_prompts, guidance)
    read = ~outside if read_all else masked
    labels = targets.masked_fill(~read, pad)
    found = linear_token_losses(hidden, weight, bias, labels, label_smoothing, ignore_index=pad, want_best=True)
    assert found.best is not None
    losses = {"alignment": found.nll.masked_fill(~masked, 0.0).sum(dim=1)}
    if label_smoothing:
        smoothed = label_smoothed(found.nll, found.smooth, label_smoothing, weight.size(0))
        losses["alignment_nll"] = losses["alignment"].detach()
        losses["alignment"] = smoothed.masked_fill(~masked, 0.0).sum(dim=1)
    return losses, model.duplicate(torch.where(read, found.best, tokens))
