"""Tagged sentences: CoNLL (a word and its tag a line, a blank line after a sentence) and CoNLL-U."""

import itertools
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from ..io import InputError
from ..progress import with_progress
from .sources import Source, file_of, table_lines
from .tables import LAST

CONLL, CONLLU = "conll", "conllu"
FORMATS = (CONLL, CONLLU)
CONLLU_COLUMNS = 10
ID, FORM, UPOS, XPOS = 0, 1, 3, 4
CONLLU_TAGS = {"upos": UPOS, "xpos": XPOS}
NO_VALUE = "_"
DOCUMENT_MARK = "-DOCSTART-"
RANGE, EMPTY_NODE = re.compile(r"\d+-\d+"), re.compile(r"\d+\.\d+")


class Sentence(NamedTuple):
    """Words with their tags.

    Attributes:
        number: line of the first word.
        words: as they stand in the file.
        tags: mapped, one per word.
    """

    number: int
    words: Tuple[str, ...]
    tags: Tuple[str, ...]


@dataclass(frozen=True)
class Conll:
    """How tagged sentences are read.

    Args:
        form: ``conll`` or ``conllu``; None: by the file's name (``.conllu``).
        token: column of the words of CoNLL, from 1; None: 1.
        tag: column of the tags: a number or ``last`` for CoNLL, ``upos`` or ``xpos`` for CoNLL-U; None: last, and upos.
        label_map: tag in the file -> tag.
    """

    form: Optional[str] = None
    token: Optional[int] = None
    tag: Optional[str] = None
    label_map: Dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.token is not None and self.token < 1:
            raise InputError(f"--token-column {self.token}: valid: a number from 1")
        number = self.tag is not None and self.tag.isdigit() and int(self.tag) > 0
        if self.tag not in (None, LAST, *CONLLU_TAGS) and not number:
            raise InputError(f"--tag-column {self.tag}: valid: a number from 1, {LAST}, {', '.join(CONLLU_TAGS)}")

    def form_of(self, source: Source) -> str:
        """``conll`` or ``conllu``.

        Raises:
            InputError: an option for the columns belongs to the other one.
        """
        form = self.form or (CONLLU if source.path.suffix == ".conllu" else CONLL)
        if self.tag is not None and (self.tag in CONLLU_TAGS) != (form == CONLLU):
            valid = ", ".join(CONLLU_TAGS) if form == CONLLU else f"a number from 1, {LAST}"
            raise InputError(f"{file_of(source, 1)}: --tag-column {self.tag} with --format {form}; valid: {valid}")
        if self.token is not None and form == CONLLU:
            raise InputError(f"{file_of(source, 1)}: --token-column {self.token}: valid: only with --format {CONLL}")
        return form

    def sentences(self, source: Source, skipped: Counter) -> Iterator[Sentence]:
        """Yield the sentences of a file, as many as its limit says.

        Args:
            source: the file.
            skipped: counts what was passed over: ranges of multiword tokens, empty nodes, marks of documents.

        Raises:
            InputError: bad text, another number of columns, a word without a tag; names file and line.
        """
        lines = with_progress(table_lines(source), f"nlu {source.name}")
        read = self._conllu if self.form_of(source) == CONLLU else self._conll
        yield from itertools.islice(read(source, enumerate(lines, start=1), skipped), source.limit or None)

    def _conll(self, source: Source, lines: Iterator[Tuple[int, str]], skipped: Counter) -> Iterator[Sentence]:
        tabs, width = None, 0
        block: List[Tuple[int, str, str]] = []
        for number, line in lines:
            if not line.strip(" \t"):
                yield from self._sentence(block, skipped)
                block = []
                continue
            tabs = "\t" in line if tabs is None else tabs
            cells = line.split("\t") if tabs else [cell for cell in line.split(" ") if cell]
            width = width or len(cells)
            word, tag = self._word(cells, width, file_of(source, number))
            if word == DOCUMENT_MARK:  # ends a sentence, also without a blank line
                yield from self._sentence(block, skipped)
                block = []
            block.append((number, word, tag))
        yield from self._sentence(block, skipped)

    def _word(self, cells: List[str], width: int, where: str) -> Tuple[str, str]:
        token = self.token or 1
        tag = width if self.tag in (None, LAST) else int(self.tag or 0)
        least = max(2, token, tag)
        if len(cells) != width or width < least:
            valid = f"{width}, as in the first line" if width >= least else f"{least} or more"
            raise InputError(
                f"{where}: {len(cells)} columns ({' '.join(cells)[:60]!r}); valid: {valid}: a word and its tag"
            )
        if tag == token:
            raise InputError(f"{where}: --token-column and --tag-column are both {tag}; valid: different columns")
        word, label = cells[token - 1], cells[tag - 1].strip()
        if not label:
            raise InputError(f"{where}: no tag for {word!r}; valid: every word has a tag")
        return word, self.label_map.get(label, label)

    @staticmethod
    def _sentence(block: List[Tuple[int, str, str]], skipped: Counter) -> Iterator[Sentence]:
        if (
            block and block[0][1] == DOCUMENT_MARK
        ):  # alone, or straight before the first word, as in CoNLL-2002's Dutch files
            skipped["marks of documents"] += 1
            block = block[1:]
        if block:
            yield Sentence(block[0][0], tuple(word for _, word, _ in block), tuple(tag for _, _, tag in block))

    def _conllu(self, source: Source, lines: Iterator[Tuple[int, str]], skipped: Counter) -> Iterator[Sentence]:
        column = CONLLU_TAGS[self.tag or "upos"]
        block: List[Tuple[int, str, str]] = []
        for number, line in lines:
            if not line.strip():
                yield from self._sentence(block, skipped)
                block = []
            elif not line.startswith("#"):
                where = file_of(source, number)
                cells = line.split("\t")
                if len(cells) != CONLLU_COLUMNS:
                    raise InputError(
                        f"{where}: {len(cells)} columns; valid: {CONLLU_COLUMNS} of CoNLL-U, with tabs between"
                    )
                if RANGE.fullmatch(cells[ID]):
                    skipped["ranges of multiword tokens"] += 1
                elif EMPTY_NODE.fullmatch(cells[ID]):
                    skipped["empty nodes"] += 1
                else:
                    block.append((number, *self._node(cells, column, len(block) + 1, where)))
        yield from self._sentence(block, skipped)

    def _node(self, cells: List[str], column: int, expected: int, where: str) -> Tuple[str, str]:
        if cells[ID] != str(expected):
            raise InputError(f"{where}: word {cells[ID]!r}; valid: {expected}, words of a sentence are numbered from 1")
        word, tag = cells[FORM], cells[column]
        if not word or tag in ("", NO_VALUE):
            name = next(name for name, index in CONLLU_TAGS.items() if index == column)
            raise InputError(f"{where}: no {name} tag for {word!r}; valid: every word has one, or another --tag-column")
        return word, self.label_map.get(tag, tag)
