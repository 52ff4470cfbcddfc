"""A target dictionary with some of the masked LM's entries, and the rows that belong to them.

The source keeps every row. Slots, labels and outputs are ids of the target dictionary; the output
projection has the rows of these entries alone, and what a unit reads is mapped to rows of the
masked LM. Nothing that trains has a size of the dictionary: checkpoints do not depend on the cut.
"""

from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from ..checkpoints.vocabulary import MASK, find_rows
from ..masked_lm.model import MaskedLM


def find_target_rows(
    source: Dictionary,
    target: Dictionary,
    source_file: str = "the source's dictionary",
    target_file: str = "the target's dictionary",
) -> Optional[Tensor]:
    """Find the masked LM's row of each entry of the target dictionary, by name.

    Args:
        source: dictionary with all rows of the masked LM.
        target: dictionary of the target.
        source_file, target_file: names of the dictionaries, for messages.

    Returns:
        (V',) int64, or None if both dictionaries have the same entries in the same order.

    Raises:
        ValueError: the source lacks an entry of the target, or pieces follow the target's
            ``<mask>``: noise draws from the entries before it.
    """
    if source.symbols == target.symbols:
        return None
    if target.symbols[-1] != MASK:
        raise ValueError(f"{target_file}: <mask> must stand after the pieces, or not in the file")
    remedy = (
        "valid: the masked LM's dict.txt for the source (--srcdict of fairseq-preprocess), and the "
        "same or some of its entries for the target (--tgtdict; python -m data_prep cut_vocabulary)"
    )
    names = target_file, source_file, remedy
    return torch.tensor(find_rows(target.symbols, source.indices, *names))


class TargetRows(nn.Module):
    """The rows of a masked LM's output projection that belong to the target's entries.

    They are copies, selected once. Like the frozen weights they are not trained and not written
    into checkpoints.

    Args:
        rows: (V',) int64, row of the masked LM for each id of the target dictionary.
        masked_lm: the frozen masked LM.
    """

    rows: Tensor  # (V',) int64
    weight: Tensor  # (V', C)
    bias: Tensor  # (V',)

    def __init__(self, rows: Tensor, masked_lm: MaskedLM):
        super().__init__()
        weight, bias = masked_lm.output_weight.detach(), masked_lm.output_bias.detach()
        self.register_buffer("rows", rows.to(weight.device), persistent=False)
        self.register_buffer("weight", weight[self.rows], persistent=False)
        self.register_buffer("bias", bias[self.rows], persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map ids of the target dictionary to rows of the masked LM. (B, T) -> (B, T) int64."""
        return self.rows[tokens]

    @torch.no_grad()
    def select(self, masked_lm: MaskedLM) -> None:
        """Copy the rows again, after other weights were loaded."""
        self.weight.copy_(masked_lm.output_weight[self.rows])
        self.bias.copy_(masked_lm.output_bias[self.rows])


def select_again(model: Any, _: Any) -> None:
    """Copy the target's rows once a state dict is loaded: with ``--save-full-model`` it has them.

    torch calls this hook with the model.
    """
    model.target_rows.select(model.masked_lm)
