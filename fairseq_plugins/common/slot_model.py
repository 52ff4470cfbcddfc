"""Models that fill all slots of a sentence at once and are decoded with CTC."""

import logging
from typing import Any, NamedTuple, Optional, Tuple

from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from torch import Tensor

from ..ops.ctc import BestPath, linear_best_path
from ..ops.vocab_scan import DEFAULT_CHUNK_SIZE

logger = logging.getLogger(__name__)


def check_slots_task(task: Any, arch: str) -> None:
    """Raise ValueError if the task decodes from left to right, as stock translation does."""
    if isinstance(task, FairseqTask) and not getattr(task, "fills_slots", False):
        raise ValueError(
            f"--arch {arch} needs --task sga_translation or sga_translation_multi, in training as "
            f"in decoding; got {type(task).__name__}"
        )


def find_blank(symbol: str, dictionary: Any) -> int:
    """Look up the id of the CTC blank, ``--ctc-blank``.

    Warns if the blank is an ordinary piece, which targets may contain.

    Raises:
        ValueError: the dictionary has no such symbol.
    """
    index = int(dictionary.index(symbol))
    if index == dictionary.unk() and symbol != dictionary[dictionary.unk()]:
        raise ValueError(
            f"--ctc-blank {symbol!r} is not in the dictionary; valid: <s>, <mask>, or any other "
            "entry of dict.txt"
        )
    if index not in (
        dictionary.bos(),
        dictionary.pad(),
        dictionary.eos(),
        dictionary.index("<mask>"),
    ):
        logger.warning(
            "--ctc-blank %r is an ordinary piece: targets that contain it cannot be aligned (they "
            "are counted and left out), and it can never be produced; <s> never occurs inside a "
            "target",
            symbol,
        )
    return index


class Target(NamedTuple):
    """The target of a batch, and the memory that its loss may take."""

    tokens: Tensor  # (B, U) int64 without </s>, right-padded
    lengths: Tensor  # (B,) int64, best on the host
    chunk_size: int = DEFAULT_CHUNK_SIZE  # vocabulary rows projected at a time


class SlotModel(BaseFairseqModel):
    """Interface of a model with ``upsample`` slots per source token.

    Attributes:
        upsample: slots per source token.
        blank: id of the CTC blank.
        blank_bias: nats added to the blank's logit wherever CTC reads slots.
    """

    upsample: int
    blank: int
    blank_bias: float = 0.0

    @property
    def projection(self) -> Tuple[Tensor, Optional[Tensor]]:
        """Weight (V, C) of the output projection, and bias (V,) or None."""
        raise NotImplementedError

    def slot_lengths(self, src_lengths: Tensor) -> Tensor:
        """Count the slots of each sentence: ``upsample`` x source length. (B,) -> (B,).

        Differs from the code of SGA's authors, which gives every sentence 2 x the padded length.
        """
        return src_lengths * self.upsample

    def ctc_projection(self, penalty: float = 0.0) -> Tuple[Tensor, Optional[Tensor]]:
        """Return :attr:`projection` with ``blank_bias - penalty`` added to the bias of the blank.

        Args:
            penalty: nats subtracted from the blank's logit in decoding; a positive penalty makes
                blanks rarer and outputs longer.
        """
        weight, bias = self.projection
        shift = self.blank_bias - penalty
        if shift == 0:
            return weight, bias
        bias = weight.new_zeros(weight.size(0)) if bias is None else bias.clone()
        bias[self.blank] += shift
        return weight, bias

    def best_path(self, hidden: Tensor, slots: Tensor, penalty: float = 0.0) -> BestPath:
        """Find the most probable token of every slot.

        Args:
            hidden: (B, T, C).
            slots: (B,) int64, slots of each sentence.
            penalty: nats subtracted from the blank's logit.
        """
        weight, bias = self.ctc_projection(penalty)
        return linear_best_path(hidden, weight, bias, slots, self.blank)
