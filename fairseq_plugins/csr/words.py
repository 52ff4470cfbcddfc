"""Find the words in sentences of sentencepiece pieces.

Sentences lie one after another in flat arrays. Letters: N tokens, R sentences, W words.
"""

from typing import Container, List, NamedTuple, Sequence

import numpy as np
import regex
from fairseq.data import Dictionary

from ..ops.scripts import JOINERS, SPACELESS, WORD

MARK = "▁"
"""Sentencepiece's symbol for a space: the mark of a word's beginning."""

LONGEST = 64
"""Most pieces of a word that is looked up."""

# Joiners count as letters here, because a piece may begin with one.
_IS_WORD = regex.compile(rf"[{WORD}{JOINERS}]+")
_HAS_SPACELESS = regex.compile(rf"[[{SPACELESS}]&&[{WORD}]]", flags=regex.V1)


def is_word(text: str) -> bool:
    """Return True if all characters are letters, combining marks, digits or zero-width joiners."""
    return _IS_WORD.fullmatch(text) is not None


def is_spaceless(text: str) -> bool:
    """Return True if a character is of a script that puts no space between words.

    These are Chinese, Japanese, Thai, Lao, Khmer and Burmese.
    """
    return _HAS_SPACELESS.search(text) is not None


# ---- Rows in flat arrays. ----


def row_starts(lengths: np.ndarray) -> np.ndarray:
    """List where each row begins, and the end of the last one. (R,) -> (R + 1,) int64."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """List the places ``start .. start + length - 1`` of each row, row after row."""
    shift = starts - (np.cumsum(lengths) - lengths)
    return np.repeat(shift, lengths) + np.arange(int(lengths.sum()))


# ---- Pieces. ----


class PieceTable(NamedTuple):
    """The pieces of a dictionary as parts of words; arrays are (V,) bool."""

    symbols: Sequence[str]
    # "Letter" here: a character of :func:`is_word`.
    marked: np.ndarray  # begins with the mark
    begins_in_word: np.ndarray  # first character is a letter: may continue a word
    ends_in_word: np.ndarray  # last character is a letter, or the mark alone: may be continued
    pure: np.ndarray  # nothing but letters and the mark: may be part of a word that is looked up
    letters: np.ndarray  # has a letter
    spaceless: np.ndarray  # has a letter of a script without spaces between words


def classify_pieces(dictionary: Dictionary) -> PieceTable:
    """Classify every piece of a dictionary.

    ``<unk>`` may be any text: it belongs to the word around it, which is then not looked up.
    ``<s>``, ``<pad>`` and ``</s>`` are no text.
    """
    symbols = dictionary.symbols
    texts = [symbol.removeprefix(MARK) for symbol in symbols]
    table = PieceTable(
        symbols,
        marked=np.array([symbol.startswith(MARK) for symbol in symbols]),
        begins_in_word=np.array([is_word(text[:1]) for text in texts]),
        ends_in_word=np.array([is_word(text[-1:]) or not text for text in texts]),
        pure=np.array([is_word(text) or symbol == MARK for text, symbol in zip(texts, symbols)]),
        letters=np.array([any(map(is_word, text)) for text in texts]),
        spaceless=np.array([is_spaceless(text) for text in texts]),
    )
    unknown = dictionary.unk()
    for kinds in table[1:]:
        kinds[[dictionary.bos(), dictionary.pad(), dictionary.eos(), unknown]] = False
    for kinds in (table.begins_in_word, table.ends_in_word, table.letters):
        kinds[unknown] = True
    return table


def spell(table: PieceTable, pieces: np.ndarray) -> str:
    """Join the pieces of a word, without the mark."""
    return "".join(table.symbols[piece] for piece in pieces.tolist()).replace(MARK, "")


# ---- Words. ----


class SourceWords(NamedTuple):
    """The source words of a lexicon, and their proper prefixes."""

    words: Container[str]
    prefixes: Container[str]


class Words(NamedTuple):
    """Words of some sentences, in their order."""

    starts: np.ndarray  # (W,) int64, first piece, counted through all sentences
    pieces: np.ndarray  # (W,) int64, at least 1
    is_whole: np.ndarray  # (W,) bool, True = all its pieces are pure: can be looked up


def find_words(
    tokens: np.ndarray, starts: np.ndarray, table: PieceTable, source: SourceWords
) -> Words:
    """Cut sentences into words.

    A word is a run of pieces. It goes on as long as the next piece has no mark, and the characters
    on both sides of the boundary are letters, combining marks, digits or joiners. Punctuation
    belongs to no word. A run with a piece of letters and punctuation is one word that is never
    looked up. In scripts without spaces, words are the longest entries of the lexicon, matched from
    left to right; a piece where no entry begins is a word by itself.

    Args:
        tokens: (N,) int.
        starts: (R + 1,) int64, where each sentence begins, and N.
        table: the pieces of the dictionary.
        source: words of the lexicon, for scripts without spaces.
    """
    if len(tokens) == 0:
        empty = np.zeros(0, dtype=np.int64)
        return Words(empty, empty, empty.astype(bool))
    begins_sentence = np.zeros(len(tokens) + 1, dtype=bool)
    begins_sentence[starts] = True
    may_join = ~table.marked[tokens] & ~begins_sentence[:-1]
    spaceless = table.spaceless[tokens]
    joined = may_join & table.begins_in_word[tokens] & ~spaceless  # N, to the piece before
    joined[1:] &= (table.ends_in_word[tokens] & ~spaceless)[:-1]
    spaceless &= table.pure[tokens]  # only these take part in matches
    if spaceless.any():
        continues = spaceless & may_join
        continues[1:] &= spaceless[:-1]
        joined[_inside_entries(tokens, spaceless, continues, table, source)] = True
    first = np.flatnonzero(~joined)  # of each run, also of runs of punctuation
    pieces = np.diff(first, append=len(tokens))
    is_text = np.logical_or.reduceat(table.letters[tokens], first)
    is_whole = np.logical_and.reduceat(table.pure[tokens], first) & (pieces <= LONGEST)
    return Words(first[is_text], pieces[is_text], is_whole[is_text])


def _inside_entries(
    tokens: np.ndarray,
    spaceless: np.ndarray,
    continues: np.ndarray,
    table: PieceTable,
    source: SourceWords,
) -> List[int]:
    """List the tokens, in runs of spaceless scripts, that continue an entry of the lexicon.

    Args:
        spaceless: (N,) bool, True = a piece of a run.
        continues: (N,) bool, True = the run of the piece before goes on.
    """
    inside: List[int] = []
    first = np.flatnonzero(spaceless & ~continues)
    last = np.flatnonzero(spaceless & ~np.append(continues[1:], False))
    for start, end in zip(first.tolist(), (last + 1).tolist()):
        pieces = [table.symbols[token].replace(MARK, "") for token in tokens[start:end].tolist()]
        place = 0
        while place < len(pieces):
            length = _longest_match(pieces[place : place + LONGEST], source)
            inside += range(start + place + 1, start + place + length)
            place += length
    return inside


def _longest_match(pieces: Sequence[str], source: SourceWords) -> int:
    """Count the pieces of the longest entry that begins with the first piece; 1 if none does."""
    longest, text = 1, ""
    for length, piece in enumerate(pieces, start=1):
        text += piece
        if text in source.words:
            longest = length
        if text not in source.prefixes:
            break
    return longest
