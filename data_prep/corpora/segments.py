"""The mark-up of evaluation sets (sgm, xml) and of IWSLT's training files, as plain lines."""

import html
import re
from pathlib import Path
from typing import Iterator, List, Tuple

from ..io import InputError, check_same_counts, read_lines

SEGMENT = re.compile(r"<seg\s+id\s*=\s*\"?([^\">\s]+)\"?\s*>(.*?)</seg>", re.IGNORECASE)
STARTS_SEGMENT = re.compile(r"<seg\b", re.IGNORECASE)
# IWSLT's training files: the content of these is text, all other lines that start with a tag are not.
TEXT_TAG = re.compile(r"\s*<(title|description)>(.*)</\1>\s*", re.IGNORECASE)
OTHER_TAG = re.compile(
    r"\s*</?(?:url|talkid|keywords|speaker|reviewer|translator|doc|dev|refset|srcset|content)\b", re.IGNORECASE
)


ENTITY = re.compile(r"&#?\w+;")


def resolve(text: str) -> str:
    """Return text with entities as characters (``&quot;``, ``&#91;``); an ``&`` that starts none stays."""
    return ENTITY.sub(lambda match: html.unescape(match[0]), text).strip()


def read_segments(path: Path, option: str = "--raw") -> List[Tuple[str, str]]:
    """Return id and text of every ``<seg>`` of an sgm or xml file, in its order; entities are resolved.

    Raises:
        InputError: bad input, as in :func:`read_lines`, a segment that does not end on its line, or none at all.
    """
    found = []
    for number, line in enumerate(read_lines(path, option, strict=False), start=1):
        matches = list(SEGMENT.finditer(line))
        if len(matches) != len(STARTS_SEGMENT.findall(line)):
            raise InputError(
                f'{option} {path}, line {number}: {line[:60]!r}; valid: <seg id="1">text</seg> on one line'
            )
        found += [(match[1], resolve(match[2])) for match in matches]
    if not found:
        raise InputError(f'{option} {path}: holds no <seg id="...">; valid: an sgm or xml evaluation set')
    return found


def parallel_segments(source: Path, target: Path) -> Iterator[Tuple[str, str]]:
    """Yield the texts of two files with the same segments.

    Raises:
        InputError: as in :func:`read_segments`, or the ids differ.
    """
    left, right = read_segments(source), read_segments(target)
    check_same_counts("--raw", {str(source): len(left), str(target): len(right)})
    for number, ((first, text), (second, other)) in enumerate(zip(left, right), start=1):
        if first != second:
            raise InputError(
                f"--raw {target}: segment {number} has id {second}, but {first} in {source}; valid: equal ids"
            )
        yield text, other


def read_tagged(path: Path) -> Iterator[str]:
    """Yield the lines of text of a ``train.tags`` file: titles, descriptions, sentences."""
    for line in read_lines(path, "--raw", strict=False):
        match = TEXT_TAG.fullmatch(line.rstrip("\r"))
        if match:
            yield resolve(match[2])
        elif not OTHER_TAG.match(line):
            yield resolve(line)


def parallel_tagged(source: Path, target: Path) -> Iterator[Tuple[str, str]]:
    """Yield the lines of text of two ``train.tags`` files.

    Raises:
        InputError: as in :func:`read_lines`, or unequal counts of such lines, before the first is yielded.
    """
    check_same_counts("--raw", {str(path): sum(1 for _ in read_tagged(path)) for path in (source, target)})
    yield from zip(read_tagged(source), read_tagged(target))


def find(folder: Path, patterns: List[str], what: str) -> Path:
    """Return the one file below a folder that matches the first pattern that any file matches.

    Raises:
        InputError: there is none, or more than one.
    """
    for pattern in patterns:
        matches = sorted(path for path in folder.rglob(pattern) if path.is_file())
        if len(matches) > 1:
            raise InputError(
                f"--raw {folder}: {' and '.join(map(str, matches[:3]))} are both {what}; valid: one of them"
            )
        if matches:
            return matches[0]
    raise InputError(f"--raw {folder}: no file {' or '.join(patterns)} ({what}); is its archive among --archive?")
