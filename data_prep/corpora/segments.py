"""Evaluation sets (sgm, xml) and IWSLT's training files as plain lines, and files by pattern."""

import html
import re
from pathlib import Path
from typing import Iterator, List, NamedTuple, Tuple

from ..io import InputError, check_same_counts, read_lines

SEGMENT = re.compile(r"<seg\s+id\s*=\s*\"?([^\">\s]+)\"?\s*>(.*?)</seg>", re.IGNORECASE)
SEGMENT_START = re.compile(r"<seg\b", re.IGNORECASE)
# IWSLT's training files: the content of these is text, other lines that start with a tag are not.
TEXT_TAG = re.compile(r"\s*<(title|description)>(.*)</\1>\s*", re.IGNORECASE)
OTHER_TAG = re.compile(
    r"\s*</?(?:url|talkid|keywords|speaker|reviewer|translator|doc|dev|refset|srcset|content)\b",
    re.IGNORECASE,
)
ENTITY = re.compile(r"&#?\w+;")
MAX_LISTED = 3


class Segment(NamedTuple):
    """A segment of an evaluation set."""

    id: str
    text: str


def resolve_entities(text: str) -> str:
    """Return text with entities (``&quot;``, ``&#91;``) as characters; a lone ``&`` stays."""
    return ENTITY.sub(lambda match: html.unescape(match[0]), text).strip()


def read_segments(path: Path) -> List[Segment]:
    """Return every ``<seg>`` of an sgm or xml file, in its order.

    Raises:
        InputError: bad input, as in :func:`read_lines`, a segment that does not end on its line,
            or no segment.
    """
    segments = []
    for number, line in enumerate(read_lines(path, "--raw", strict=False), start=1):
        matches = list(SEGMENT.finditer(line))
        if len(matches) != len(SEGMENT_START.findall(line)):
            valid = '<seg id="1">text</seg> on one line'
            raise InputError(f"--raw {path}, line {number}: {line[:60]!r}; valid: {valid}")
        segments += [Segment(match[1], resolve_entities(match[2])) for match in matches]
    if not segments:
        reason = 'holds no <seg id="...">'
        raise InputError(f"--raw {path}: {reason}; valid: an sgm or xml evaluation set")
    return segments


def parallel_segments(source: Path, target: Path) -> Iterator[Tuple[str, str]]:
    """Yield the texts of two files with the same segments.

    Raises:
        InputError: as in :func:`read_segments`, or the ids differ.
    """
    sources, targets = read_segments(source), read_segments(target)
    check_same_counts("--raw", {str(source): len(sources), str(target): len(targets)})
    for number, (first, second) in enumerate(zip(sources, targets), start=1):
        if first.id != second.id:
            problem = f"segment {number} has id {second.id}, but {first.id} in {source}"
            raise InputError(f"--raw {target}: {problem}; valid: equal ids")
        yield first.text, second.text


def read_tagged(path: Path) -> Iterator[str]:
    """Yield the text of a train.tags file: titles, descriptions, sentences."""
    for line in read_lines(path, "--raw", strict=False):
        match = TEXT_TAG.fullmatch(line.rstrip("\r"))
        if match:
            yield resolve_entities(match[2])
        elif not OTHER_TAG.match(line):
            yield resolve_entities(line)


def parallel_tagged(source: Path, target: Path) -> Iterator[Tuple[str, str]]:
    """Yield the lines of text of two train.tags files.

    Raises:
        InputError: as in :func:`read_lines`, or unequal line counts, before the first line.
    """
    counts = {str(path): sum(1 for _ in read_tagged(path)) for path in (source, target)}
    check_same_counts("--raw", counts)
    yield from zip(read_tagged(source), read_tagged(target))


def find_file(folder: Path, patterns: List[str], description: str) -> Path:
    """Return the only file below a folder that matches the first pattern with matches.

    Raises:
        InputError: there is none, or more than one.
    """
    for pattern in patterns:
        matches = sorted(path for path in folder.rglob(pattern) if path.is_file())
        if len(matches) > 1:
            listed = " and ".join(map(str, matches[:MAX_LISTED]))
            problem = f"{listed} are both {description}"
            raise InputError(f"--raw {folder}: {problem}; valid: one of them")
        if matches:
            return matches[0]
    problem = f"no file {' or '.join(patterns)} ({description})"
    raise InputError(f"--raw {folder}: {problem}; is its archive among --archive?")
