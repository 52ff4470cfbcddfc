"""Files of BPE codes in every released form, read for fastBPE."""

import contextlib
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterator, List, Sequence, Set, Tuple

import fastBPE

from ..io import InputError, PathLike, read_lines

Merge = Tuple[str, str]
END_OF_WORD = "</w>"
CONTINUED = "@@"  # at the end of every piece that is not the last of its word
HEADER = re.compile(r"#version:\s*(\S+)\s*")
BYTE_LEVEL_SPACE = "\u0120"  # how GPT-2's byte-level codes write a space


def read_codes(path: PathLike, option: str = "--codes") -> List[Merge]:
    """Return the merges of a file of codes, most frequent first.

    Args:
        path: lines ``A B COUNT`` (fastBPE: XLM) or ``A B`` (subword-nmt, GPT), with or without the
            line ``#version: 0.2``.
        option: option that named it, for messages.

    Raises:
        InputError: bad input, as in :func:`read_lines`; another number of columns; a merge listed
            twice; codes that fastBPE cannot apply (version 0.1 of subword-nmt, GPT-2's bytes).
    """
    merges: List[Merge] = []
    seen: Set[Merge] = set()
    columns = 0
    for number, line in enumerate(read_lines(path, option, strict=False), start=1):
        place = f"{option} {path}, line {number}"
        header = HEADER.fullmatch(line) if number == 1 else None
        if header:
            if header[1] != "0.2":
                raise InputError(f"{place}: codes of version {header[1]}; valid: version 0.2")
            continue
        cells = line.rstrip(" \r").split(" ")
        if columns and cells == [""]:
            continue  # GPT's file ends with an empty line
        columns = columns or len(cells)
        is_row = len(cells) == columns and columns in (2, 3) and "" not in cells
        if not is_row or (columns == 3 and not cells[2].isdigit()):
            raise InputError(
                f"{place}: {line[:60]!r}; valid: two symbols and a count, or two symbols alone, "
                "the same in every line, separated by single spaces"
            )
        merge = (cells[0], cells[1])
        if merge in seen:
            listed = f"{merge[0]} {merge[1]} is listed twice"
            raise InputError(f"{place}: {listed}; valid: every merge once")
        _check_merge(merge, place)
        seen.add(merge)
        merges.append(merge)
    if not merges:
        valid = "codes made by python -m data_prep bpe learn"
        raise InputError(f"{option} {path}: lists no merge; valid: {valid}")
    return merges


def _check_merge(merge: Merge, place: str) -> None:
    listed = f"{place}: {merge[0]} {merge[1]}"
    if merge[0].startswith(BYTE_LEVEL_SPACE) and merge[0] != BYTE_LEVEL_SPACE:
        valid = "codes of characters (fastBPE, subword-nmt, GPT)"
        raise InputError(f"{listed}: byte-level codes, as GPT-2's; valid: {valid}")
    if END_OF_WORD in merge:
        raise InputError(
            f"{listed}: the end of a word is a symbol of its own, as in codes of version 0.1 of "
            "subword-nmt, which fastBPE cannot apply; "
            f"valid: codes with {END_OF_WORD} at the end of the last character"
        )


def format_codes(merges: Sequence[Merge]) -> Iterator[str]:
    """Yield lines that fastBPE and fairseq's ``--bpe fastbpe`` read; counts are unknown, so 0."""
    for first, second in merges:
        yield f"{first} {second} 0\n"


def load_codes(path: PathLike, option: str = "--codes") -> Any:
    """Return fastBPE with the codes of a file; fastBPE itself ends the process at a bad file.

    Raises:
        InputError: as in :func:`read_codes`.
    """
    merges = read_codes(path, option)
    with tempfile.TemporaryDirectory(prefix="codes-") as folder:
        plain = Path(folder) / "codes"
        plain.write_text("".join(format_codes(merges)), encoding="utf-8", newline="\n")
        with _without_standard_error():
            return fastBPE.fastBPE(str(plain))


@contextlib.contextmanager
def _without_standard_error() -> Iterator[None]:
    """Keep what fastBPE itself prints off standard error: it names the temporary file."""
    sys.stderr.flush()
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)
