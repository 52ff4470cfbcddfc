"""Criterion ``sga_mask_predict``: mask-predict for the alignment, its length, and CTC on the denoised output."""

import math
from dataclasses import dataclass, field
from typing import Any, Dict, List, Tuple

import torch
from fairseq.criterions import register_criterion
from fairseq.logging import metrics
from torch import Tensor

from ..ops.ctc import alignable
from ..ops.mask_predict import MaskedTargets, draw_masks
from ..ops.masks import lengths_to_padding_mask
from ..ops.vocab_loss import linear_token_losses
from .sga_ctc import SGACTCConfig, SGACTCCriterion, log_bits, unwrapped


@dataclass
class SGAMaskPredictConfig(SGACTCConfig):
    """Options of the loss for free generation; those of the denoiser are sga_ctc's."""

    length_loss_weight: float = field(
        default=1.0, metadata={"help": "weight of the length's negative log-likelihood, one term a sentence; 0 or more"}
    )


@register_criterion("sga_mask_predict", dataclass=SGAMaskPredictConfig)
class SGAMaskPredictCriterion(SGACTCCriterion):
    """Total = cross-entropy of the masked tokens + length + denoising CTC.

    Each sentence has its own number of masked tokens, uniform over 1 .. N (``</s>`` is no token: the length says where it ends).
    The denoiser reads the unmasked tokens and, in place of the masked ones, the alignment unit's best tokens (ids: detached),
    each ``--ctc-upsample`` times, with the noise of ``sga_ctc``. Masks are drawn in validation too; ``--fixed-validation-seed``
    makes its losses comparable.

    Losses are sums in nats; ``sample_size`` is the number of target tokens, or of sentences. A sentence without target tokens
    has a denoising loss only. Differs from CMLM, which divides by the masked tokens: CTC scores all of them.

    Source: SGA Eq. 7, sections 4.3 and 4.4; Ghazvininejad et al. 2019 (CMLM), sections 2.2 and 2.3.
    """

    alignment = "mask_predict"

    def __init__(self, task: Any, cfg: SGAMaskPredictConfig):
        super().__init__(task, cfg)
        if not 0.0 <= cfg.length_loss_weight < math.inf:
            raise ValueError(f"--length-loss-weight must be 0 or more; got {cfg.length_loss_weight}")
        self.weight = cfg.length_loss_weight
        self.mask = task.target_dictionary.index("<mask>")

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Loss of a batch in nats, sample size, and what is logged."""
        self._check_alignment(unwrapped(model))
        targets, lengths = self._targets(sample["target"])
        masked = draw_masks(lengths, targets.size(1))
        slots: List[Tensor] = []
        losses = model(
            **sample["net_input"],
            reduce=self._ctc(model, targets, lengths, slots),
            corrupt=self._noise(model),
            unroll=self.cfg.denoise_unroll,
            masked=self._masked_targets(targets, lengths, masked),
        )
        weights = {"length": self.weight}
        loss = torch.stack([weights.get(name, 1.0) * part for name, part in losses.items()]).sum()
        counts = {"nmasked": int(masked.sum()), "unalignable": 0}
        if slots:
            counts["unalignable"] = int((~alignable(targets, slots[0], lengths, unwrapped(model).blank)).sum())
        return self._outcome(loss, losses, lengths, **counts)

    def _masked_targets(self, targets: Tensor, lengths: Tensor, masked: Tensor) -> MaskedTargets:
        """What the alignment unit reads, and its loss.

        Args:
            targets: (B, T) int64 without ``</s>``, right-padded.
            lengths: (B,) int64, tokens.
            masked: (B, T) bool, True = to be predicted.
        """
        outside = lengths_to_padding_mask(lengths, targets.size(1))
        tokens = targets.masked_fill(masked | outside, self.mask)

        def predict(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tuple[Tensor, Tensor]:
            labels = targets.masked_fill(~masked, self.padding_idx)
            found = linear_token_losses(hidden, weight, bias, labels, ignore_index=self.padding_idx, want_best=True)
            assert found.best is not None
            return found.nll.sum(dim=1), torch.where(masked, found.best, tokens)

        return MaskedTargets(tokens, lengths, predict)

    @staticmethod
    def reduce_metrics(logging_outputs: List[Dict[str, Any]]) -> None:
        """Log in bits: total and denoising per token (or sentence), alignment per masked token, length per sentence."""
        for key in ("loss", "denoising_loss"):
            log_bits(logging_outputs, key, "sample_size")
        log_bits(logging_outputs, "alignment_loss", "nmasked")
        log_bits(logging_outputs, "length_loss", "nsentences")
        metrics.log_scalar_sum("unalignable", sum(int(log.get("unalignable", 0)) for log in logging_outputs))
