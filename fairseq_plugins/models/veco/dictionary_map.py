"""Cutting pretrained rows by a dictionary map, which says which entries of the pretrained dict.txt the data's dictionary has."""

from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ...checkpoints.vocabularies import MASK

SPECIAL_ROWS = 4
"""Rows of the entries that every dictionary of fairseq has and no dict.txt lists."""


def cut_rows(
    tensor: Tensor, kept: Sequence[bool], mask_at: Optional[int], name: str, origin: str
) -> Tuple[Tensor, str]:
    """Keep the rows of the special symbols and of the entries that the map lists with 1.

    Args:
        tensor: (V, ...), a row for each special symbol, each entry of the pretrained dict.txt and, where it has one, ``<mask>``.
        kept: the map, True = the entry stays.
        mask_at: index of ``<mask>`` in the data's dictionary; None = it has none. A row of the tensor behind those that the map
            lists is its row.
        name: of the tensor, for messages.
        origin: of what the tensor is, for messages.

    Returns:
        The rows, and what was done.

    Raises:
        ValueError: another number of rows than the map has lines, or ``<mask>`` elsewhere.
    """
    listed = SPECIAL_ROWS + len(kept)
    if tensor.size(0) not in (listed, listed + 1):
        raise ValueError(
            f"--resized-dict-map has {len(kept):,} lines, {name} of {origin} {tensor.size(0):,} rows; valid here: "
            f"{tensor.size(0) - SPECIAL_ROWS - 1:,} lines, one for each entry of the pretrained dict.txt (rows without the "
            f"four special symbols and {MASK}), or {tensor.size(0) - SPECIAL_ROWS:,} where the file has no row for {MASK}; no map "
            "where the rows are those of the data's dictionary already"
        )
    rows: List[int] = [*range(SPECIAL_ROWS), *(SPECIAL_ROWS + index for index, stays in enumerate(kept) if stays)]
    change = f"{len(rows):,} of {tensor.size(0):,} rows (--resized-dict-map)"
    if tensor.size(0) == listed + 1:
        if mask_at is not None and mask_at != len(rows):
            raise ValueError(
                f"{MASK} is entry {mask_at} of the data's dictionary; valid with --resized-dict-map: {len(rows)}, behind the "
                f"{sum(kept):,} entries that it keeps"
            )
        rows += [listed] if mask_at is not None else []
        change += f", {'without' if mask_at is None else 'with'} that of {MASK}"
    return tensor[torch.tensor(rows)], change
