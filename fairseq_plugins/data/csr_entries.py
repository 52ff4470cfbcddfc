"""Candidates of a lexicon as pieces, and the words of a text that have an entry."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from sentencepiece import SentencePieceProcessor

from ..ops.ragged import ends_to_starts
from .csr_lexicon import Lexicon
from .csr_words import MARK, SourceWords

NONE = -1
"""Number of the entry of a word that has none."""

MOST_FOREIGN = 0.01
"""Share of a dictionary that may be no pieces of the sentencepiece model: symbols that were added by hand."""

_NO_DUMMY_PREFIX = b"\x1a\x02\x18\x00"
"""Appended to a sentencepiece model: normalizer_spec (field 3) { add_dummy_prefix (field 3) = false }; protobuf merges the two."""


class EntryTable(NamedTuple):
    """Candidates of all entries, their pieces in one row."""

    candidates: np.ndarray  # (E + 1,) int64, where each entry's candidates begin
    starts: np.ndarray  # (K + 1,) int64, where each candidate's pieces begin
    pieces: np.ndarray  # (P,) int64, ids
    longest: np.ndarray  # (E,) int64, pieces of each entry's longest candidate


class PieceEncoder:
    """For ``--switch-unit piece``: the words of the lexicon are pieces of the dictionary."""

    def __init__(self, dictionary: Any):
        self.dictionary = dictionary

    def normal(self, word: str) -> str:
        return word

    def encode(self, words: Sequence[str], marked: bool) -> List[Optional[List[int]]]:
        """Ids; None for what the dictionary lacks."""
        numbers = [self.dictionary.index(word) for word in words]
        return [None if number == self.dictionary.unk() else [number] for number in numbers]


class WordEncoder:
    """Cuts candidates into pieces as the text was cut; refuses a model whose pieces are not those of the dictionary."""

    def __init__(self, model: SentencePieceProcessor, dictionary: Any):
        self.dictionary = dictionary
        pieces = {model.id_to_piece(number) for number in range(model.get_piece_size())}
        own = [symbol for symbol in dictionary.symbols[dictionary.nspecial :] if not _is_added(symbol)]
        foreign = [symbol for symbol in own if symbol not in pieces]
        if len(foreign) > MOST_FOREIGN * len(own):
            raise ValueError(
                f"--sentencepiece-model: {len(foreign)} of the {len(own)} pieces of the dictionary are none of this model's "
                f"({', '.join(foreign[:5])} ...); valid: the model that the text of the data-bin was cut with"
            )
        unmarked = SentencePieceProcessor(model_proto=model.serialized_model_proto() + _NO_DUMMY_PREFIX)
        self._models = {True: model, False: unmarked}

    def normal(self, word: str) -> str:
        """The word in the model's Unicode form, which the text has."""
        return str(self._models[False].normalize(word)).replace(MARK, " ").strip()

    def encode(self, words: Sequence[str], marked: bool) -> List[Optional[List[int]]]:
        """Ids of each word's pieces, the first with the mark of a word's beginning or without; None where one is ``<unk>``."""
        rows = self._models[marked].encode(list(words), out_type=str, num_threads=1)
        numbers = [[self.dictionary.index(piece) for piece in row] for row in rows]
        return [row if row and self.dictionary.unk() not in row else None for row in numbers]


def _is_added(symbol: str) -> bool:
    """Languages, ``<mask>``, and what fills a dictionary up."""
    return symbol.startswith("madeupword") or (symbol[:1] + symbol[-1:]) in ("[]", "<>")


class Entries:
    """Numbers words that have an entry, and collects their candidates; entries of several languages go into one table.

    A word is looked up as it is written, then lower-cased. A candidate equal to the word is a candidate like any other (names and
    numbers, whose translation they are): the lexicon decides. Candidates with ``<unk>`` are left out.

    Attributes:
        lexicon: that is in use, its source words in the encoder's normal form; ``source``: these and their beginnings.
        left_out, kept: candidates with and without ``<unk>`` of the words that were looked up in this lexicon.
        same: those kept that are the word itself.
    """

    def __init__(self, encoder: Any):
        self.encoder = encoder
        self._sizes: List[int] = []
        self._candidates: List[List[int]] = []
        self.use({})

    def use(self, lexicon: Lexicon) -> None:
        self._numbers: Dict[Tuple[str, bool], int] = {}
        self.left_out = self.kept = self.same = 0
        self.lexicon: Lexicon = {}
        for word, candidates in lexicon.items():
            known = self.lexicon.setdefault(self.encoder.normal(word), [])
            known += [candidate for candidate in candidates if candidate not in known]
        beginnings = {word[:end] for word in self.lexicon for end in range(1, len(word))}
        self.source = SourceWords(self.lexicon, beginnings)

    def number(self, text: str, marked: bool) -> int:
        """Number of the entry of a word without marks, ``NONE`` if it has none; ``marked``: the word begins with the mark."""
        key = next((form for form in (text, text.lower()) if form in self.lexicon), None)
        if key is None:
            return NONE
        if (key, marked) not in self._numbers:
            self._numbers[key, marked] = self._add(key, marked)
        return self._numbers[key, marked]

    def _add(self, key: str, marked: bool) -> int:
        words = self.lexicon[key]
        rows = self.encoder.encode(words, marked)
        kept = [row for row in rows if row is not None]
        if (key, not marked) not in self._numbers:  # counted once, with a mark or without
            self.left_out += len(rows) - len(kept)
            self.kept += len(kept)
            self.same += sum(row is not None and self.encoder.normal(word) == key for word, row in zip(words, rows))
        if not kept:
            return NONE
        self._sizes.append(len(kept))
        self._candidates += kept
        return len(self._sizes) - 1

    def table(self) -> EntryTable:
        lengths = np.array([len(row) for row in self._candidates], dtype=np.int64)  # (K,)
        candidates = ends_to_starts(np.array(self._sizes, dtype=np.int64))  # (E + 1,)
        pieces = np.array([piece for row in self._candidates for piece in row], dtype=np.int64)  # (P,)
        longest = np.maximum.reduceat(lengths, candidates[:-1]) if len(lengths) else lengths  # (E,)
        return EntryTable(candidates, ends_to_starts(lengths), pieces, longest)
