"""Files of BPE codes in every form that was released, and fastBPE at work with them."""

import contextlib
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterable, Iterator, List, Optional, Sequence, Tuple

import fastBPE

from ..io import InputError, PathLike, read_lines

Merge = Tuple[str, str]
END_OF_WORD = "</w>"
CONTINUED = "@@"  # at the end of every piece that is not the last of its word
HEADER = re.compile(r"#version:\s*(\S+)\s*")
BYTE_LEVEL_SPACE = "\u0120"  # how GPT-2's byte-level codes write a space
BATCH_LINES = 1000
JOINED = CONTINUED + " "


def read_codes(path: PathLike, option: str = "--codes") -> List[Merge]:
    """Return the merges of a file of codes, most frequent first.

    Args:
        path: lines ``A B COUNT`` (fastBPE: XLM) or ``A B`` (subword-nmt, GPT), with or without the line ``#version: 0.2``.
        option: the option that named it, for messages.

    Raises:
        InputError: bad input, as in :func:`read_lines`; another number of columns; a merge listed twice; codes that fastBPE
            cannot apply (version 0.1 of subword-nmt, byte-level codes of GPT-2).
    """
    merges: List[Merge] = []
    seen = set()
    columns = 0
    for number, line in enumerate(read_lines(path, option, strict=False), start=1):
        header = HEADER.fullmatch(line) if number == 1 else None
        if header:
            if header[1] != "0.2":
                raise InputError(f"{option} {path}, line 1: codes of version {header[1]}; valid: version 0.2")
            continue
        cells = line.rstrip(" \r").split(" ")
        if columns and cells == [""]:
            continue  # GPT's file ends with an empty line
        columns = columns or len(cells)
        if len(cells) != columns or columns not in (2, 3) or "" in cells or (columns == 3 and not cells[2].isdigit()):
            raise InputError(
                f"{option} {path}, line {number}: {line[:60]!r}; valid: two symbols and a count, or two symbols alone, "
                "the same in every line, separated by single spaces"
            )
        merge = (cells[0], cells[1])
        _refuse(merge, merge in seen, f"{option} {path}, line {number}")
        seen.add(merge)
        merges.append(merge)
    if not merges:
        raise InputError(f"{option} {path}: lists no merge; valid: codes made by python -m data_prep.bpe learn")
    return merges


def _refuse(merge: Merge, repeated: bool, where: str) -> None:
    listed = f"{where}: {merge[0]} {merge[1]}"
    if repeated:
        raise InputError(f"{listed} is listed twice; valid: every merge once")
    if merge[0].startswith(BYTE_LEVEL_SPACE) and merge[0] != BYTE_LEVEL_SPACE:
        raise InputError(
            f"{listed}: byte-level codes, as GPT-2's; valid: codes of characters (fastBPE, subword-nmt, GPT)"
        )
    if END_OF_WORD in merge:
        raise InputError(
            f"{listed}: the end of a word is a symbol of its own, as in codes of version 0.1 of subword-nmt, which fastBPE "
            f"cannot apply; valid: codes with {END_OF_WORD} at the end of the last character"
        )


def codes_lines(merges: Sequence[Merge]) -> Iterator[str]:
    """Yield the lines of the form that fastBPE and fairseq's ``--bpe fastbpe`` read; the counts are not known and so 0."""
    for left, right in merges:
        yield f"{left} {right} 0\n"


def load_codes(path: PathLike, option: str = "--codes") -> Any:
    """Return fastBPE with the codes of a file, whatever its form; fastBPE itself ends the process at a bad file.

    Raises:
        InputError: as in :func:`read_codes`.
    """
    merges = read_codes(path, option)
    with tempfile.TemporaryDirectory(prefix="codes-") as folder:
        plain = Path(folder) / "codes"
        plain.write_text("".join(codes_lines(merges)), encoding="utf-8", newline="\n")
        with _silent():
            return fastBPE.fastBPE(str(plain))


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep what fastBPE itself prints off standard error: it names the temporary file."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def encode_lines(processor: Any, lines: Iterable[str]) -> Iterator[List[str]]:
    """Yield the pieces of each line; words are what white space separates, as fairseq reads them."""
    batch: List[str] = []
    for line in lines:
        batch.append(" ".join(line.split()))
        if len(batch) == BATCH_LINES:
            yield from (pieces.split() for pieces in processor.apply(batch))
            batch = []
    if batch:
        yield from (pieces.split() for pieces in processor.apply(batch))


def decode_line(line: str) -> str:
    """Return the text of a line of pieces, words separated by single spaces, as fairseq's ``--remove-bpe`` gives it."""
    return (line + " ").replace(JOINED, "").rstrip()


def lost_word(line: str, pieces: Sequence[str]) -> Optional[str]:
    """Return the first word of a line that does not come back from its pieces, or None when all do."""
    words, decoded = line.split(), decode_line(" ".join(pieces)).split()
    if words == decoded:
        return None
    first = next((word for word, back in zip(words, decoded) if word != back), None)
    return first or words[min(len(decoded), len(words) - 1)]
