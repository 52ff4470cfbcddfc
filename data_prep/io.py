"""Read text files strictly: UTF-8 lines that end at LF only, equal line counts."""

import itertools
import json
import os
import re
from pathlib import Path
from typing import Any, BinaryIO, Dict, Iterator, Optional, Sequence, Tuple, Union

PathLike = Union[str, "os.PathLike[str]"]

BYTE_ORDER_MARK = "\ufeff"
# What str.splitlines or a text-mode reader takes for the end of a line, besides LF; and NUL.
LINE_BREAKERS = re.compile("[\x00\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")


class InputError(ValueError):
    """Raised for bad input of the user; the message names option, file, line and what is valid."""


def open_input(path: PathLike, option: str) -> BinaryIO:
    """Open a text file for reading as bytes.

    Args:
        path: the file.
        option: option that named it, for messages.

    Raises:
        InputError: the file is missing or a folder.
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
        option: option that named it, for messages.
        strict: refuse NUL, a byte order mark, and what other programs count as the end of a line
            (CR, U+2028 ...).

    Raises:
        InputError: no file, no line, bytes that are not UTF-8, or what `strict` refuses.
    """
    number = 0
    with open_input(path, option) as file:
        for number, content in enumerate(file, start=1):
            try:
                line = content.decode("utf-8")
            except UnicodeDecodeError as error:
                place = f"byte 0x{content[error.start]:02x} at byte {error.start + 1} of the line"
                raise InputError(
                    f"{option} {path}, line {number}: not UTF-8 ({place}"
                    f"{_encoding_hint(content, number)}); valid: UTF-8 text, "
                    "convert with: iconv -f ENCODING -t UTF-8"
                ) from None
            line = line[:-1] if line.endswith("\n") else line
            if strict:
                _refuse_line_breakers(line, number, path, option)
            yield line
    if number == 0:
        raise InputError(f"{option} {path}: the file is empty; valid: at least one line")


def _encoding_hint(content: bytes, number: int) -> str:
    if number == 1 and content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ", looks like UTF-16"
    if number == 1 and content.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"PK\x03\x04")):
        return ", looks like a compressed file: unpack it first"
    return ""


def _refuse_line_breakers(line: str, number: int, path: PathLike, option: str) -> None:
    remedy = "valid: plain lines that end with LF; python -m data_prep clean makes them"
    if number == 1 and line.startswith(BYTE_ORDER_MARK):
        reason = "starts with a byte order mark (U+FEFF)"
        raise InputError(f"{option} {path}, line 1: {reason}; {remedy}")
    match = LINE_BREAKERS.search(line)
    if match:
        place = f"character U+{ord(match[0]):04X} at position {match.start() + 1}"
        raise InputError(
            f"{option} {path}, line {number}: {place}, which other programs take for the end of a "
            f"line or a string; {remedy}"
        )


def read_parallel(
    paths: Sequence[PathLike], option: str, strict: bool = True
) -> Iterator[Tuple[str, ...]]:
    """Yield line i of every file as one tuple.

    Args:
        paths: files whose lines belong together.
        option: option that named them, for messages.
        strict: as in :func:`read_lines`.

    Raises:
        InputError: as in :func:`read_lines`; or unequal line counts, at the end of the shortest.
    """
    for lines in itertools.zip_longest(*(read_lines(path, option, strict) for path in paths)):
        if None in lines:
            check_same_counts(option, {str(path): count_lines(path, option) for path in paths})
        yield lines


def check_same_counts(option: str, counts: Dict[str, int]) -> None:
    """Raise InputError unless files whose lines belong together have equally many lines."""
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise InputError(
            f"{option}: unequal line counts: {listed}; line {min(counts.values()) + 1} has no "
            "counterpart; valid: the same number of lines (LF) in every file"
        )


def check_output_count(inputs: Sequence[PathLike], outputs: Sequence[PathLike]) -> None:
    """Raise InputError unless there is one output for each input."""
    if len(inputs) != len(outputs):
        counts = f"{len(outputs)} files for {len(inputs)} of --inputs"
        raise InputError(f"--outputs: {counts}; valid: one output for each input")


def count_lines(path: PathLike, option: str) -> int:
    """Count lines as :func:`read_lines` does: the last one counts with or without its LF."""
    with open_input(path, option) as file:
        return sum(1 for _ in file)


def read_json(path: PathLike) -> Optional[Dict[str, Any]]:
    """Read a JSON object; return None if there is no such file or it holds no JSON object."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def parse_json(text: str, place: str, first_line: int = 1) -> Any:
    """Parse JSON.

    Args:
        text: the JSON.
        place: option and file, for messages.
        first_line: number of the first line of the text in its file.

    Raises:
        InputError: no JSON; names the line.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        reason = f"not JSON ({error.msg} at column {error.colno})"
        raise InputError(f"{place}, line {line}: {reason}") from None
    except RecursionError:
        raise InputError(f"{place}: JSON that is nested too deep") from None


def get_text(record: Any, key: str, place: str) -> str:
    """Return the text under a key of a JSON object.

    Raises:
        InputError: no object, no such key, or something else than a text.
    """
    if isinstance(record, dict) and isinstance(record.get(key), str):
        return record[key]
    raise InputError(f"{place}: no text under {key!r} (found: {describe_json(record)})")


def describe_json(record: Any) -> str:
    """Return the keys of a JSON object, or the type of another value."""
    return ", ".join(sorted(record)) if isinstance(record, dict) else type(record).__name__
