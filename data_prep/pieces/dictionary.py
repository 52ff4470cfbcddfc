"""Dictionaries of pieces in fairseq's format: dict.txt, a line ``PIECE COUNT`` for each piece."""

from typing import List, Set

from ..io import InputError, PathLike, read_lines

# The first four rows of every fairseq dictionary, in their order: dict.txt does not list them.
FAIRSEQ_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
RESERVED = frozenset((*FAIRSEQ_SPECIAL, "<mask>"))
OVERWRITE = "#fairseq:overwrite"  # at the end of a line that may repeat a piece


def read_dictionary(path: PathLike, option: str = "--dict") -> List[str]:
    """Return the pieces of a dict.txt.

    Raises:
        InputError: a line that is not ``PIECE COUNT``, a piece listed twice, or one of fairseq's
            own four symbols.
    """
    seen: Set[str] = set()
    pieces = []
    for number, line in enumerate(read_lines(path, option, strict=False), start=1):
        place = f"{option} {path}, line {number}"
        piece, count = piece_of(line), line.removesuffix(f" {OVERWRITE}").rpartition(" ")[2]
        if not piece or not count.isdigit():
            raise InputError(f"{place}: {line[:60]!r}; valid: a piece, one space, a count")
        if piece in FAIRSEQ_SPECIAL:
            raise InputError(
                f"{place}: lists {piece}; valid: the pieces without {' '.join(FAIRSEQ_SPECIAL)}, "
                "which fairseq adds itself: see python -m data_prep spm dict"
            )
        if piece in seen and not line.endswith(OVERWRITE):
            raise InputError(f"{place}: {piece!r} is listed twice; valid: every piece once")
        seen.add(piece)
        pieces.append(piece)
    return pieces


def piece_of(line: str) -> str:
    """Return the piece of a line of dict.txt; empty if the line has no count."""
    return line.removesuffix(f" {OVERWRITE}").rpartition(" ")[0]
