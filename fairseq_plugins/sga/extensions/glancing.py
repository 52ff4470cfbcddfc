"""Glancing: in training, some slots show the alignment unit the token that they should emit.

Source: Qian et al. 2021 (GLAT); Huang et al. 2022 for graphs, Gu and Kong 2021 for CTC.
"""

import re
from dataclasses import dataclass
from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from ...common.options import option
from ...ops import ctc
from ...ops.linear_alignment import BestPath, label_log_probs
from ...ops.masks import lengths_to_padding_mask, move
from ...ops.vocab_scan import DEFAULT_CHUNK_SIZE
from ..criterion import Labels, SGACTCCriterion
from ..model import Corruption, Losses, SGAModel, Target
from ..units import Guidance

UNALIGNED = -1
"""Stands for the token of a slot that the target's best alignment does not use."""


@dataclass
class GlancingOptions:
    """The option of the criterion."""

    glancing: str = option(
        "0",
        "share R of the wrong slots that show the alignment unit their true token in training "
        "(GLAT), in [0, 1]; FIRST:LAST@UPDATES changes it evenly over so many updates",
    )


class GlancingSchedule(NamedTuple):
    """The value of ``--glancing``: from ``first`` to ``last`` over ``updates``."""

    first: float
    last: float
    updates: int

    @classmethod
    def parse(cls, text: str) -> "GlancingSchedule":
        """Read R or FIRST:LAST@UPDATES. Raises ValueError for any other form."""
        match = re.fullmatch(r"([0-9.]+)(?::([0-9.]+)@([0-9]+))?", str(text).strip())
        try:
            first, last, updates = match.groups() if match else ("", None, None)
            last = first if last is None else last
            schedule = cls(float(first), float(last), int(updates or 1))
        except ValueError:
            schedule = cls(-1.0, -1.0, 0)
        if schedule.updates < 1 or not all(0 <= ratio <= 1 for ratio in schedule[:2]):
            raise ValueError(
                f"--glancing {text}: valid: R or FIRST:LAST@UPDATES, ratios in [0, 1], updates at "
                "least 1"
            )
        return schedule

    def at(self, update: int) -> float:
        """Return the ratio after so many updates."""
        return self.first + (self.last - self.first) * min(update / self.updates, 1.0)


class Glance(NamedTuple):
    """Contents of the slots after a first pass, and what that pass gave."""

    tokens: Tensor  # (B, T) int64, ``<mask>`` or the true token
    path: BestPath  # best tokens of the pass, which saw ``<mask>`` alone


def show_tokens(aligned: Tensor, best: Tensor, masks: Tensor, ratio: float) -> Tensor:
    """Replace ``<mask>`` in some slots by the token of the target's best alignment.

    Each slot with a token (or the blank of CTC) shows it with the probability ``ratio`` x the share
    of these slots whose best token is another one.

    Args:
        aligned: (B, T) int64, true tokens; :data:`UNALIGNED` = none.
        best: (B, T) int64, best tokens of a pass that saw ``<mask>`` alone.
        masks: (B, T) int64, ``<mask>`` in every slot.
        ratio: in [0, 1].
    """
    is_aligned = aligned.ne(UNALIGNED)
    wrong = (is_aligned & best.ne(aligned)).sum(dim=1) / is_aligned.sum(dim=1).clamp(min=1)  # B
    draw = torch.rand(aligned.shape, device=aligned.device)
    return torch.where(is_aligned & (draw < ratio * wrong[:, None]), aligned, masks)


class GlancingModel(SGAModel):
    """SGA with CTC, whose training may show some of the true tokens to the alignment unit."""

    num_updates = 0

    def set_num_updates(self, num_updates: int) -> None:
        """Note the number of updates, which the criterion's schedule reads."""
        super().set_num_updates(num_updates)
        self.num_updates = num_updates

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        targets: Tensor,
        target_lengths: Tensor,
        chunk_size: int = DEFAULT_CHUNK_SIZE,
        corrupt: Optional[Corruption] = None,
        unroll: int = 1,
        glancing: float = 0.0,
    ) -> Losses:
        """Compute the losses of a batch as SGAModel does, with a glance at the target.

        The denoiser reads what the alignment gives without the glance, as in decoding. ``glancing``
        is the ratio of :func:`show_tokens`; 0 = no glance.
        """
        if not glancing:
            return super().forward(
                src_tokens, src_lengths, targets, target_lengths, chunk_size, corrupt, unroll
            )
        target = Target(targets, target_lengths, chunk_size)
        guidance = self.encode(src_tokens)
        slots = self.slot_lengths(src_lengths)  # B
        glance = self.glance(guidance, slots, target, glancing)
        hidden = self.run_unit(glance.tokens, slots, self.alignment_prompts, guidance)  # B T C
        losses = {"alignment": self.ctc(hidden, slots, target, want_best=False)[0]}
        if not self.has_denoiser:
            return losses, {"alignment": slots}
        tokens = self.denoiser_input(glance.path)
        losses["denoising"] = self.denoising_loss(tokens, slots, guidance, target, corrupt, unroll)
        return losses, {"alignment": slots, "denoising": slots}

    @torch.no_grad()
    def glance(self, guidance: Guidance, slots: Tensor, target: Target, ratio: float) -> Glance:
        """Align the target in a pass without gradients, and show some of its tokens."""
        aligned, path = self.aligned_tokens(guidance, slots, target)
        tokens = show_tokens(aligned, path.tokens, self.blank_sentence(slots), ratio)
        return Glance(tokens, path)

    @torch.no_grad()
    def aligned_tokens(
        self, guidance: Guidance, slots: Tensor, target: Target
    ) -> Tuple[Tensor, BestPath]:
        """Find the tokens of the best CTC alignment, (B, T) int64, and the best path."""
        hidden = self.align(guidance, slots)
        weight, bias = self.ctc_projection()
        ids, columns = ctc.label_columns(target.tokens, target.lengths, self.blank)
        log_probs, path = label_log_probs(
            hidden, weight, bias, ids, slots, self.blank, target.chunk_size
        )
        on_device, lengths = move(slots, hidden.device), move(target.lengths, hidden.device)
        aligned = ids.gather(1, ctc.best_alignment(log_probs, columns, on_device, lengths))
        unaligned = ~ctc.alignable(target.tokens, slots, target.lengths, self.blank)  # B
        outside = lengths_to_padding_mask(on_device, aligned.size(1)) | unaligned[:, None]
        return aligned.masked_fill(outside, UNALIGNED), path


class GlancingCriterion(SGACTCCriterion):
    """``sga_ctc`` with ``--glancing``, which training alone reads."""

    def __init__(self, task: Any, cfg: Any):
        super().__init__(task, cfg)
        self.glancing = GlancingSchedule.parse(cfg.glancing)

    def model_inputs(self, sga: Any, sample: Dict[str, Any], labels: Labels) -> Dict[str, Any]:
        """Add the ratio of this update, unless it is 0.

        Raises:
            ValueError: the model does not read it.
        """
        inputs = super().model_inputs(sga, sample, labels)
        ratio = self.glancing.at(getattr(sga, "num_updates", 0)) if sga.training else 0.0
        if ratio and not isinstance(sga, GlancingModel):
            raise ValueError(f"--glancing {self.cfg.glancing}: valid for {type(sga).__name__}: 0")
        return {**inputs, "glancing": ratio} if ratio else inputs
