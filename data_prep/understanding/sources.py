"""What a run of nlu reads: SPLIT.LANG=FILE, how many rows of it, and lines that are fit for a table."""

import re
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Sequence

from ..io import BYTE_ORDER_MARK, InputError, PathLike, open_input, read_lines

TRAIN, TRANSLATE, TEST = "train", "translate", "test"
SPLITS = (TRAIN, TRANSLATE, "valid", TEST)  # translate: machine translations of train
NAME = re.compile(rf"({'|'.join(SPLITS)})\.([A-Za-z0-9_-]+)")
OPTION = "input"  # how messages call such an argument


class Source(NamedTuple):
    """One file of one split and language.

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
    def training(self) -> bool:
        """Whether rows may be dropped: those of the other splits are all answered for in the score."""
        return self.split in (TRAIN, TRANSLATE)

    @property
    def translated(self) -> bool:
        """Return whether a program translated the rows; their labels are those of the originals."""
        return self.split == TRANSLATE


def parse_limits(text: str) -> Dict[str, int]:
    """Return the rows to read of each split, from ``1000`` or ``train=10000,test=500``; 0 = all.

    Raises:
        InputError: another form, an unknown split or one given twice.
    """
    limits = dict.fromkeys(SPLITS, 0)
    if not text:
        return limits
    wrong = InputError(f"--limit {text}: valid: a number of rows, or one per split, as train=10000,test=500")
    if text.isdigit() and int(text):
        return dict.fromkeys(SPLITS, int(text))
    for item in text.split(","):
        split, _, number = item.partition("=")
        if limits.get(split) != 0 or not number.isdigit() or not int(number):
            raise wrong
        limits[split] = int(number)
    return limits


def parse_sources(items: Sequence[str], limits: Dict[str, int]) -> List[Source]:
    """Return the files that arguments SPLIT.LANG=FILE name, train first, otherwise in their order.

    Raises:
        InputError: another form, a name given twice, a file that is not there, or none at all.
    """
    found: Dict[str, Source] = {}
    for item in items:
        name, _, path = item.partition("=")
        match = NAME.fullmatch(name)
        if match is None or not path:
            raise InputError(
                f"{OPTION} {item}: valid: SPLIT.LANG=FILE, as test.de=xnli/test.de.tsv, with SPLIT one of {', '.join(SPLITS)} "
                "and a LANG of letters, digits, '_' and '-'"
            )
        if name in found:
            raise InputError(f"{OPTION} {item}: {name} is given twice; valid: one file for each split and language")
        open_input(path, f"{OPTION} {name}").close()
        found[name] = Source(match[1], match[2], Path(path), limits[match[1]])
    if not found:
        raise InputError(f"{OPTION}: none is given; valid: SPLIT.LANG=FILE, as train.en=train.tsv test.de=test.tsv")
    return sorted(found.values(), key=lambda source: SPLITS.index(source.split))


def table_lines(source: Source, csv: bool = False) -> Iterator[str]:
    """Yield the lines of a file whose rows are lines; other characters that end lines elsewhere may stand in a cell.

    Args:
        source: the file.
        csv: as csv writers leave it: CR LF may end a line.

    Raises:
        InputError: bad text, as in :func:`io.read_lines`; a byte order mark, a CR or a NUL, with the line.
    """
    where = f"{OPTION} {source.name}: {source.path}"
    for number, line in enumerate(read_lines(source.path, f"{OPTION} {source.name}:", strict=False), start=1):
        if number == 1 and line.startswith(BYTE_ORDER_MARK):
            raise InputError(f"{where}, line 1: starts with a byte order mark (U+FEFF); valid: UTF-8 without it")
        if csv and line.endswith("\r"):
            line = line[:-1]
        for sign, name in (("\r", "CR (U+000D)"), ("\0", "NUL (U+0000)")):
            if sign in line:
                raise InputError(
                    f"{where}, line {number}: {name} at position {line.index(sign) + 1}; valid: lines that end with LF alone, "
                    r"convert with: sed 's/\r$//'"
                )
        yield line


def file_of(source: Source, number: int) -> str:
    """How messages name a line."""
    return f"{OPTION} {source.name}: {source.path}, line {number}"


def names_of(paths: Sequence[PathLike]) -> List[str]:
    """Names of files without their folders, for manifests."""
    return [Path(path).name for path in paths]
