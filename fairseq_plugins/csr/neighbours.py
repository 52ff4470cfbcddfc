"""Look up the words of a text in a lexicon, and cut the neighbours of each entry into pieces.

A word is looked up as it is written, then lower-cased. A word without an entry stays as it is and
does not count. Letters: N tokens, R sentences, W words, E entries, K neighbours.
"""

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from fairseq.data.indexed_dataset import MMapIndexedDataset
from sentencepiece import SentencePieceProcessor

from .lexicon import Lexicon
from .noise import extend_keys
from .words import (
    MARK,
    PieceTable,
    SourceWords,
    Words,
    find_words,
    ranges,
    row_starts,
    spell,
)

NO_ENTRY = -1
"""Number of the entry of a word that has none."""

MOST_FOREIGN = 0.01
"""Largest share of a dictionary that may be unknown to the sentencepiece model: added symbols."""

CHUNK = 1 << 21
"""Tokens processed at a time; bounds the memory needed beside the result."""

_NO_DUMMY_PREFIX = b"\x1a\x02\x18\x00"
"""Appended to a sentencepiece model, it sets ``normalizer_spec.add_dummy_prefix`` to false.

The bytes are field 3 { field 3 = false } of its protobuf, and protobuf merges the two.
"""


# ---- Neighbours. ----


class WordEncoder:
    """Encodes neighbours with the sentencepiece model that the text was encoded with.

    Raises:
        ValueError: the pieces of the dictionary are not those of the model.
    """

    def __init__(self, model: SentencePieceProcessor, dictionary: Any):
        self.dictionary = dictionary
        vocabulary = {model.id_to_piece(number) for number in range(model.get_piece_size())}
        pieces = [
            symbol for symbol in dictionary.symbols[dictionary.nspecial :] if not _is_added(symbol)
        ]
        foreign = [piece for piece in pieces if piece not in vocabulary]
        if len(foreign) > MOST_FOREIGN * len(pieces):
            raise ValueError(
                f"--sentencepiece-model: {len(foreign)} of the {len(pieces)} pieces of the "
                f"dictionary are none of this model's ({', '.join(foreign[:5])} ...); valid: the "
                "model that the text of the data-bin was cut with"
            )
        self._marking = model
        self._unmarking = SentencePieceProcessor(
            model_proto=model.serialized_model_proto() + _NO_DUMMY_PREFIX
        )

    def normalize(self, word: str) -> str:
        """Normalize a word's Unicode as the model normalized the text's."""
        return str(self._unmarking.normalize(word)).replace(MARK, " ").strip()

    def encode(self, words: Sequence[str], marked: bool) -> List[Optional[List[int]]]:
        """Return the ids of each word's pieces; None for a word that needs ``<unk>``.

        Args:
            marked: True = the first piece has the mark of a word's beginning.
        """
        model = self._marking if marked else self._unmarking
        ids = []
        for pieces in model.encode(list(words), out_type=str, num_threads=1):
            row = [self.dictionary.index(piece) for piece in pieces]
            ids.append(row if row and self.dictionary.unk() not in row else None)
        return ids


def _is_added(symbol: str) -> bool:
    """Return True for symbols that no model has: languages, ``<mask>``, padding of a dictionary."""
    return symbol.startswith("madeupword") or (symbol[:1] + symbol[-1:]) in ("[]", "<>")


class NeighbourTable(NamedTuple):
    """The neighbours of all entries, with their pieces in one flat array."""

    neighbours: np.ndarray  # (E + 1,) int64, where the neighbours of each entry begin
    starts: np.ndarray  # (K + 1,) int64, where the pieces of each neighbour begin
    pieces: np.ndarray  # (P,) int64, ids
    longest: np.ndarray  # (E,) int64, pieces of the longest neighbour of each entry


class Entries:
    """Looks words up in a lexicon: numbers those that have an entry, and collects their neighbours.

    The entries of several languages go into one table. A neighbour equal to the word is a neighbour
    like any other (names and numbers translate to themselves): the lexicon decides. Neighbours that
    need ``<unk>`` are left out.

    Args:
        encoder: a :class:`WordEncoder`, for the neighbours.
        pieces: the pieces of the dictionary.

    Attributes:
        lexicon: the lexicon in use, with source words normalized by the encoder.
        source: its source words and their prefixes.
        counts: words that can be looked up -> frequency in the text so far.
        usable, unusable: neighbours without and with ``<unk>``, of the words in the text so far.
        identical: usable neighbours that are the word itself.
    """

    def __init__(self, encoder: Any, pieces: PieceTable):
        self.encoder, self.pieces = encoder, pieces
        self._sizes: List[int] = []  # neighbours of each entry
        self._neighbours: List[List[int]] = []
        self.use({})

    def use(self, lexicon: Lexicon) -> None:
        """Use the lexicon of another language from now on, and count from zero.

        The entries so far stay in the table.
        """
        self.lexicon: Lexicon = {}
        for word, neighbours in lexicon.items():
            merged = self.lexicon.setdefault(self.encoder.normalize(word), [])
            merged += [neighbour for neighbour in neighbours if neighbour not in merged]
        prefixes = {word[:end] for word in self.lexicon for end in range(1, len(word))}
        self.source = SourceWords(self.lexicon, prefixes)
        self.counts: Dict[str, int] = {}
        self.usable = self.unusable = self.identical = 0
        self._runs: Dict[int, Tuple[str, int]] = {}  # key of a run of pieces -> text, entry
        self._numbers: Dict[Tuple[str, bool], int] = {}  # word, with the mark or not -> entry

    def find(self, tokens: np.ndarray, words: Words) -> np.ndarray:
        """Return the number of each word's entry; ``NO_ENTRY`` if it has none. (W,) int64.

        Each distinct run of pieces is looked up once.

        Args:
            tokens: (N,) int.
            words: the words of these tokens.
        """
        wholes = np.flatnonzero(words.is_whole)
        keys = run_keys(tokens, words)[wholes]
        # Distinct runs: their keys, an example of each, and the run of each whole word.
        keys, example, inverse = np.unique(keys, return_index=True, return_inverse=True)
        counts = np.bincount(inverse)
        entry = np.empty(len(keys), dtype=np.int64)
        for place, (key, word) in enumerate(zip(keys.tolist(), wholes[example].tolist())):
            if key not in self._runs:
                run = tokens[words.starts[word] : words.starts[word] + words.pieces[word]]
                text = spell(self.pieces, run)
                self._runs[key] = text, self.number(text, bool(self.pieces.marked[run[0]]))
            text, entry[place] = self._runs[key]
            self.counts[text] = self.counts.get(text, 0) + int(counts[place])
        numbers = np.full(len(words.starts), NO_ENTRY, dtype=np.int64)
        numbers[wholes] = entry[inverse]
        return numbers

    def number(self, text: str, marked: bool) -> int:
        """Return the number of a word's entry, ``NO_ENTRY`` if it has none.

        Args:
            marked: True = the word begins with the mark, and so shall its neighbours.
        """
        word = text if text in self.lexicon else text.lower()
        if word not in self.lexicon:
            return NO_ENTRY
        if (word, marked) not in self._numbers:
            self._numbers[word, marked] = self._add(word, marked)
        return self._numbers[word, marked]

    def _add(self, word: str, marked: bool) -> int:
        """Make an entry of a word in the lexicon, and count its neighbours.

        Returns the number of the entry, ``NO_ENTRY`` if all neighbours need ``<unk>``.
        """
        rows = self.encoder.encode(self.lexicon[word], marked)
        usable = [row for row in rows if row is not None]
        if (word, not marked) not in self._numbers:  # else they are counted already
            self.usable += len(usable)
            self.unusable += len(rows) - len(usable)
            for neighbour, row in zip(self.lexicon[word], rows):
                self.identical += row is not None and self.encoder.normalize(neighbour) == word
        if not usable:
            return NO_ENTRY
        self._sizes.append(len(usable))
        self._neighbours += usable
        return len(self._sizes) - 1

    def table(self) -> NeighbourTable:
        """Return the neighbours of all entries."""
        lengths = np.array([len(row) for row in self._neighbours], dtype=np.int64)  # K
        neighbours = row_starts(np.array(self._sizes, dtype=np.int64))  # E + 1
        pieces = [piece for row in self._neighbours for piece in row]
        longest = np.maximum.reduceat(lengths, neighbours[:-1]) if len(lengths) else lengths
        return NeighbourTable(
            neighbours, row_starts(lengths), np.array(pieces, dtype=np.int64), longest
        )


def run_keys(tokens: np.ndarray, words: Words) -> np.ndarray:
    """Hash the pieces of whole words: equal runs have equal keys, the others 0. (W,) uint64."""
    keys = np.zeros(len(words.starts), dtype=np.uint64)
    longer = np.flatnonzero(words.is_whole)  # words that have a piece number ``place``
    place = 0
    while len(longer):
        keys[longer] = extend_keys(keys[longer], tokens[words.starts[longer] + place])
        place += 1
        longer = longer[words.pieces[longer] > place]
    return keys


# ---- Texts. ----


class SwitchText(NamedTuple):
    """Sentences as the model gets them, and those W of their words that have an entry.

    A token costs 2 bytes (dictionaries of up to 65,536 entries) or 4, a word with an entry 12, a
    sentence 12. All of it is in memory; forked data-loading workers share it.
    """

    tokens: np.ndarray  # (N,) each sentence ends with ``</s>`` and the id of its language
    lengths: np.ndarray  # (R,) int32, tokens of each sentence
    words: np.ndarray  # (R,) int32, words of each sentence
    covered: np.ndarray  # (R,) int32, those of them that have an entry: the next three arrays
    places: np.ndarray  # (W,) int32, first token of the word, counted in its sentence
    pieces: np.ndarray  # (W,) int32, tokens of the word
    entries: np.ndarray  # (W,) int32, number of the word's entry, see :class:`Entries`

    @classmethod
    def join(cls, texts: Sequence["SwitchText"]) -> "SwitchText":
        """Concatenate texts."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*texts)))


def read_text(
    datasets: Sequence[Any], language: int, entries: Entries, bos: Optional[int] = None
) -> SwitchText:
    """Find the words of a language's sentences, and their entries.

    Args:
        datasets: sentences, each of ids that end with ``</s>``.
        language: id that is put at the end of every sentence.
        entries: with the lexicon of this language in use.
        bos: id that is put in front of every sentence; None = nothing.
    """
    parts = []
    for tokens, lengths in _chunks(datasets):
        starts = row_starts(lengths)
        words = find_words(tokens, starts, entries.pieces, entries.source)
        numbers = entries.find(tokens, words)  # W
        sentence = np.searchsorted(starts, words.starts, side="right") - 1  # W
        covered = numbers != NO_ENTRY
        places = words.starts - starts[sentence] + (bos is not None)
        tokens, lengths = _add_ends(tokens, lengths, language, bos)
        part = SwitchText(
            tokens.astype(np.uint16 if len(entries.pieces.symbols) <= 1 << 16 else np.int32),
            lengths,
            words=np.bincount(sentence, minlength=len(lengths)),
            covered=np.bincount(sentence[covered], minlength=len(lengths)),
            places=places[covered],
            pieces=words.pieces[covered],
            entries=numbers[covered],
        )
        parts.append(SwitchText(part.tokens, *(array.astype(np.int32) for array in part[1:])))
    return SwitchText.join(parts)


def _add_ends(
    tokens: np.ndarray, lengths: np.ndarray, language: int, bos: Optional[int]
) -> Tuple[np.ndarray, np.ndarray]:
    """Put ``bos``, if any, before each sentence and ``language`` after it.

    Returns the tokens and lengths of the longer sentences.
    """
    shift = 0 if bos is None else 1
    starts = row_starts(lengths + 1 + shift)
    longer = np.empty(int(starts[-1]), dtype=tokens.dtype)
    longer[ranges(starts[:-1] + shift, lengths)] = tokens
    longer[starts[1:] - 1] = language
    if bos is not None:
        longer[starts[:-1]] = bos
    return longer, lengths + 1 + shift


def _chunks(datasets: Sequence[Any]) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
    """Yield tokens (N,) and lengths (R,) of consecutive sentences.

    A chunk has at most :data:`CHUNK` tokens, unless a single sentence has more.
    """
    for dataset in datasets:
        sizes = np.asarray(dataset.sizes).astype(np.int64)
        if len(sizes) == 0:
            yield sizes, sizes
            continue
        starts, row = row_starts(sizes), 0
        mapped = _mapped_tokens(dataset, starts)
        while row < len(sizes):
            end = max(int(np.searchsorted(starts, starts[row] + CHUNK, side="right")) - 1, row + 1)
            if mapped is not None:
                tokens = np.asarray(mapped[starts[row] : starts[end]])
            else:
                tokens = np.concatenate([np.asarray(dataset[number]) for number in range(row, end)])
            yield tokens.astype(np.int64), sizes[row:end]
            row = end


def _mapped_tokens(dataset: Any, starts: np.ndarray) -> Optional[np.ndarray]:
    """Return all tokens of a memory-mapped dataset as one array, faster than sentence by sentence.

    Returns None unless the sentences lie one after another in the file.
    """
    if not isinstance(dataset, MMapIndexedDataset):
        return None
    dtype = np.dtype(dataset._index.dtype)
    if not np.array_equal(dataset._index._pointers, starts[:-1] * dtype.itemsize):
        return None
    return np.frombuffer(dataset._bin_buffer, dtype=dtype, count=int(starts[-1]))
