"""Sentences of several languages as flat arrays: tokens, and the words that have an entry in a lexicon."""

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..ops.ragged import ends_to_starts, ranges
from .csr_entries import NONE, Entries, EntryTable
from .csr_words import PieceTable, Words, find_words, run_keys, text_of

CHUNK = 1 << 21
"""Tokens whose words are found at once; bounds the memory that this takes beside the result."""


class SwitchText(NamedTuple):
    """Sentences as the model gets them, and their words.

    A token costs 2 bytes (dictionaries of up to 65,536 entries) or 4, a word with an entry 12 (place, pieces, entry), a sentence
    28. All of it is in memory; data-loading workers that are forked share it.
    """

    # (N,) all sentences one behind another, each with ``</s>`` and the id of its language at its end
    tokens: np.ndarray
    starts: np.ndarray  # (R + 1,) int64, where each begins, and N
    words: np.ndarray  # (R,) int32, words of each
    # (R + 1,) int64, where the words with an entry of each begin in the next three, and their number
    covered: np.ndarray
    places: np.ndarray  # (W,) int32, first token of the word, counted in its sentence
    pieces: np.ndarray  # (W,) int32, tokens of the word
    entries: np.ndarray  # (W,) int32, see ``table``
    bounds: np.ndarray  # (R,) int64, tokens that the sentence has at most after words were replaced
    table: EntryTable  # the candidates


class Coverage(NamedTuple):
    """What the words of a text found in a lexicon."""

    sentences: int
    words: int
    covered: int  # words with an entry
    counts: Dict[str, int]  # distinct words that can be looked up -> frequency

    @property
    def share(self) -> float:
        """Words with an entry, of all words; in [0, 1]."""
        return self.covered / max(self.words, 1)


class TextBuilder:
    """Finds the words of texts and their entries, one language after another.

    ``pieces``: what the dictionary's symbols are to words; None = every piece is a unit of its own (``--switch-unit piece``).
    ``special`` ids are never replaced; ``begin`` is put in front of every sentence, None = nothing.
    """

    def __init__(
        self, symbols: Sequence[str], pieces: Optional[PieceTable], special: Sequence[int], begin: Optional[int] = None
    ):
        self.symbols, self.pieces, self.begin = symbols, pieces, begin
        self.special = np.zeros(len(symbols), dtype=bool)
        self.special[list(special)] = True
        self.dtype = np.uint16 if len(symbols) <= 1 << 16 else np.int32
        self._parts: List[Tuple[np.ndarray, ...]] = []
        """Of each chunk: tokens, lengths, words and words with an entry of each sentence; places, pieces, entries of each word."""

    def add(self, texts: Sequence[Any], language: int, entries: Entries) -> Coverage:
        """Add a language's sentences: datasets of rows of ids that end with ``</s>``; ``language`` is the id put at every end."""
        known: Dict[int, Tuple[int, str]] = {}  # run of pieces -> entry, text
        counts: Dict[str, int] = {}
        totals = np.zeros(3, dtype=np.int64)
        for text in texts:
            for tokens, lengths in chunks(text):
                starts = ends_to_starts(lengths)
                words = self._words(tokens, starts, entries)
                numbers = self._numbers(tokens, words, entries, known, counts)  # (W,)
                row = np.searchsorted(starts, words.starts, side="right") - 1  # (W,) sentence of each word
                has = numbers != NONE
                places = (words.starts - starts[row])[has] + (self.begin is not None)
                self._parts.append(
                    (
                        *self._with_ends(tokens, lengths, language),
                        np.bincount(row, minlength=len(lengths)).astype(np.int32),
                        np.bincount(row[has], minlength=len(lengths)),
                        places.astype(np.int32),
                        words.pieces[has].astype(np.int32),
                        numbers[has].astype(np.int32),
                    )
                )
                totals += (len(lengths), len(row), len(places))
        sentences, found, covered = totals.tolist()
        return Coverage(sentences, found, covered, counts)

    def _words(self, tokens: np.ndarray, starts: np.ndarray, entries: Entries) -> Words:
        if self.pieces is not None:
            return find_words(tokens, starts, self.pieces, self.symbols, entries.source)
        places = np.flatnonzero(~self.special[tokens])
        ones = np.ones(len(places), dtype=np.int64)
        return Words(places, ones, ones.astype(bool))

    def _numbers(
        self,
        tokens: np.ndarray,
        words: Words,
        entries: Entries,
        known: Dict[int, Tuple[int, str]],
        counts: Dict[str, int],
    ) -> np.ndarray:
        """(W,) entries of the words; each distinct run of pieces is decoded and looked up once."""
        looked_up = np.flatnonzero(words.whole)
        keys = run_keys(tokens, words)[looked_up]
        distinct, some, inverse, times = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        found = np.empty(len(distinct), dtype=np.int64)
        for place, (key, at, count) in enumerate(zip(distinct.tolist(), some.tolist(), times.tolist())):
            if key not in known:
                start = words.starts[looked_up[at]]
                known[key] = self._look_up(tokens[start : start + words.pieces[looked_up[at]]], entries)
            found[place], text = known[key]
            counts[text] = counts.get(text, 0) + count
        numbers = np.full(len(words.starts), NONE, dtype=np.int64)
        numbers[looked_up] = found[inverse]
        return numbers

    def _look_up(self, run: np.ndarray, entries: Entries) -> Tuple[int, str]:
        if self.pieces is None:
            text = self.symbols[int(run[0])]
            return entries.number(text, True), text
        text = text_of(run, self.symbols)
        return entries.number(text, bool(self.pieces.marked[run[0]])), text

    def _with_ends(self, tokens: np.ndarray, lengths: np.ndarray, language: int) -> Tuple[np.ndarray, np.ndarray]:
        """Sentences with their language (and beginning), and their lengths."""
        ahead = 0 if self.begin is None else 1
        longer = lengths + 1 + ahead
        starts = ends_to_starts(longer)
        out = np.empty(int(starts[-1]), dtype=self.dtype)
        out[ranges(starts[:-1] + ahead, lengths)] = tokens
        out[starts[1:] - 1] = language
        if self.begin is not None:
            out[starts[:-1]] = self.begin
        return out, longer

    def build(self, table: EntryTable, ratio: float) -> SwitchText:
        """All texts that were added, with the table of their entries; ``ratio`` of the words is replaced, in (0, 1]."""
        tokens, lengths, words, covered, places, pieces, entries = (np.concatenate(p) for p in zip(*self._parts))
        self._parts = []
        growth = np.maximum(table.longest[entries] - pieces, 0) if len(entries) else np.zeros(0, dtype=np.int64)  # (W,)
        most = np.minimum(np.ceil(np.round(ratio * words, 9)).astype(np.int64), covered)  # (R,)
        bounds = lengths + largest_sums(growth, covered, most)
        return SwitchText(
            tokens, ends_to_starts(lengths), words, ends_to_starts(covered), places, pieces, entries, bounds, table
        )


def largest_sums(values: np.ndarray, lengths: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Sum of the ``counts`` largest of the ``values`` of each row; (W,), (R,), (R,) -> (R,) int64. Rows lie one behind another."""
    row = np.repeat(np.arange(len(lengths)), lengths)  # (W,)
    order = np.lexsort((-values, row))
    rank = np.arange(len(values)) - np.repeat(ends_to_starts(lengths)[:-1], lengths)  # (W,) place in its row
    taken = rank < counts[row]
    return np.bincount(row[taken], weights=values[order][taken], minlength=len(lengths)).astype(np.int64)


def chunks(text: Any) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
    """Tokens and lengths of consecutive sentences of a dataset; a memory-mapped one is read without a look at every row."""
    sizes = np.asarray(text.sizes).astype(np.int64)
    flat = _mapped(text, sizes)
    starts = ends_to_starts(sizes)
    row = 0
    while row < len(sizes):
        end = max(int(np.searchsorted(starts, starts[row] + CHUNK, side="right")) - 1, row + 1)
        if flat is not None:
            tokens = np.asarray(flat[starts[row] : starts[end]])
        else:
            tokens = np.concatenate([np.asarray(text[number]) for number in range(row, end)])
        yield tokens.astype(np.int64), sizes[row:end]
        row = end


def _mapped(text: Any, sizes: np.ndarray) -> Optional[np.ndarray]:
    """The file of a memory-mapped dataset, where its rows lie one behind another; None for any other dataset."""
    index, buffer = getattr(text, "_index", None), getattr(text, "_bin_buffer", None)
    pointers = getattr(index, "_pointers", None)
    if index is None or buffer is None or pointers is None or len(sizes) == 0:
        return None
    dtype = np.dtype(index.dtype)
    if not np.array_equal(pointers, ends_to_starts(sizes)[:-1] * dtype.itemsize):
        return None
    return np.frombuffer(buffer, dtype=dtype, count=int(sizes.sum()))
