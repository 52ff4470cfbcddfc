"""Sentences or pairs of them with a class each, and pairs of a query and a document with a grade each."""

import itertools
from typing import Iterable, Iterator, List, Optional, Sequence, Tuple

from ..files import write_bytes
from ..io import InputError
from .counts import Counts
from .data_bin import DataBin
from .labels import Labels, check_grade
from .sources import OPTION, TRAIN, Source, file_of
from .tables import NONE, Row, Table

BATCH_ROWS = 1000
EMPTY = "empty text"
UNKNOWN_LABEL = "label that train has not"
GROUP = "group"


def labels_of(table: Table, sources: Sequence[Source]) -> Iterator[Tuple[str, str]]:
    """Yield the label of every row of train, and where it stands."""
    for source in sources:
        if source.split == TRAIN and table.label != NONE:
            for row in table.rows(source):
                yield row.label, file_of(source, row.number)


def write_sentences(table: Table, data: DataBin, source: Source, labels: Optional[Labels], longest: int) -> Counts:
    """Write the texts and labels of a source.

    Train and its translations lose rows without text on a side, translations also rows with a label that
    train has not. In the other splits rows stay, so that every row is scored.

    Args:
        table: how rows are read.
        data: where they go.
        source: one split and language.
        labels: of train; None: without labels.
        longest: ``--max-positions``.

    Returns:
        What was counted.

    Raises:
        InputError: as in :meth:`Table.rows`, or no row is left.
    """
    return _write(data, table.rows(source), source, _labels_for(table, source, labels), longest, len(table.texts))


def write_ranking(table: Table, data: DataBin, source: Source, labels: Labels, longest: int) -> Counts:
    """Write the texts, grades and queries of a source, the rows of a query one after the other.

    The file is held in memory. Args, Returns and Raises: as :func:`write_sentences`; also for a grade that is no whole number.
    """
    rows = list(table.rows(source))
    first = {query: number for number, query in reversed(list(enumerate(row.query for row in rows)))}
    ordered = sorted(rows, key=lambda row: first[row.query])
    found = _labels_for(table, source, labels)
    if found is not None:
        for row in ordered:
            check_grade(row.label, file_of(source, row.number))
    queries: List[str] = []
    counts = _write(data, ordered, source, found, longest, len(table.texts), queries)
    moved = sum(before is not after for before, after in zip(rows, ordered))
    if moved:
        counts.notes["rows moved to their query"] += moved
    counts.notes["queries"] += len(set(queries))
    write_bytes(data.folder / GROUP / f"{source.name}.txt", "".join(f"{query}\n" for query in queries).encode("utf-8"))
    return counts


def _labels_for(table: Table, source: Source, labels: Optional[Labels]) -> Optional[Labels]:
    return labels if labels is not None and table.label != NONE and table.labelled(source) else None


def _write(
    data: DataBin,
    rows: Iterable[Row],
    source: Source,
    labels: Optional[Labels],
    longest: int,
    width: int,
    queries: Optional[List[str]] = None,
) -> Counts:
    counts = Counts()
    texts = [data.texts(number, source) for number in range(width)]
    classes = data.labels(labels.dictionary, source) if labels is not None else None
    unknown = data.dictionary.unk()
    label_names = set(labels.names) if labels is not None else set()
    for row, ids in _encoded(data, rows, width):
        counts.read += 1
        if source.translated and labels is not None and row.label not in label_names:
            counts.dropped[UNKNOWN_LABEL] += 1
            continue
        if not all(ids):
            if source.training:
                counts.dropped[EMPTY] += 1
                continue
            counts.notes[EMPTY] += 1
        counts.kept += 1
        for out, text, found in zip(texts, row.texts, ids):
            counts.text(len(text.split()), found, unknown)
            out.add(data.row(found))
        counts.length(sum(len(found) + 1 for found in ids), longest)
        if classes is not None and labels is not None:
            classes.add(data.row([labels.index(row.label, counts.unknown_labels)]))
        if queries is not None:
            queries.append(row.query)
    if labels is None:
        counts.notes["rows without labels"] += counts.kept
    refuse_nothing(source, counts)
    for out in [*texts, *([classes] if classes is not None else [])]:
        out.close()
    return counts


def _encoded(data: DataBin, rows: Iterable[Row], width: int) -> Iterator[Tuple[Row, List[List[int]]]]:
    """Rows with the ids of each of their texts."""
    stream = iter(rows)
    while True:
        batch = list(itertools.islice(stream, BATCH_ROWS))
        if not batch:
            return
        columns = [data.encode([row.texts[number] for row in batch]) for number in range(width)]
        for index, row in enumerate(batch):
            yield row, [column[index] for column in columns]


def refuse_nothing(source: Source, counts: Counts) -> None:
    """Check that something is left.

    Raises:
        InputError: no row is.
    """
    if not counts.kept:
        raise InputError(
            f"{OPTION} {source.name}: {source.path}: no row is left of {counts.read:,} (dropped: {counts.dropped_text()}); "
            "valid: one at least"
        )
