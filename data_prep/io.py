"""Read text files strictly: UTF-8 lines that end at LF only, equal line counts."""

import itertools
import json
import os
import re
from pathlib import Path
from typing import Any, Dict, Iterator, Optional, Sequence, Tuple, Union

PathLike = Union[str, "os.PathLike[str]"]

BYTE_ORDER_MARK = "\ufeff"
# What str.splitlines or a text-mode reader takes for the end of a line, besides LF; and NUL.
LINE_BREAKERS = re.compile("[\x00\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")


class InputError(ValueError):
    """Something the user gave cannot be used; the message names the option, the file, the line and what is valid."""


def open_input(path: PathLike, option: str):
    """Open a file of text for reading as bytes.

    Args:
        path: the file.
        option: the option that named it, for the message.

    Raises:
        InputError: there is no such file, or it is a folder.
    """
    if not Path(path).exists():
        raise InputError(f"{option} {path}: no such file")
    if Path(path).is_dir():
        raise InputError(f"{option} {path}: a folder; valid: a text file")
    return open(path, "rb")


def read_lines(path: PathLike, option: str, strict: bool = True) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without their LF; lines end at LF and nowhere else.

    Args:
        path: the file.
        option: the option that named it, for messages.
        strict: refuse what other programs would count as another line (CR, U+2028 ...), NUL, and a byte order mark.

    Raises:
        InputError: no file, no line, bytes that are not UTF-8, or (strict) one of the characters above.
    """
    number = 0
    with open_input(path, option) as file:
        for number, raw in enumerate(file, start=1):
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{option} {path}, line {number}: not UTF-8 (byte 0x{raw[error.start]:02x} at byte "
                    f"{error.start + 1} of the line{_encoding_hint(raw, number)}); valid: UTF-8 text, "
                    "convert with: iconv -f ENCODING -t UTF-8"
                ) from None
            line = line[:-1] if line.endswith("\n") else line
            if strict:
                _refuse_line_breakers(line, number, path, option)
            yield line
    if number == 0:
        raise InputError(f"{option} {path}: the file is empty; valid: at least one line")


def _encoding_hint(raw: bytes, number: int) -> str:
    if number == 1 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ", looks like UTF-16"
    if number == 1 and raw.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"PK\x03\x04")):
        return ", looks like a compressed file: unpack it first"
    return ""


def _refuse_line_breakers(line: str, number: int, path: PathLike, option: str) -> None:
    remedy = "valid: plain lines that end with LF; python -m data_prep.clean makes them"
    if number == 1 and line.startswith(BYTE_ORDER_MARK):
        raise InputError(f"{option} {path}, line 1: starts with a byte order mark (U+FEFF); {remedy}")
    found = LINE_BREAKERS.search(line)
    if found:
        raise InputError(
            f"{option} {path}, line {number}: character U+{ord(found[0]):04X} at position {found.start() + 1}, which "
            f"other programs take for the end of a line or a string; {remedy}"
        )


def read_parallel(paths: Sequence[PathLike], option: str, strict: bool = True) -> Iterator[Tuple[str, ...]]:
    """Yield line i of every file as one tuple.

    Args:
        paths: files whose lines belong together.
        option: the option that named them, for messages.
        strict: as in :func:`read_lines`.

    Raises:
        InputError: as in :func:`read_lines`, or the files have different numbers of lines (at the end of the shortest).
    """
    for lines in itertools.zip_longest(*(read_lines(path, option, strict) for path in paths)):
        if None in lines:
            check_same_counts(option, {str(path): count_lines(path, option) for path in paths})
        yield lines


def check_same_counts(option: str, counts: Dict[str, int]) -> None:
    """Check that files whose lines belong together have the same number of lines.

    Raises:
        InputError: they have not.
    """
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise InputError(
            f"{option}: unequal line counts: {listed}; line {min(counts.values()) + 1} has no counterpart; "
            "valid: the same number of lines (LF) in every file"
        )


def count_lines(path: PathLike, option: str) -> int:
    """Count lines as :func:`read_lines` does: the last one counts with or without its LF."""
    with open_input(path, option) as file:
        return sum(1 for _ in file)


def read_json(path: PathLike) -> Optional[Dict[str, Any]]:
    """Read a JSON object; None when there is no such file or it is no JSON object."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def same_number(inputs: Sequence[PathLike], outputs: Sequence[PathLike]) -> None:
    """Check that there is one output for each input.

    Raises:
        InputError: the numbers differ.
    """
    if len(inputs) != len(outputs):
        raise InputError(
            f"--outputs: {len(outputs)} files for {len(inputs)} of --inputs; valid: one output for each input"
        )
