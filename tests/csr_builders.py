"""Tiny texts and lexicons of code-switching restore: words of letters and numbers, whose pieces are known without a model."""

import re

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset

from fairseq_plugins.data.csr_dataset import CodeSwitchingDataset, Switching
from fairseq_plugins.data.csr_entries import Entries, PieceEncoder
from fairseq_plugins.data.csr_text import TextBuilder
from fairseq_plugins.data.csr_words import MARK, piece_table

KINDS = 20
LANGUAGES = {"en": "abc", "de": "def"}
"""A language's words are ``a3``, of one piece, and ``b3c5``, of two."""

RATIO, SPAN = 0.35, 3.5


def dictionary():
    """Every letter with every number, at a word's beginning and inside; punctuation; the languages."""
    symbols = Dictionary()
    for letter in "".join(LANGUAGES.values()):
        for number in range(KINDS):
            symbols.add_symbol(f"{MARK}{letter}{number}")
            symbols.add_symbol(f"{letter}{number}")
    for symbol in (".", ",", "(", f"{MARK}(", MARK, "[en]", "[de]", "<mask>"):
        symbols.add_symbol(symbol)
    return symbols


class KnownPieces:
    def __init__(self, symbols):
        self.symbols = symbols

    def normal(self, word):
        return word

    def encode(self, words, marked):
        rows = []
        for word in words:
            parts = re.findall(r"[a-z]\d+", word)
            pieces = [
                self.symbols.index((MARK if marked and not place else "") + part) for place, part in enumerate(parts)
            ]
            rows.append(None if self.symbols.unk() in pieces or "".join(parts) != word else pieces)
        return rows


class Rows(FairseqDataset):
    def __init__(self, rows):
        self.rows, self.sizes = rows, np.array([len(row) for row in rows], dtype=np.int64)

    def __getitem__(self, index):
        return torch.tensor(self.rows[index])

    def __len__(self):
        return len(self.rows)


def word(language, number):
    """Of the first 20 numbers a word of one piece, of the next 20 one of two."""
    first, second, third = LANGUAGES[language]
    return f"{first}{number}" if number < KINDS else f"{second}{number - KINDS}{third}{(7 * number) % KINDS}"


def lexicon(source, target, words=2 * KINDS, top=3):
    return {
        word(source, number): [word(target, (3 * number + place) % (2 * KINDS)) for place in range(top)]
        for number in range(words)
    }


def piece_lexicon(source, target):
    pairs = zip(LANGUAGES[source], LANGUAGES[target])
    return {f"{MARK}{one}{n}": [f"{MARK}{two}{n}", f"{two}{n}"] for one, two in pairs for n in range(0, KINDS, 2)}


def sentences(symbols, language, count, seed, low=1, high=25):
    """Random words, commas among them, one of them in a bracket, a full stop, ``</s>``."""
    rng = np.random.default_rng(seed)
    encoder, rows = KnownPieces(symbols), []
    for _ in range(count):
        row = []
        for place, number in enumerate(rng.integers(2 * KINDS, size=rng.integers(low, high, endpoint=True)).tolist()):
            if place == 2:
                row.append(symbols.index(f"{MARK}("))
            row += encoder.encode([word(language, number)], marked=place != 2)[0] or []
            if rng.random() < 0.1:
                row.append(symbols.index(","))
        rows.append([*row, symbols.index("."), symbols.eos()])
    return rows


def build(texts, symbols, words=2 * KINDS, by_piece=False, seed=1, begin=None, **switching):
    """A dataset of the texts of languages, and what the lexicons cover; ``words`` of each language have an entry."""
    special = [symbols.bos(), symbols.pad(), symbols.eos()]
    table = None if by_piece else piece_table(symbols.symbols, symbols.unk(), special)
    entries = Entries(PieceEncoder(symbols) if by_piece else KnownPieces(symbols))
    builder = TextBuilder(symbols.symbols, table, special, begin)
    found = []
    for language, rows in texts.items():
        other = next(name for name in LANGUAGES if name != language)
        entries.use(piece_lexicon(language, other) if by_piece else lexicon(language, other, words))
        found.append(builder.add([Rows(rows)], symbols.index(f"[{language}]"), entries))
    options = Switching(**{"ratio": RATIO, "mean_span": SPAN, "seed": seed, **switching})
    counts = [len(rows) for rows in texts.values()]
    return CodeSwitchingDataset(builder.build(entries.table(), options.ratio), counts, options, symbols), found


def corpus(count=60, words=2 * KINDS, seed=1, **options):
    symbols = dictionary()
    texts = {name: sentences(symbols, name, count, place) for place, name in enumerate(LANGUAGES)}
    return build(texts, symbols, words, seed=seed, **options)[0]


def plain(item):
    return tuple(value.tolist() if torch.is_tensor(value) else value for value in item.values())


def texts_of(tokens, symbols):
    text = "".join(symbols[int(token)] if token >= symbols.nspecial else " " for token in tokens)
    return re.findall(r"(?:[a-f]\d+)+", text.replace(MARK, " ").split("[")[0])
