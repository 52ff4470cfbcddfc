"""Rows of a table with tabs: texts, label and query from columns, by number or by name."""

import csv
import itertools
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..io import LINE_BREAKERS, InputError
from ..progress import with_progress
from .sources import SPLITS, TEST, TRAIN, Source, read_table_lines

LAST, NONE = "last", "none"
MAX_TEXTS = 2
ABSENT = -1


class Row(NamedTuple):
    """A row of a table.

    Attributes:
        number: its line in the file.
        texts: one or two.
        label: after renaming; empty if the file has no labels.
        query: id of the query; empty without ``--query``.
    """

    number: int
    texts: Tuple[str, ...]
    label: str
    query: str


class _Places(NamedTuple):
    """Indices of the columns of a file; ``ABSENT`` if there is none."""

    texts: Tuple[Tuple[int, ...], ...]
    label: int
    query: int


@dataclass(frozen=True)
class Table:
    """Reader of the rows of a table.

    Args:
        texts: one or two texts, each the names of columns that are joined by a space.
        label: column, ``last``, or ``none``.
        query: column of the query's id; ``none`` without ranking.
        header: splits whose files begin with a line of names.
        csv: cells may be quoted, as csv writers do, and CR LF may end a line.
        label_map: label in the file -> label.
        translations: table of the files of machine translations (default: this one). Rows of such
            files with another number of columns have no text and no label.
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
            InputError: bad text, a missing column, a row with another number of columns than the
                first, a label or a query that cannot be used; names file and line.
        """
        if source.is_translated and self.translations is not None:
            yield from self.translations.rows(source)
            return
        lines = with_progress(read_table_lines(source, self.csv), f"nlu {source.name}")
        all_cells = (
            (number, self._cells(line, source, number))
            for number, line in enumerate(lines, start=1)
        )
        first = next(all_cells)
        width = len(first[1])
        has_header = source.split in self.header
        places = self._find_places(first[1], source, has_header)
        rows = all_cells if has_header else itertools.chain([first], all_cells)
        for number, cells in itertools.islice(rows, source.limit or None):
            if len(cells) == width:
                yield self._row(number, cells, places, source)
            elif source.is_translated:
                yield Row(number, ("",) * len(self.texts), "", "")
            else:
                valid = f"{width}, separated by tabs, as in line 1"
                message = f"{source.place(number)}: {len(cells)} columns; valid: {valid}"
                raise InputError(message)

    def has_labels(self, source: Source) -> bool:
        """Return True if a file has the label column."""
        if source.is_translated and self.translations is not None:
            return self.translations.has_labels(source)
        first = self._cells(next(read_table_lines(source, self.csv)), source, 1)
        return self._find_places(first, source, source.split in self.header).label != ABSENT

    def _cells(self, line: str, source: Source, number: int) -> List[str]:
        if not self.csv:
            return line.split("\t")
        csv.field_size_limit(max(len(line), csv.field_size_limit()))
        try:
            return next(csv.reader([line], delimiter="\t", strict=True), [""])
        except csv.Error as error:
            raise InputError(
                f"{source.place(number)}: quotation marks that no csv writer leaves ({error}); "
                "valid: without --csv cells are taken as they stand"
            ) from None

    def _find_places(self, first: Sequence[str], source: Source, has_header: bool) -> _Places:
        names = list(first) if has_header else []
        width = len(first)
        place = f"{source.place(1)}: {width} columns"
        if names:
            place += f" ({', '.join(names)})"

        def find(option: str, column: str) -> int:
            index = _find_column(column, width, names)
            if index is None:
                valid = _describe_columns(width, names)
                raise InputError(f"{place}; {option} {column}: valid: {valid}")
            return index

        texts = tuple(tuple(find("--text", column) for column in text) for text in self.texts)
        query = ABSENT if self.query == NONE else find("--query", self.query)
        if self.label == NONE:
            return _Places(texts, ABSENT, query)
        label = _find_column(self.label, width, names)
        is_text = any(label in text for text in texts)
        if label is not None and not is_text:
            return _Places(texts, label, query)
        if source.split == TEST:
            return _Places(texts, ABSENT, query)
        reason = "is a text already" if is_text else "is not there"
        raise InputError(
            f"{place}; --label {self.label} {reason}; valid: {_describe_columns(width, names)}, "
            f"or {NONE}; only files of test may lack labels"
        )

    def _row(self, number: int, cells: Sequence[str], places: _Places, source: Source) -> Row:
        texts = tuple(
            " ".join(filter(None, (cells[index] for index in text))) for text in places.texts
        )
        label = cells[places.label].strip() if places.label != ABSENT else ""
        label = self.label_map.get(label, label)
        query = cells[places.query].strip() if places.query != ABSENT else ""
        if source.split == TRAIN and places.label != ABSENT and not label:
            valid = "every row of train has one"
            raise InputError(f"{source.place(number)}: no label; valid: {valid}")
        if places.query != ABSENT and (not query or LINE_BREAKERS.search(query)):
            valid = "an id on one line"
            raise InputError(f"{source.place(number)}: {query[:60]!r} as --query; valid: {valid}")
        return Row(number, texts, label, query)


def _find_column(column: str, width: int, names: Sequence[str]) -> Optional[int]:
    if column in names:
        return names.index(column)
    if column == LAST:
        return width - 1
    return int(column) - 1 if column.isdigit() and 0 < int(column) <= width else None


def _describe_columns(width: int, names: Sequence[str]) -> str:
    listed = ", ".join(names) if names else "and names place --header says so"
    return f"1 to {width}, {LAST}, {listed}"


def parse_texts(text: str, header: Sequence[str]) -> Tuple[Tuple[str, ...], ...]:
    """Return the texts of ``1,2`` (two columns) or ``query,title+body`` (one; two joined).

    Raises:
        InputError: none, more than two, an empty name, or a name without any header.
    """
    texts = tuple(tuple(item.split("+")) for item in text.split(","))
    columns = [column for item in texts for column in item]
    if len(texts) > MAX_TEXTS or "" in columns:
        raise InputError(f"--text {text}: valid: one or two texts, as 1,2 or query,title+body")
    check_columns("--text", columns, header)
    return texts


def check_columns(option: str, columns: Sequence[str], header: Sequence[str]) -> None:
    """Raise InputError for a column that is no number, if no file has a header."""
    for column in columns:
        is_number = column.isdigit() and int(column) > 0
        if column not in (LAST, NONE) and not header and not is_number:
            valid = f"a number from 1, {LAST}, or with --header a name"
            raise InputError(f"{option} {column}: valid: {valid}")


def parse_header(text: str) -> Tuple[str, ...]:
    """Return the splits of ``all``, ``none`` or ``train,valid``.

    Raises:
        InputError: an unknown split.
    """
    if text in ("all", NONE):
        return SPLITS if text == "all" else ()
    splits = tuple(text.split(","))
    if set(splits) - set(SPLITS):
        valid = f"all, {NONE}, or splits with a header, as train,valid"
        raise InputError(f"--header {text}: valid: {valid}")
    return splits


def parse_label_map(text: str) -> Dict[str, str]:
    """Return the labels of ``contradictory=contradiction,Bad=0``.

    Raises:
        InputError: another form, or a label renamed twice.
    """
    label_map: Dict[str, str] = {}
    for item in text.split(",") if text else ():
        old, equals, new = item.partition("=")
        if not (old and equals and new) or old in label_map:
            valid = "OLD=NEW,OLD=NEW, every OLD once"
            raise InputError(f"--label-map {text}: {item!r}; valid: {valid}")
        label_map[old] = new
    return label_map
