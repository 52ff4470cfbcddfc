"""SGA with ``--alignment mask_predict``: the losses of the masked tokens and of the length."""

from typing import Any, Dict, Tuple

import torch
from torch import Tensor

from ..ops.masks import lengths_to_padding_mask, move
from ..ops.vocab_loss import label_smoothed, linear_token_losses
from .lengths import length_nll
from .units import Guidance


def masked_losses(
    model: Any,
    guidance: Guidance,
    targets: Tensor,
    lengths: Tensor,
    masked: Tensor,
    label_smoothing: float = 0.0,
    read_all: bool = False,
) -> Tuple[Dict[str, Tensor], Tensor]:
    """Loss 1 by mask-predict, and the loss of the length.

    Args:
        targets: (B, U) int64, right-padded; ``lengths`` (B,).
        masked: (B, U) bool, True = to be predicted.
        label_smoothing: of the masked tokens' cross-entropy, in [0, 1).
        read_all: the denoiser reads the best token at every position, not at the masked ones alone.

    Returns:
        ``alignment``, ``length`` and, with smoothing, ``alignment_nll`` (without gradient, no part of the total), (B,) nats
        each; what the denoiser reads, (B, upsample U).
    """
    assert guidance.length_log_probs is not None
    longest = model.length_predictor.max_length
    if targets.size(1) > longest:
        raise ValueError(
            f"target of {targets.size(1)} tokens: --alignment mask_predict has lengths 1 to {longest} (positions of the "
            "masked LM / --ctc-upsample); give --max-target-positions and --skip-invalid-size-inputs-valid-test, or cut it"
        )
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
    losses["length"] = length_nll(guidance.length_log_probs, move(lengths, targets.device))
    return losses, model.duplicate(torch.where(read, found.best, tokens))
