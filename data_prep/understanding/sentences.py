"""Sentences or pairs of them with a class, and queries with documents and a grade."""

from __future__ import annotations  # data_bin imports fairseq, and is needed for types alone

from typing import TYPE_CHECKING, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence

from ..files import write_bytes
from ..io import InputError
from ..pieces.segmenters import batches
from .counts import Counts
from .sources import OPTION, TRAIN, Label, Source, check_grade
from .tables import NONE, Row, Table

if TYPE_CHECKING:
    from .data_bin import DataBin, Labels

EMPTY = "empty text"
UNKNOWN_LABEL = "label that train has not"
GROUP = "group"


def training_labels(table: Table, sources: Sequence[Source]) -> Iterator[Label]:
    """Yield the label of every row of train."""
    for source in sources:
        if source.split == TRAIN and table.label != NONE:
            for row in table.rows(source):
                yield Label(row.label, source.place(row.number))


def write_sentences(
    table: Table, data: DataBin, source: Source, labels: Optional[Labels], max_positions: int
) -> Counts:
    """Write the texts and labels of a source.

    Train and its translations lose rows without text on a side, translations also rows with a
    label that train lacks. In other splits all rows stay, so that every row is scored.

    Args:
        table: how rows are read.
        data: the data-bin.
        source: one split and language.
        labels: those of train; None: without labels.
        max_positions: tokens above which a row is counted as too long.

    Raises:
        InputError: as in :meth:`Table.rows`, or no row is left.
    """
    labels = _labels_of(table, source, labels)
    return _write_rows(data, table.rows(source), source, labels, max_positions, len(table.texts))


def write_ranking(
    table: Table, data: DataBin, source: Source, labels: Optional[Labels], max_positions: int
) -> Counts:
    """Write the texts, grades and queries of a source, the rows of a query one after the other.

    The file is held in memory. Args and Raises: as :func:`write_sentences`; also for a grade that
    is no whole number.
    """
    rows = list(table.rows(source))
    first: Dict[str, int] = {}
    for number, row in enumerate(rows):
        first.setdefault(row.query, number)
    ordered = sorted(rows, key=lambda row: first[row.query])
    labels = _labels_of(table, source, labels)
    if labels is not None:
        for row in ordered:
            check_grade(row.label, source.place(row.number))
    queries: List[str] = []
    width = len(table.texts)
    counts = _write_rows(data, ordered, source, labels, max_positions, width, queries)
    moves = sum(before is not after for before, after in zip(rows, ordered))
    if moves:
        counts.notes["rows moved to their query"] += moves
    counts.notes["queries"] += len(set(queries))
    text = "".join(f"{query}\n" for query in queries)
    write_bytes(data.folder / GROUP / f"{source.name}.txt", text.encode("utf-8"))
    return counts


def _labels_of(table: Table, source: Source, labels: Optional[Labels]) -> Optional[Labels]:
    has_labels = labels is not None and table.label != NONE and table.has_labels(source)
    return labels if has_labels else None


def _write_rows(
    data: DataBin,
    rows: Iterable[Row],
    source: Source,
    labels: Optional[Labels],
    max_positions: int,
    width: int,
    queries: Optional[List[str]] = None,
) -> Counts:
    counts = Counts()
    texts = [data.texts(number, source) for number in range(width)]
    classes = data.labels(labels.dictionary, source) if labels is not None else None
    unknown = data.dictionary.unk()
    label_names = set(labels.names) if labels is not None else set()
    for row, ids in _encode(data, rows, width):
        counts.read += 1
        if source.is_translated and labels is not None and row.label not in label_names:
            counts.dropped[UNKNOWN_LABEL] += 1
            continue
        if not all(ids):
            if source.is_training:
                counts.dropped[EMPTY] += 1
                continue
            counts.notes[EMPTY] += 1
        counts.kept += 1
        for file, text, text_ids in zip(texts, row.texts, ids):
            counts.add_text(len(text.split()), text_ids, unknown)
            file.add(data.row(text_ids))
        counts.add_length(sum(len(text_ids) + 1 for text_ids in ids), max_positions)
        if classes is not None and labels is not None:
            classes.add(data.row([labels.index(row.label, counts.unknown_labels)]))
        if queries is not None:
            queries.append(row.query)
    if labels is None:
        counts.notes["rows without labels"] += counts.kept
    check_some_row(source, counts)
    for file in texts:
        file.close()
    if classes is not None:
        classes.close()
    return counts


class _EncodedRow(NamedTuple):
    row: Row
    ids: List[List[int]]  # of each of its texts


def _encode(data: DataBin, rows: Iterable[Row], width: int) -> Iterator[_EncodedRow]:
    for batch in batches(rows):
        columns = [data.encode([row.texts[number] for row in batch]) for number in range(width)]
        for index, row in enumerate(batch):
            yield _EncodedRow(row, [column[index] for column in columns])


def check_some_row(source: Source, counts: Counts) -> None:
    """Raise InputError if no row of a source is left."""
    if not counts.kept:
        problem = f"no row is left of {counts.read:,} (dropped: {counts.describe_dropped()})"
        raise InputError(f"{OPTION} {source.name}: {source.path}: {problem}; valid: one at least")
