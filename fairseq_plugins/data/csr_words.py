"""Words of a text that is given as sentencepiece pieces, for all its sentences at once."""

from typing import Container, NamedTuple, Sequence, Tuple

import numpy as np

from ..ops.counter_noise import mix
from .csr_lexicon import is_spaceless, is_word

MARK = "▁"
"""Sentencepiece's blank: the mark of a word's beginning."""

LONGEST = 64
"""Pieces of the longest run that is looked up."""

_STEP = np.uint64(0x9E3779B97F4A7C15)


class PieceTable(NamedTuple):
    """What the pieces of a dictionary are to words; all (V,) bool."""

    marked: np.ndarray  # begins with the mark
    opens: np.ndarray  # goes on with a word that the piece before leaves open: its first character is one of words
    closes: np.ndarray  # leaves a word open: its last character is one of words, or it is the mark alone
    # holds nothing but characters of words and the mark, so that it may be a part of what is looked up
    pure: np.ndarray
    letters: np.ndarray  # has a character of words
    spaceless: np.ndarray  # has one of a script without spaces between words


def piece_table(symbols: Sequence[str], unknown: int, special: Sequence[int]) -> PieceTable:
    """Look at every piece of a dictionary.

    ``unknown`` (``<unk>``) may be any text: it belongs to the word around it, which is then not looked up. ``special`` ids such as
    ``</s>`` are no text.
    """
    rows = [_kinds(symbol) for symbol in symbols]  # V rows of one bool per field
    rows[unknown] = (False, True, True, False, True, False)
    for number in special:
        rows[number] = (False,) * len(PieceTable._fields)
    return PieceTable(*(np.array(column, dtype=bool) for column in zip(*rows)))


def _kinds(symbol: str) -> Tuple[bool, ...]:
    text = symbol[1:] if symbol.startswith(MARK) else symbol
    marked = text != symbol
    first, last, any_letter = is_word(text[:1]), is_word(text[-1:]), any(is_word(c) for c in text)
    pure = is_word(text) or (marked and not text)
    return marked, first, last or not text, pure, any_letter, is_spaceless(text)


class Words(NamedTuple):
    """Words of some sentences, in their order."""

    starts: np.ndarray  # (W,) int64, first piece, counted through all sentences
    pieces: np.ndarray  # (W,) int64, at least 1
    whole: np.ndarray  # (W,) bool, True = has no other characters than words have, so that it can be looked up


class SourceWords(NamedTuple):
    """What words are looked up in: the source words of a lexicon, and the beginnings of longer ones."""

    words: Container[str]
    beginnings: Container[str]


def find_words(
    tokens: np.ndarray, rows: np.ndarray, table: PieceTable, symbols: Sequence[str], source: SourceWords
) -> Words:
    """Cut sentences into words.

    A word is a run of pieces that goes on as long as a piece has no mark and the characters to both sides of the cut are letters,
    marks, digits or joiners. Punctuation belongs to no word; a run with a piece that has letters and punctuation is one word that
    is never looked up. Pieces of scripts without spaces are words of their own, or as many of them one word as the longest entry of
    the lexicon has that begins there (from left to right).

    ``tokens``: (N,) int, all sentences one behind another; ``rows``: (R + 1,) int64, where each begins, and N. ``source`` is used
    for spaceless scripts alone.
    """
    if len(tokens) == 0:
        empty = np.zeros(0, dtype=np.int64)
        return Words(empty, empty, empty.astype(bool))
    first = np.zeros(len(tokens) + 1, dtype=bool)
    first[rows] = True
    first = first[:-1]
    spaceless, marked = table.spaceless[tokens], table.marked[tokens]
    joined = table.opens[tokens] & ~marked & ~spaceless & ~first
    joined[1:] &= (table.closes[tokens] & ~spaceless)[:-1]
    starts = np.flatnonzero(~joined)
    if spaceless.any():
        goes_on = spaceless & table.pure[tokens] & ~marked & ~first
        goes_on[1:] &= (spaceless & table.pure[tokens])[:-1]
        goes_on = np.append(goes_on, False)  # nothing goes on at the end
        starts = _without_inner(starts, tokens, spaceless & table.pure[tokens], goes_on, symbols, source)
    pieces = np.diff(starts, append=len(tokens))
    words = np.logical_or.reduceat(table.letters[tokens], starts)
    whole = np.logical_and.reduceat(table.pure[tokens], starts) & (pieces <= LONGEST)
    return Words(starts[words], pieces[words], whole[words])


def _without_inner(
    starts: np.ndarray,
    tokens: np.ndarray,
    area: np.ndarray,
    goes_on: np.ndarray,
    symbols: Sequence[str],
    source: SourceWords,
) -> np.ndarray:
    """Starts of units without those inside a longest match of a spaceless script. ``goes_on``: (N + 1,) bool."""
    longest = _longest_matches(tokens, area, goes_on, symbols, source)
    kept = np.ones(len(tokens), dtype=bool)
    place = np.flatnonzero(area & ~goes_on[:-1])  # of every run at once, from left to right
    while len(place):
        length = longest[place]
        for offset in range(1, int(length.max())):
            kept[place[length > offset] + offset] = False
        place = place + length
        place = place[goes_on[place]]
    return starts[kept[starts]]


def _longest_matches(
    tokens: np.ndarray, area: np.ndarray, goes_on: np.ndarray, symbols: Sequence[str], source: SourceWords
) -> np.ndarray:
    """(N,) int64: pieces of the longest entry of the lexicon that begins at each piece of ``area``; 1 where there is none."""
    longest = np.ones(len(tokens), dtype=np.int64)
    places = np.flatnonzero(area)
    keys = np.zeros(len(places), dtype=np.uint64)  # (places,)
    for length in range(1, LONGEST + 1):
        keys = _extended(keys, tokens[places + length - 1])
        _, some, inverse = np.unique(keys, return_index=True, return_inverse=True)
        texts = [text_of(tokens[places[at] : places[at] + length], symbols) for at in some.tolist()]
        known = [(text in source.words, text in source.beginnings) for text in texts]
        found = np.array(known, dtype=bool).reshape(-1, 2)[inverse]  # (places, 2)
        longest[places[found[:, 0]]] = length
        alive = found[:, 1] & goes_on[places + length]
        places, keys = places[alive], keys[alive]
        if len(places) == 0:
            break
    return longest


def text_of(pieces: np.ndarray, symbols: Sequence[str]) -> str:
    """Text of a word: its pieces without the mark."""
    return "".join(symbols[piece] for piece in pieces.tolist()).replace(MARK, "")


def run_keys(tokens: np.ndarray, words: Words) -> np.ndarray:
    """(W,) uint64: equal for equal runs of pieces, different for others (but once in 2^64 pairs)."""
    keys = np.zeros(len(words.starts), dtype=np.uint64)
    alive = np.flatnonzero(words.whole)
    place = 0
    while len(alive):
        keys[alive] = _extended(keys[alive], tokens[words.starts[alive] + place])
        place += 1
        alive = alive[words.pieces[alive] > place]
    return keys


def _extended(keys: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    return mix(keys + (tokens.astype(np.uint64) + np.uint64(1)) * _STEP)
