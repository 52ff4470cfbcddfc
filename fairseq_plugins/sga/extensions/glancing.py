"""Glancing: in training, some slots of the graph show the token that they should emit.

Source: Qian et al. 2021 (GLAT); Huang et al. 2022 (DA-Transformer) for graphs.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ...common.options import option

UNALIGNED = -1
"""Stands for the token of a slot that the target's best path does not visit."""


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
        number, count = r"(\d*\.?\d+|\d+\.)", r"(\d+)"
        constant = re.fullmatch(number, text.strip())
        change = re.fullmatch(f"{number}:{number}@{count}", text.strip())
        schedule = None
        if constant:
            schedule = cls(float(constant[1]), float(constant[1]), updates=1)
        elif change:
            schedule = cls(float(change[1]), float(change[2]), int(change[3]))
        if schedule is None or schedule.updates < 1 or max(schedule.first, schedule.last) > 1:
            raise ValueError(
                f"--glancing {text}: valid: R or FIRST:LAST@UPDATES, ratios in [0, 1], updates at "
                "least 1"
            )
        return schedule

    def at(self, update: int) -> float:
        """Return the ratio after so many updates."""
        return self.first + (self.last - self.first) * min(update / self.updates, 1.0)


def show_tokens(aligned: Tensor, best: Tensor, masks: Tensor, ratio: float) -> Tensor:
    """Replace ``<mask>`` in some slots by the token of the target's best path.

    Each slot with a token shows it with the probability ``ratio`` x the share of these slots whose
    best token is another one.

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
