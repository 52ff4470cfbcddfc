"""Dictionary map: which rows of a pretrained embedding the data's cut dictionary has.

``--resized-dict-map`` has a line per entry of the pretrained dict.txt: 1 = the entry stays. The
four special symbols are not listed. ``<mask>`` is listed only if dict.txt lists it; otherwise its
row follows the listed ones.
"""

import re
from typing import List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq.data import Dictionary

from ..checkpoints.fitting import Filler
from ..checkpoints.vocabulary import MASK

SPECIAL_ROWS = 4
"""Rows of the symbols that every fairseq dictionary has and no dict.txt lists."""
_ADDED = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]|madeupword\d+")
"""Entries that a cut dictionary may have after those that its map keeps."""


def read_dictionary_map(path: str) -> Tuple[bool, ...]:
    """Read ``--resized-dict-map``; True = the entry stays.

    Raises:
        ValueError: the file cannot be read, or a line is neither 0 nor 1.
    """
    option = f"--resized-dict-map {path}"
    try:
        with open(path, encoding="utf-8") as stream:
            lines = stream.read().splitlines()
    except (OSError, UnicodeError) as error:
        valid = "a file with a 0 or 1 in each line"
        raise ValueError(f"{option}: cannot be read ({error}); valid: {valid}") from error
    for number, line in enumerate(lines, 1):
        if line.strip() not in ("0", "1"):
            valid = "1 = the entry stays, 0 = it does not"
            raise ValueError(f"{option}, line {number}: {line!r}; valid: {valid}")
    return tuple(line.strip() == "1" for line in lines)


def check_dictionary_map(kept_rows: Sequence[bool], dictionary: Dictionary, path: str) -> None:
    """Compare the number of entries that a map keeps with the data's dictionary.

    At its end the dictionary may have added entries: ``<mask>``, tags of languages, padding.

    Raises:
        ValueError: the map keeps more entries than the dictionary has, or fewer than it has without
            the added ones.
    """
    entries = dictionary.symbols[dictionary.nspecial :]
    added = 0
    while added < len(entries) and _ADDED.fullmatch(entries[-1 - added]):
        added += 1
    fewest = max(1, len(entries) - added)
    if not fewest <= sum(kept_rows) <= len(entries):
        raise ValueError(
            f"--resized-dict-map {path}: keeps {sum(kept_rows):,} entries, the data's dictionary "
            f"has {len(entries):,} beside the special ones, {added:,} of them symbols added at its "
            f"end; valid: {fewest:,} to {len(entries):,} lines with 1: the map that was written "
            "with this dictionary"
        )


class MaskPlace(NamedTuple):
    """Place of ``<mask>`` in the data's dictionary and in the pretrained embedding."""

    entry: Optional[int]  # in the data's dictionary; None = it has none
    row: Optional[int]  # in the pretrained embedding; None = the file does not state it


def cut_rows(filler: Filler, name: str, kept_rows: Sequence[bool], mask_row: Optional[int]) -> None:
    """Keep the rows of the special symbols, of the entries that stay, and of ``<mask>``.

    Args:
        filler: holds the pretrained tensors; changed, with a description of the change.
        name: of the tensor (V, ...), which begins with its side.
        kept_rows: the map.
        mask_row: pretrained row of ``<mask>``; None = the file does not state it.

    Raises:
        ValueError: the map has another number of lines, or ``<mask>`` would get another row.
    """
    tensor, origin = filler.tensors[name], filler.origin
    dictionary = getattr(filler.model, name.split(".")[0]).dictionary
    mask = MaskPlace(dictionary.index(MASK) if MASK in dictionary else None, mask_row)
    listed = SPECIAL_ROWS + len(kept_rows)
    # One row after the listed ones is that of <mask>, unless the file states another row for it.
    has_mask_row = tensor.size(0) == listed + 1 and mask.row in (None, listed)
    if tensor.size(0) != listed and not has_mask_row:
        raise ValueError(
            f"--resized-dict-map has {len(kept_rows):,} lines, {name} of {origin} "
            f"{tensor.size(0):,} rows; valid here: {_valid_lines(tensor.size(0), mask)}; no map "
            "where the rows are those of the data's dictionary already"
        )
    rows = [*range(SPECIAL_ROWS)]
    rows += [row for row, stays in enumerate(kept_rows, SPECIAL_ROWS) if stays]
    change = f"{len(rows):,} of {tensor.size(0):,} rows (--resized-dict-map)"
    if has_mask_row:
        change += f", {'without' if mask.entry is None else 'with'} that of {MASK}"
        mask = mask._replace(row=listed)
        if mask.entry is not None:
            rows.append(listed)
    _check_mask(rows, mask, origin)
    filler.tensors[name], filler.changes[name] = tensor[torch.tensor(rows)], change


def _valid_lines(size: int, mask: MaskPlace) -> str:
    """Describe the maps that fit an embedding of ``size`` rows."""
    entries = size - SPECIAL_ROWS
    text = "one for each entry of the pretrained dict.txt"
    if mask.row not in (None, size - 1):
        return f"{entries:,} lines, {text}, {MASK} (row {mask.row}) among them"
    return (
        f"{entries - 1:,} lines, {text} (rows without the four special symbols and {MASK}), or "
        f"{entries:,} where the file has no row for {MASK}"
    )


def _check_mask(rows: List[int], mask: MaskPlace, origin: str) -> None:
    """Raise ValueError if ``<mask>`` gets another row than its own, or another entry gets its row.

    Args:
        rows: pretrained row of each entry of the data's dictionary. Entries after these, which may
            include ``<mask>``, start at random.
    """
    if mask.row is None:
        return
    place = rows.index(mask.row) if mask.row in rows else None
    is_random = place is None and mask.entry is not None and mask.entry >= len(rows)
    if place == mask.entry or is_random:
        return
    effect = "leaves it out" if place is None else f"puts it in row {place}"
    actual = f"has no {MASK}" if mask.entry is None else f"has it as entry {mask.entry}"
    raise ValueError(
        f"{MASK} is row {mask.row} of {origin}; --resized-dict-map {effect}, the data's dictionary "
        f"{actual}; valid: the map that was written with this dictionary, from the dict.txt of the "
        "pre-training"
    )


def cut_entries(entries: Sequence[str], kept_rows: Sequence[bool], origin: str) -> List[str]:
    """List the entries of the pretrained dictionary that stay; none if there is no dict.txt.

    Raises:
        ValueError: the map has another number of lines than dict.txt.
    """
    if not entries:
        return []
    listed = entries[SPECIAL_ROWS:]
    if len(listed) != len(kept_rows):
        raise ValueError(
            f"--resized-dict-map has {len(kept_rows):,} lines; valid: {len(listed):,}, one for "
            f"each entry of the dict.txt beside {origin}"
        )
    stay = [entry for entry, stays in zip(listed, kept_rows) if stays]
    return [*entries[:SPECIAL_ROWS], *stay]
