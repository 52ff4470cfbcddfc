"""Source sentences without a token, seen by an encoder: stock tasks do not look for them."""

from typing import Collection

import torch
from torch import Tensor

__all__ = ["refuse_empty_sources"]


def refuse_empty_sources(src_tokens: Tensor, fillers: Collection[int], training: bool) -> None:
    """Raise ValueError for rows of ``fillers`` alone (padding, ``</s>``, ``<s>``, language tokens); names the first one.

    Nothing is looked at while training on a GPU, where every batch would wait for the answer. src_tokens: (B, S) int64.
    """
    if training and src_tokens.device.type != "cpu":
        return
    empty = torch.isin(src_tokens, src_tokens.new_tensor(sorted(fillers))).all(dim=1)
    if bool(empty.any()):
        raise ValueError(
            f"{int(empty.sum())} of the {len(empty)} source sentences of a batch are empty, the first is row "
            f"{int(empty.int().argmax()) + 1} of the batch (fairseq sorts by length); valid: at least one token per sentence; "
            "leave pairs with an empty source out of the text before fairseq-preprocess"
        )
