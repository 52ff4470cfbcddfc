"""Rows of a table with tabs: texts, label and query from chosen columns, by number or by the names in a header."""

import csv
import itertools
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..io import LINE_BREAKERS, InputError
from ..progress import with_progress
from .sources import SPLITS, TEST, TRAIN, Source, file_of, table_lines

LAST, NONE = "last", "none"
MOST_TEXTS = 2
ABSENT = -1


class Row(NamedTuple):
    """A row of the table.

    Attributes:
        number: its line in the file.
        texts: one or two.
        label: mapped; empty where the file has no labels.
        query: id of the query; empty without ``--query``.
    """

    number: int
    texts: Tuple[str, ...]
    label: str
    query: str


class _Places(NamedTuple):
    """Indices of the columns of one file."""

    texts: Tuple[Tuple[int, ...], ...]
    label: int
    query: int


@dataclass(frozen=True)
class Table:
    """How rows are read.

    Args:
        texts: one or two texts, each the names of columns that are joined by a space.
        label: column, ``last``, or ``none``.
        query: column of the query's id, ``none`` without ranking.
        header: splits whose files begin with a line of names.
        csv: cells may stand in quotation marks, as csv writers set them, and CR LF may end a line.
        label_map: label in the file -> label.
        translations: table of the files of machine translations (default: this one). Rows of such files
            that have another number of columns have no text and no label.
    """

    texts: Tuple[Tuple[str, ...], ...]
    label: str = LAST
    query: str = NONE
    header: Tuple[str, ...] = ()
    csv: bool = False
    label_map: Dict[str, str] = field(default_factory=dict)
    translations: Optional["Table"] = None

    def rows(self, source: Source) -> Iterator[Row]:
        """Yield the rows of a file, as many as its limit says.

        A file of test may lack the label column: its rows have no label.

        Raises:
            InputError: bad text, a column that is not there, a row with another number of columns than the first, a label or a
                query that cannot be used; names file and line.
        """
        if source.translated and self.translations is not None:
            yield from self.translations.rows(source)
            return
        lines = enumerate(with_progress(table_lines(source, self.csv), f"nlu {source.name}"), start=1)
        number, line = next(lines)
        first = self._cells(line, source, number)
        named = source.split in self.header
        places = self._places(first, source, named)
        rest = ((at, self._cells(text, source, at)) for at, text in lines)
        all_rows = rest if named else itertools.chain([(number, first)], rest)
        for at, cells in itertools.islice(all_rows, source.limit or None):
            if len(cells) != len(first) and source.translated:
                yield Row(at, ("",) * len(self.texts), "", "")
                continue
            if len(cells) != len(first):
                raise InputError(
                    f"{file_of(source, at)}: {len(cells)} columns; valid: {len(first)}, separated by tabs, as in line 1"
                )
            yield self._row(at, cells, places, source)

    def labelled(self, source: Source) -> bool:
        """Whether a file has the label column."""
        if source.translated and self.translations is not None:
            return self.translations.labelled(source)
        number, line = next(enumerate(table_lines(source, self.csv), start=1))
        cells = self._cells(line, source, number)
        return self._places(cells, source, source.split in self.header).label != ABSENT

    def _cells(self, line: str, source: Source, number: int) -> List[str]:
        if not self.csv:
            return line.split("\t")
        csv.field_size_limit(max(len(line), csv.field_size_limit()))
        try:
            return next(csv.reader([line], delimiter="\t", strict=True), [""])
        except csv.Error as error:
            raise InputError(
                f"{file_of(source, number)}: quotation marks that no csv writer leaves ({error}); valid: without --csv cells are "
                "taken as they stand"
            ) from None

    def _places(self, first: Sequence[str], source: Source, named: bool) -> _Places:
        names = list(first) if named else []
        where = f"{file_of(source, 1)}: {len(first)} columns" + (f" ({', '.join(names)})" if names else "")

        def place(option: str, column: str) -> int:
            if column == NONE:
                return ABSENT
            found = _index(column, len(first), names)
            if found is None:
                raise InputError(f"{where}; {option} {column}: valid: {_valid(len(first), names)}")
            return found

        texts = tuple(tuple(place("--text", column) for column in text) for text in self.texts)
        taken = {index for text in texts for index in text}
        label = None if self.label == NONE else _index(self.label, len(first), names)
        if self.label != NONE and (label is None or label in taken) and source.split != TEST:
            why = "is a text already" if label in taken else "is not there"
            raise InputError(
                f"{where}; --label {self.label} {why}; valid: {_valid(len(first), names)}, or {NONE}; only files of test may "
                "lack labels"
            )
        return _Places(texts, ABSENT if label is None or label in taken else label, place("--query", self.query))

    def _row(self, number: int, cells: Sequence[str], places: _Places, source: Source) -> Row:
        texts = tuple(" ".join(filter(None, (cells[index] for index in text))) for text in places.texts)
        label = cells[places.label].strip() if places.label != ABSENT else ""
        label = self.label_map.get(label, label)
        query = cells[places.query].strip() if places.query != ABSENT else ""
        if source.split == TRAIN and places.label != ABSENT and not label:
            raise InputError(f"{file_of(source, number)}: no label; valid: every row of train has one")
        if places.query != ABSENT and (not query or LINE_BREAKERS.search(query)):
            raise InputError(f"{file_of(source, number)}: {query[:60]!r} as --query; valid: an id on one line")
        return Row(number, texts, label, query)


def _index(column: str, width: int, names: Sequence[str]) -> Optional[int]:
    """Index of a column, None where there is none."""
    if column in names:
        return names.index(column)
    if column == LAST:
        return width - 1
    return int(column) - 1 if column.isdigit() and 0 < int(column) <= width else None


def _valid(width: int, names: Sequence[str]) -> str:
    return f"1 to {width}, {LAST}" + (f", {', '.join(names)}" if names else ", and names where --header says so")


def parse_texts(text: str, header: Sequence[str]) -> Tuple[Tuple[str, ...], ...]:
    """Return the texts of ``1,2`` (two columns) or ``query,title+body`` (a column; two columns joined).

    Raises:
        InputError: none, more than two, an empty name, or a name without any header.
    """
    texts = tuple(tuple(item.split("+")) for item in text.split(","))
    columns = [column for item in texts for column in item]
    if len(texts) > MOST_TEXTS or "" in columns:
        raise InputError(f"--text {text}: valid: one or two texts, as 1,2 or query,title+body")
    check_columns("--text", columns, header)
    return texts


def check_columns(option: str, columns: Sequence[str], header: Sequence[str]) -> None:
    """Check that columns are numbers where no file has a header.

    Raises:
        InputError: a name without any header, or 0.
    """
    for column in columns:
        if column not in (LAST, NONE) and not header and not (column.isdigit() and int(column)):
            raise InputError(f"{option} {column}: valid: a number from 1, {LAST}, or with --header a name")


def parse_header(text: str) -> Tuple[str, ...]:
    """Return the splits of ``all``, ``none`` or ``train,valid``.

    Raises:
        InputError: an unknown split.
    """
    if text in ("all", NONE):
        return SPLITS if text == "all" else ()
    splits = tuple(text.split(","))
    if set(splits) - set(SPLITS):
        raise InputError(f"--header {text}: valid: all, {NONE}, or splits with a header, as train,valid")
    return splits


def parse_map(text: str) -> Dict[str, str]:
    """Return the labels of ``contradictory=contradiction,Bad=0``.

    Raises:
        InputError: another form, or a label mapped twice.
    """
    found: Dict[str, str] = {}
    for item in text.split(",") if text else ():
        old, equals, new = item.partition("=")
        if not (old and equals and new) or old in found:
            raise InputError(f"--label-map {text}: {item!r}; valid: OLD=NEW,OLD=NEW, every OLD once")
        found[old] = new
    return found
