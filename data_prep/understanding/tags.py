"""Sentences whose words have tags, from CoNLL (word and tag per line) or CoNLL-U files.

A word's first piece carries its tag, its other pieces ``<pad>``.
"""

from __future__ import annotations  # data_bin imports fairseq, and is needed for types alone

import itertools
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..io import InputError, PathLike
from ..pieces.segmenters import batches
from ..progress import with_progress
from .counts import Counts
from .sentences import check_some_row
from .sources import TEST, TRAIN, Label, Source, read_table_lines
from .tables import LAST

if TYPE_CHECKING:
    from .data_bin import DataBin, Labels

CONLL, CONLLU = "conll", "conllu"
FORMATS = (CONLL, CONLLU)
CONLLU_COLUMNS = 10
ID, FORM, UPOS, XPOS = 0, 1, 3, 4
CONLLU_TAGS = {"upos": UPOS, "xpos": XPOS}
NO_VALUE = "_"
DOCUMENT_MARK = "-DOCSTART-"
RANGE, EMPTY_NODE = re.compile(r"\d+-\d+"), re.compile(r"\d+\.\d+")
NO_PIECE = "words without a piece"
NO_TAGS = "rows without tags"
NumberedLines = Iterator[Tuple[int, str]]


# ---- Read. ----


class Word(NamedTuple):
    """A word with its tag.

    Attributes:
        number: its line.
        text: the word, as it stands in the file.
        tag: after renaming; empty in a file of test without tags.
    """

    number: int
    text: str
    tag: str


@dataclass(frozen=True)
class Conll:
    """Reader of tagged sentences.

    Args:
        form: ``conll`` or ``conllu``; None: by the file's name (.conllu).
        token: column of the words of CoNLL, from 1; None: 1.
        tag: column of the tags: a number or ``last`` for CoNLL, ``upos`` or ``xpos`` for CoNLL-U;
            None: last, and upos.
        label_map: tag in the file -> tag.
    """

    form: Optional[str] = None
    token: Optional[int] = None
    tag: Optional[str] = None
    label_map: Dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.token is not None and self.token < 1:
            raise InputError(f"--token-column {self.token}: valid: a number from 1")
        is_number = self.tag is not None and self.tag.isdigit() and int(self.tag) > 0
        if self.tag not in (None, LAST, *CONLLU_TAGS) and not is_number:
            valid = f"a number from 1, {LAST}, {', '.join(CONLLU_TAGS)}"
            raise InputError(f"--tag-column {self.tag}: valid: {valid}")

    def sentences(self, source: Source, skipped: Counter) -> Iterator[List[Word]]:
        """Yield the sentences of a file, as many as its limit says.

        A file of test may have words alone, one per line.

        Args:
            source: the file.
            skipped: counts ranges of multiword tokens, empty nodes and marks of documents.

        Raises:
            InputError: bad text, another number of columns, a word without a tag; names file and
                line.
        """
        form = self._form_of(source)
        lines = enumerate(with_progress(read_table_lines(source), f"nlu {source.name}"), start=1)
        if form == CONLLU:
            sentences = self._read_conllu(source, lines, skipped)
        elif source.split == TEST and not has_tags(source.path):
            sentences = _read_words(lines, skipped)
        else:
            sentences = self._read_conll(source, lines, skipped)
        yield from itertools.islice(sentences, source.limit or None)

    def _form_of(self, source: Source) -> str:
        form = self.form or (CONLLU if source.path.suffix == ".conllu" else CONLL)
        if self.tag is not None and (self.tag in CONLLU_TAGS) != (form == CONLLU):
            valid = ", ".join(CONLLU_TAGS) if form == CONLLU else f"a number from 1, {LAST}"
            options = f"--tag-column {self.tag} with --format {form}"
            raise InputError(f"{source.place(1)}: {options}; valid: {valid}")
        if self.token is not None and form == CONLLU:
            option = f"--token-column {self.token}"
            raise InputError(f"{source.place(1)}: {option}: valid: only with --format {CONLL}")
        return form

    def _read_conll(
        self, source: Source, lines: NumberedLines, skipped: Counter
    ) -> Iterator[List[Word]]:
        has_tabs, width = None, 0
        block: List[Word] = []
        for number, line in lines:
            if not line.strip(" \t"):
                yield from _finish_sentence(block, skipped)
                block = []
                continue
            has_tabs = "\t" in line if has_tabs is None else has_tabs
            cells = line.split("\t") if has_tabs else [cell for cell in line.split(" ") if cell]
            width = width or len(cells)
            word = self._conll_word(cells, width, number, source)
            if word.text == DOCUMENT_MARK:  # ends a sentence, also without a blank line
                yield from _finish_sentence(block, skipped)
                block = []
            block.append(word)
        yield from _finish_sentence(block, skipped)

    def _conll_word(self, cells: List[str], width: int, number: int, source: Source) -> Word:
        place = source.place(number)
        token = self.token or 1
        tag = width if self.tag in (None, LAST) else int(self.tag or 0)
        minimum = max(2, token, tag)
        if len(cells) != width or width < minimum:
            valid = f"{width}, as in the first line" if width >= minimum else f"{minimum} or more"
            columns = f"{len(cells)} columns ({' '.join(cells)[:60]!r})"
            raise InputError(f"{place}: {columns}; valid: {valid}: a word and its tag")
        if tag == token:
            problem = f"--token-column and --tag-column are both {tag}"
            raise InputError(f"{place}: {problem}; valid: different columns")
        text, name = cells[token - 1], cells[tag - 1].strip()
        if not name:
            raise InputError(f"{place}: no tag for {text!r}; valid: every word has a tag")
        return Word(number, text, self.label_map.get(name, name))

    def _read_conllu(
        self, source: Source, lines: NumberedLines, skipped: Counter
    ) -> Iterator[List[Word]]:
        block: List[Word] = []
        for number, line in lines:
            if not line.strip():
                yield from _finish_sentence(block, skipped)
                block = []
            elif not line.startswith("#"):
                place = source.place(number)
                cells = line.split("\t")
                if len(cells) != CONLLU_COLUMNS:
                    valid = f"{CONLLU_COLUMNS} of CoNLL-U, with tabs between"
                    raise InputError(f"{place}: {len(cells)} columns; valid: {valid}")
                if RANGE.fullmatch(cells[ID]):
                    skipped["ranges of multiword tokens"] += 1
                elif EMPTY_NODE.fullmatch(cells[ID]):
                    skipped["empty nodes"] += 1
                elif cells[ID] != str(len(block) + 1):
                    valid = f"{len(block) + 1}, words of a sentence are numbered from 1"
                    raise InputError(f"{place}: word {cells[ID]!r}; valid: {valid}")
                else:
                    block.append(self._conllu_word(cells, number, place))
        yield from _finish_sentence(block, skipped)

    def _conllu_word(self, cells: List[str], number: int, place: str) -> Word:
        column = self.tag or "upos"
        text, name = cells[FORM], cells[CONLLU_TAGS[column]]
        if not text or name in ("", NO_VALUE):
            valid = "every word has one, or another --tag-column"
            raise InputError(f"{place}: no {column} tag for {text!r}; valid: {valid}")
        return Word(number, text, self.label_map.get(name, name))


def has_tags(path: PathLike) -> bool:
    """Return True if the first line with text has a second column."""
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        first = next((line for line in file if line.strip()), "")
    return len(first.split("\t" if "\t" in first else None)) > 1


def _read_words(lines: NumberedLines, skipped: Counter) -> Iterator[List[Word]]:
    """Yield the sentences of a file with a word per line and without tags."""
    block: List[Word] = []
    for number, line in lines:
        if line.strip(" \t"):
            block.append(Word(number, line, ""))
        else:
            yield from _finish_sentence(block, skipped)
            block = []
    yield from _finish_sentence(block, skipped)


def _finish_sentence(block: List[Word], skipped: Counter) -> Iterator[List[Word]]:
    """Yield the words of a block, if there are any."""
    # A mark stands alone, or straight before the first word, as in CoNLL-2002's Dutch files.
    if block and block[0].text == DOCUMENT_MARK:
        skipped["marks of documents"] += 1
        block = block[1:]
    if block:
        yield block


# ---- Write. ----


def training_labels(reader: Conll, sources: Sequence[Source]) -> Iterator[Label]:
    """Yield the tag of every word of train, with the place of its sentence."""
    for source in sources:
        if source.split == TRAIN:
            for sentence in reader.sentences(source, Counter()):
                for word in sentence:
                    yield Label(word.tag, source.place(sentence[0].number))


def write_tags(
    reader: Conll, data: DataBin, source: Source, labels: Optional[Labels], max_positions: int
) -> Counts:
    """Write the pieces and tags of a source.

    Every word is encoded on its own; the tag of words without one is ``<unk>``. A word without a
    piece becomes ``<unk>``, so that words and tags stay together.

    Args:
        reader: how sentences are read.
        data: the data-bin.
        source: one split and language.
        labels: those of train.
        max_positions: tokens above which a sentence is counted as too long.

    Raises:
        InputError: as in :meth:`Conll.sentences`, or no sentence is left.
    """
    assert labels is not None
    counts = Counts()
    pieces, tags = data.texts(0, source), data.labels(labels.dictionary, source)
    unknown, padding = data.dictionary.unk(), labels.dictionary.pad()
    no_tag = labels.dictionary.unk()
    for sentence, word_ids in _encode(data, reader.sentences(source, counts.notes)):
        ids, row = [], []
        for word, piece_ids in zip(sentence, word_ids):
            counts.notes[NO_PIECE] += not piece_ids
            piece_ids = piece_ids or [unknown]
            ids += piece_ids
            row.append(labels.index(word.tag, counts.unknown_labels) if word.tag else no_tag)
            row += [padding] * (len(piece_ids) - 1)
        counts.read += 1
        counts.kept += 1
        counts.notes[NO_TAGS] += not sentence[0].tag
        counts.add_text(len(sentence), ids, unknown)
        counts.add_length(len(ids) + 1, max_positions)
        pieces.add(data.row(ids))
        tags.add(data.row(row))
    counts.notes = +counts.notes  # without zeros
    check_some_row(source, counts)
    pieces.close()
    tags.close()
    return counts


class _EncodedSentence(NamedTuple):
    words: List[Word]
    ids: List[List[int]]  # of each word


def _encode(data: DataBin, sentences: Iterator[List[Word]]) -> Iterator[_EncodedSentence]:
    """Yield sentences with their ids; a word that recurs in a batch is encoded once."""
    for batch in batches(sentences):
        texts = list(dict.fromkeys(word.text for sentence in batch for word in sentence))
        ids = dict(zip(texts, data.encode(texts)))
        for sentence in batch:
            yield _EncodedSentence(sentence, [ids[word.text] for word in sentence])
