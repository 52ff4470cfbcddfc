"""Models that fill slots at once and are read with CTC."""

from typing import Any, Optional, Tuple

from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from torch import Tensor

from ..ops.ctc import BestPath, linear_best_path


def check_slots_task(task: Any, arch: str) -> None:
    """Raise ValueError for a model that fills slots with a task whose generator writes from left to right."""
    if isinstance(task, FairseqTask) and not getattr(task, "fills_slots", False):
        raise ValueError(
            f"--arch {arch} needs --task sga_translation or sga_translation_multi, in training as in decoding; got "
            f"{type(task).__name__}"
        )


class SlotModel(BaseFairseqModel):
    """What criterions and generators read of a model with ``upsample`` slots per source token.

    ``blank`` is the id of the CTC blank, ``blank_bias`` what is added to its logit, in nats, wherever slots are read with CTC.
    """

    upsample: int
    blank: int
    blank_bias: float = 0.0

    @property
    def projection(self) -> Tuple[Tensor, Optional[Tensor]]:
        """Weight (V, C) of the output projection and bias (V,), or None."""
        raise NotImplementedError

    def slot_lengths(self, lengths: Tensor) -> Tensor:
        """CTC slots of each sentence, (B,): upsample x source length, or target length with ``--alignment mask_predict``.

        Differs from the code of SGA's authors, which gives every sentence 2 x the padded length.
        """
        return lengths * self.upsample

    def ctc_projection(self, penalty: float = 0.0) -> Tuple[Tensor, Optional[Tensor]]:
        """:attr:`projection` as CTC reads it: ``blank_bias - penalty`` nats more on the blank's bias.

        A penalty is for decoding: the blank is emitted less, and outputs are longer.
        """
        weight, bias = self.projection
        if self.blank_bias == penalty:
            return weight, bias
        bias = weight.new_zeros(weight.size(0)) if bias is None else bias.clone()
        bias[self.blank] += self.blank_bias - penalty
        return weight, bias

    def best_path(self, hidden: Tensor, lengths: Tensor, penalty: float = 0.0) -> BestPath:
        """Best token of every slot as CTC reads it, with a ``penalty`` of the blank in nats. hidden: (B, T, C)."""
        return linear_best_path(hidden, *self.ctc_projection(penalty), lengths, self.blank)
