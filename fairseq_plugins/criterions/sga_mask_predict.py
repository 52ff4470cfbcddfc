"""Criterion ``sga_mask_predict``: mask-predict for the alignment, its length, and CTC on the denoised output."""

import math
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq.criterions import register_criterion
from fairseq.logging import metrics
from torch import Tensor

from ..ops.ctc import alignable
from ..ops.mask_predict import MaskedTargets, draw_masks, draw_masks_by_ratio
from ..ops.masks import lengths_to_padding_mask
from ..ops.vocab_loss import label_smoothed, linear_token_losses
from .sga_ctc import SGACTCConfig, SGACTCCriterion, log_bits, unwrapped


@dataclass
class SGAMaskPredictConfig(SGACTCConfig):
    """Options of the loss for free generation; those of the denoiser are sga_ctc's."""

    length_loss_weight: float = field(
        default=1.0, metadata={"help": "weight of the length's negative log-likelihood, one term a sentence; 0 or more"}
    )
    label_smoothing: float = field(
        default=0.0,
        metadata={
            "help": "smoothing of the masked tokens' cross-entropy, in [0, 1); the authors' code has 0.1. alignment_nll_loss is "
            "logged beside it"
        },
    )
    min_mask_ratio: Optional[float] = field(
        default=None,
        metadata={
            "help": "mask each target token with the probability max(this, U), in [0, 1]; each sentence draws its U, uniform over "
            "(0, 1). The authors' code has 0.2. When not given, the number of masked tokens is uniform over 1 .. N"
        },
    )
    denoise_all_positions: bool = field(
        default=False,
        metadata={
            "help": "the denoiser is trained on the alignment's best token at every position, as in the authors' code; otherwise "
            "on the true token where none was masked"
        },
    )


@register_criterion("sga_mask_predict", dataclass=SGAMaskPredictConfig)
class SGAMaskPredictCriterion(SGACTCCriterion):
    """Total = cross-entropy of the masked tokens + length + denoising CTC.

    Each sentence has its own number of masked tokens, uniform over 1 .. N (``</s>`` is no token: the length says where it ends).
    The denoiser reads the unmasked tokens and, in place of the masked ones, the alignment unit's best tokens (ids: detached),
    each ``--ctc-upsample`` times, with the noise of ``sga_ctc``. Masks are drawn in validation too; ``--fixed-validation-seed``
    makes its losses comparable.

    The authors' code is ``--label-smoothing 0.1 --min-mask-ratio 0.2 --denoise-all-positions`` with ``--length-from bos`` of the
    model. It averages each loss over its own tokens, and subtracts a constant, the smallest value of a smoothed loss.

    Losses are sums in nats; ``sample_size`` is the number of target tokens, or of sentences. A sentence without target tokens
    has a denoising loss only. Differs from CMLM, which divides by the masked tokens: CTC scores all of them.

    Source: SGA Eq. 7, sections 4.3 and 4.4; Ghazvininejad et al. 2019 (CMLM), sections 2.2 and 2.3.
    """

    alignment = "mask_predict"
    options = SGAMaskPredictConfig

    def __init__(self, task: Any, cfg: SGAMaskPredictConfig):
        super().__init__(task, cfg)
        if not 0.0 <= cfg.length_loss_weight < math.inf:
            raise ValueError(f"--length-loss-weight must be 0 or more; got {cfg.length_loss_weight}")
        if not 0.0 <= cfg.label_smoothing < 1.0:
            raise ValueError(f"--label-smoothing must lie in [0, 1); got {cfg.label_smoothing}")
        if cfg.min_mask_ratio is not None and not 0.0 <= cfg.min_mask_ratio <= 1.0:
            raise ValueError(f"--min-mask-ratio must lie in [0, 1]; got {cfg.min_mask_ratio}")
        self.weight = cfg.length_loss_weight
        self.mask = task.target_dictionary.index("<mask>")

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Loss of a batch in nats, sample size, and what is logged."""
        self._check_alignment(unwrapped(model))
        targets, lengths = self._targets(sample["target"])
        masked = self._draw_masks(lengths, targets.size(1))
        slots: List[Tensor] = []
        nll: List[Tensor] = []
        losses = model(
            **sample["net_input"],
            reduce=self._ctc(model, targets, lengths, slots),
            corrupt=self._noise(model),
            unroll=self.cfg.denoise_unroll,
            masked=self._masked_targets(targets, lengths, masked, nll),
        )
        weights = {"length": self.weight}
        loss = torch.stack([weights.get(name, 1.0) * part for name, part in losses.items()]).sum()
        counts = {"nmasked": int(masked.sum()), "unalignable": 0}
        if slots:
            counts["unalignable"] = int((~alignable(targets, slots[0], lengths, unwrapped(model).blank)).sum())
        loss, sample_size, logged = self._outcome(loss, losses, lengths, **counts)
        if self.cfg.label_smoothing:
            logged["alignment_nll_loss"] = nll[0].detach().sum()
        return loss, sample_size, logged

    def _draw_masks(self, lengths: Tensor, size: int) -> Tensor:
        """Which tokens are to be predicted. lengths: (B,). Returns (B, T) bool, True = masked."""
        least = self.cfg.min_mask_ratio
        return draw_masks(lengths, size) if least is None else draw_masks_by_ratio(lengths, size, least)

    def _masked_targets(self, targets: Tensor, lengths: Tensor, masked: Tensor, nll: List[Tensor]) -> MaskedTargets:
        """What the alignment unit reads, and its loss.

        Args:
            targets: (B, T) int64 without ``</s>``, right-padded.
            lengths: (B,) int64, tokens.
            masked: (B, T) bool, True = to be predicted.
            nll: gets the alignment's negative log-likelihood, (B,) nats, without smoothing.
        """
        outside = lengths_to_padding_mask(lengths, targets.size(1))
        tokens = targets.masked_fill(masked | outside, self.mask)

        def predict(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tuple[Tensor, Tensor]:
            read = ~outside if self.cfg.denoise_all_positions else masked
            labels = targets.masked_fill(~read, self.padding_idx)
            smoothing, pad = self.cfg.label_smoothing, self.padding_idx
            found = linear_token_losses(hidden, weight, bias, labels, smoothing, ignore_index=pad, want_best=True)
            assert found.best is not None
            loss = found.nll
            if smoothing:
                loss = label_smoothed(found.nll, found.smooth, smoothing, weight.size(0))
            nll.append(found.nll.masked_fill(~masked, 0.0).sum(dim=1))
            return loss.masked_fill(~masked, 0.0).sum(dim=1), torch.where(read, found.best, tokens)

        return MaskedTargets(tokens, lengths, predict)

    @staticmethod
    def reduce_metrics(logging_outputs: List[Dict[str, Any]]) -> None:
        """Log in bits: total and denoising per token (or sentence), alignment per masked token, length per sentence."""
        for key in ("loss", "denoising_loss"):
            log_bits(logging_outputs, key, "sample_size")
        log_bits(logging_outputs, "alignment_loss", "nmasked")
        log_bits(logging_outputs, "alignment_nll_loss", "nmasked")
        log_bits(logging_outputs, "length_loss", "nsentences")
        metrics.log_scalar_sum("unalignable", sum(int(log.get("unalignable", 0)) for log in logging_outputs))
