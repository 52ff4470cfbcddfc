"""Refusal of source sentences without a token, shared by three baselines.

Stock tasks, which train these models, do not look for such sentences.
"""

from typing import Collection

import torch
from torch import Tensor


def refuse_empty_sources(src_tokens: Tensor, fillers: Collection[int], training: bool) -> None:
    """Raise ValueError if a row of a batch consists of ``fillers`` alone; names the first such row.

    Nothing is checked in training on a GPU: the check would wait for the device in every batch.

    Args:
        src_tokens: (B, S) int64.
        fillers: ids of padding, ``</s>``, ``<s>`` and language tokens.
    """
    if training and src_tokens.device.type != "cpu":
        return
    empty = torch.isin(src_tokens, src_tokens.new_tensor(sorted(fillers))).all(dim=1)
    if bool(empty.any()):
        raise ValueError(
            f"{int(empty.sum())} of the {len(empty)} source sentences of a batch are empty, the "
            f"first is row {int(empty.int().argmax()) + 1} of the batch (fairseq sorts by length); "
            "valid: at least one token per sentence; leave pairs with an empty source out of the "
            "text before fairseq-preprocess"
        )
