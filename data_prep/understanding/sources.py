"""Inputs of a run of nlu: arguments SPLIT.LANG=FILE, limits of rows, lines of a table."""

import re
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Sequence

from ..io import BYTE_ORDER_MARK, InputError, open_input, read_lines

TRAIN, TRANSLATE, VALID, TEST = "train", "translate", "valid", "test"
SPLITS = (TRAIN, TRANSLATE, VALID, TEST)  # translate: machine translations of train
NAME = re.compile(rf"({'|'.join(SPLITS)})\.([A-Za-z0-9_-]+)")
OPTION = "input"  # name of such an argument in messages
MAX_GRADE = 99


class Source(NamedTuple):
    """A file of one split and language.

    Attributes:
        split: one of ``SPLITS``.
        lang: code of the language.
        path: the file.
        limit: rows to read from its beginning; 0 = all.
    """

    split: str
    lang: str
    path: Path
    limit: int = 0

    @property
    def name(self) -> str:
        """SPLIT.LANG, which names the files of the data-bin."""
        return f"{self.split}.{self.lang}"

    @property
    def is_training(self) -> bool:
        """True if rows may be dropped; in other splits, every row counts in the score."""
        return self.split in (TRAIN, TRANSLATE)

    @property
    def is_translated(self) -> bool:
        """True if a program translated the rows; their labels are those of the originals."""
        return self.split == TRANSLATE

    def place(self, line: int) -> str:
        """Return the name of a line in messages."""
        return f"{OPTION} {self.name}: {self.path}, line {line}"


class Label(NamedTuple):
    """A label with its place in a file, for messages."""

    name: str
    place: str


def parse_limits(text: str) -> Dict[str, int]:
    """Return the rows to read of each split, from ``1000`` or ``train=10000,test=500``; 0 = all.

    Raises:
        InputError: another form, an unknown split, or one that is listed twice.
    """
    limits = dict.fromkeys(SPLITS, 0)
    if not text:
        return limits
    if text.isdigit() and int(text):
        return dict.fromkeys(SPLITS, int(text))
    for item in text.split(","):
        split, _, number = item.partition("=")
        if limits.get(split) != 0 or not number.isdigit() or not int(number):
            valid = "a number of rows, or one per split, as train=10000,test=500"
            raise InputError(f"--limit {text}: valid: {valid}")
        limits[split] = int(number)
    return limits


def parse_sources(items: Sequence[str], limits: Dict[str, int]) -> List[Source]:
    """Return the files of arguments SPLIT.LANG=FILE, train first, otherwise in their order.

    Raises:
        InputError: another form, a name that occurs twice, a missing file, or no argument.
    """
    sources: Dict[str, Source] = {}
    for item in items:
        name, _, path = item.partition("=")
        match = NAME.fullmatch(name)
        if match is None or not path:
            raise InputError(
                f"{OPTION} {item}: valid: SPLIT.LANG=FILE, as test.de=xnli/test.de.tsv, with SPLIT "
                f"one of {', '.join(SPLITS)} and a LANG of letters, digits, '_' and '-'"
            )
        if name in sources:
            valid = "one file for each split and language"
            raise InputError(f"{OPTION} {item}: {name} is given twice; valid: {valid}")
        open_input(path, f"{OPTION} {name}").close()
        sources[name] = Source(match[1], match[2], Path(path), limits[match[1]])
    if not sources:
        valid = "SPLIT.LANG=FILE, as train.en=train.tsv test.de=test.tsv"
        raise InputError(f"{OPTION}: none is given; valid: {valid}")
    return sorted(sources.values(), key=lambda source: SPLITS.index(source.split))


def read_table_lines(source: Source, is_csv: bool = False) -> Iterator[str]:
    """Yield the lines of a table; other characters that end lines elsewhere may stand in a cell.

    Args:
        source: the file.
        is_csv: accept CR LF at the end of a line, as csv writers leave it.

    Raises:
        InputError: bad text, as in :func:`read_lines`; a byte order mark, a CR or a NUL.
    """
    lines = read_lines(source.path, f"{OPTION} {source.name}:", strict=False)
    for number, line in enumerate(lines, start=1):
        if number == 1 and line.startswith(BYTE_ORDER_MARK):
            reason = "starts with a byte order mark (U+FEFF)"
            raise InputError(f"{source.place(1)}: {reason}; valid: UTF-8 without it")
        if is_csv and line.endswith("\r"):
            line = line[:-1]
        for sign, name in (("\r", "CR (U+000D)"), ("\0", "NUL (U+0000)")):
            if sign in line:
                reason = f"{name} at position {line.index(sign) + 1}"
                remedy = r"lines that end with LF alone, convert with: sed 's/\r$//'"
                raise InputError(f"{source.place(number)}: {reason}; valid: {remedy}")
        yield line


def check_grade(name: str, place: str) -> None:
    """Raise InputError unless a label is a grade: 0, 1, 2 …."""
    is_number = name.isascii() and name.isdigit() and name == str(int(name))
    if not is_number or int(name) > MAX_GRADE:
        valid = f"0, 1, 2 … {MAX_GRADE}; --label-map Bad=0,Good=1 makes them of words"
        raise InputError(f"{place}: the grade {name[:60]!r}; valid: {valid}")
