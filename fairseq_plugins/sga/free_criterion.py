"""Criterion ``sga_mask_predict``: mask-predict for the alignment, its length, and CTC on the denoised output."""

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

from fairseq.criterions import register_criterion
from torch import Tensor

from ..common.options import check_range, option
from ..ops.mask_predict import draw_masks, draw_masks_by_ratio
from ..ops.masks import move
from .criterion import SGACTCConfig, SGACTCCriterion


@dataclass
class SGAMaskPredictConfig(SGACTCConfig):
    """Options of the loss for free generation; those of the denoiser are sga_ctc's."""

    length_loss_weight: float = option(
        1.0, "weight of the length's negative log-likelihood, one term per sentence; 0 or more"
    )
    label_smoothing: float = option(
        0.0,
        "smoothing of the masked tokens' cross-entropy, in [0, 1); the authors' code has 0.1. alignment_nll_loss is "
        "logged beside it",
    )
    min_mask_ratio: Optional[float] = option(
        None,
        "mask each target token with the probability max(this, U), in [0, 1]; each sentence draws its U, uniform over "
        "(0, 1). The authors' code has 0.2. When not given, the number of masked tokens is uniform over 1 .. N",
    )
    denoise_all_positions: bool = option(
        False,
        "the denoiser is trained on the alignment's best token at every position, as in the authors' code; otherwise "
        "on the true token where none was masked",
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
    units = {
        "loss": "sample_size",
        "denoising_loss": "sample_size",
        "alignment_loss": "nmasked",
        "alignment_nll_loss": "nmasked",
        "length_loss": "nsentences",
    }

    def __init__(self, task: Any, cfg: SGAMaskPredictConfig):
        super().__init__(task, cfg)
        check_range(cfg, "[0, inf)", "length_loss_weight")
        check_range(cfg, "[0, 1)", "label_smoothing")
        check_range(cfg, "[0, 1]", "min_mask_ratio")
        if self.glancing.first or self.glancing.last:
            raise ValueError(f"--glancing {cfg.glancing}: mask-predict shows tokens by its masks; valid with it: 0")
        self.weights["length"] = cfg.length_loss_weight

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        targets, lengths = self._targets(sample)
        size, least, drawn = targets.size(1), self.cfg.min_mask_ratio, move(lengths, targets.device)
        masked = draw_masks(drawn, size) if least is None else draw_masks_by_ratio(drawn, size, least)
        smoothing, read_all = self.cfg.label_smoothing, self.cfg.denoise_all_positions
        loss, sample_size, logged = self._loss(
            model, sample, targets, lengths, masked=masked, label_smoothing=smoothing, read_all=read_all
        )
        return loss, sample_size, {**logged, "nmasked": masked.sum()}
