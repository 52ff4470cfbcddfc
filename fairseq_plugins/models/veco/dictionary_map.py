"""Cutting pretrained rows by a dictionary map, which says which entries of the pretrained dict.txt the data's dictionary has."""

from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ...checkpoints.vocabulary import MASK

SPECIAL_ROWS = 4
"""Rows of the entries that every dictionary of fairseq has and no dict.txt lists."""


def cut_rows(
    tensor: Tensor, kept: Sequence[bool], mask_at: Optional[int], name: str, origin: str, mask_row: Optional[int] = None
) -> Tuple[Tensor, str]:
    """Keep the rows of the special symbols and of the entries that the map lists with 1.

    Args:
        tensor: (V, ...), a row for each special symbol, each entry of the pretrained dict.txt and, where it has one, ``<mask>``.
        kept: the map, True = the entry stays.
        mask_at: index of ``<mask>`` in the data's dictionary; None = it has none. A row of the tensor behind those that the map
            lists is its row.
        mask_row: row of ``<mask>`` in the tensor, where the file tells it.

    Returns the rows, and what was done. Raises ValueError: another number of rows than the map has lines, or ``<mask>`` elsewhere.
    """
    listed = SPECIAL_ROWS + len(kept)
    # Rows behind that of <mask> were entries of the pretrained dict.txt, so that it was one too.
    sizes = (listed, listed + 1) if mask_row in (None, tensor.size(0) - 1) else (listed,)
    if tensor.size(0) not in sizes:
        entries = tensor.size(0) - SPECIAL_ROWS
        valid = f"{entries:,} lines, one for each entry of the pretrained dict.txt, {MASK} (row {mask_row}) among them"
        if len(sizes) > 1:
            valid = (
                f"{entries - 1:,} lines, one for each entry of the pretrained dict.txt (rows without the four special symbols and "
                f"{MASK}), or {entries:,} where the file has no row for {MASK}"
            )
        raise ValueError(
            f"--resized-dict-map has {len(kept):,} lines, {name} of {origin} {tensor.size(0):,} rows; valid here: {valid}; no map "
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
    if mask_row is not None:
        _check_mask(rows, mask_row, mask_at, origin)
    return tensor[torch.tensor(rows)], change


def kept_entries(entries: Sequence[str], kept: Sequence[bool], origin: str) -> List[str]:
    """The ``entries`` of the pretrained dict.txt, if there is one, that the map keeps; ValueError: it has other lines."""
    if entries and len(entries) - len(kept) != SPECIAL_ROWS:
        raise ValueError(
            f"--resized-dict-map has {len(kept):,} lines; valid: {len(entries) - SPECIAL_ROWS:,}, one for each entry of the "
            f"dict.txt beside {origin}"
        )
    stays = zip(entries[SPECIAL_ROWS:], kept)
    return [*entries[:SPECIAL_ROWS], *(entry for entry, kept_here in stays if kept_here)]


def _check_mask(rows: Sequence[int], mask_row: int, mask_at: Optional[int], origin: str) -> None:
    """The row of ``<mask>`` goes to its entry of the data's dictionary, and no other row does. Raises ValueError: it does not."""
    found = rows.index(mask_row) if mask_row in rows else None
    if found != mask_at and not (found is None and mask_at is not None and mask_at >= len(rows)):
        theirs = "leaves it out" if found is None else f"puts it in row {found}"
        ours = f"has no {MASK}" if mask_at is None else f"has it as entry {mask_at}"
        raise ValueError(
            f"{MASK} is row {mask_row} of {origin}; --resized-dict-map {theirs}, the data's dictionary {ours}; valid: the map that "
            "was written with this dictionary, from the dict.txt of the pre-training"
        )
