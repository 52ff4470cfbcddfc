"""Tiny texts and lexicons of code-switching restore: words of letters and numbers, whose pieces are known without a model."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from fairseq.data import Dictionary, ListDataset

from data_prep.lexicon.vectors import WordVectors, write_vectors
from data_prep.pieces.segmenters import load_model, write_dictionary
from fairseq_plugins.data.csr_dataset import CodeSwitchingDataset, Switching
from fairseq_plugins.data.csr_entries import Entries
from fairseq_plugins.data.csr_text import TextBuilder
from fairseq_plugins.data.csr_words import MARK, piece_table
from fairseq_plugins.tasks.code_switching_restore import CodeSwitchingRestoreConfig, CodeSwitchingRestoreTask
from tests import builders, nlu_bins

KINDS = 20
LANGUAGES = {"en": "abc", "de": "def"}
"""A language's words are ``a3``, of one piece, and ``b3c5``, of two."""


def dictionary():
    """Every letter with every number, at a word's beginning and inside; punctuation; the languages."""
    pieces = [f"{letter}{number}" for letter in "".join(LANGUAGES.values()) for number in range(KINDS)]
    punctuation = (".", ",", "(", f"{MARK}(", MARK, "[en]", "[de]", "<mask>")
    return builders.of_symbols([*(mark + piece for piece in pieces for mark in (MARK, "")), *punctuation])


class KnownPieces:
    def __init__(self, symbols):
        self.symbols = symbols

    def normal(self, word):
        return word

    def encode(self, words, marked):
        rows = []
        for word in words:
            parts = re.findall(r"[a-z]\d+", word)
            marks = [MARK if marked and not place else "" for place in range(len(parts))]
            pieces = [self.symbols.index(mark + part) for mark, part in zip(marks, parts)]
            rows.append(None if self.symbols.unk() in pieces or "".join(parts) != word else pieces)
        return rows


def Rows(rows):
    return ListDataset([torch.tensor(row) for row in rows], np.array([len(row) for row in rows], dtype=np.int64))


def word(language, number):
    """Of the first 20 numbers a word of one piece, of the next 20 one of two."""
    first, second, third = LANGUAGES[language]
    return f"{first}{number}" if number < KINDS else f"{second}{number - KINDS}{third}{(7 * number) % KINDS}"


def lexicon(source, target, words=2 * KINDS):
    candidates = {n: [word(target, (3 * n + place) % (2 * KINDS)) for place in range(3)] for n in range(words)}
    return {word(source, number): found for number, found in candidates.items()}


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


def build(texts, symbols, words=2 * KINDS, seed=1, begin=None, **switching):
    """A dataset of the texts of languages, and what the lexicons cover; ``words`` of each language have an entry."""
    special = [symbols.bos(), symbols.pad(), symbols.eos()]
    entries = Entries(KnownPieces(symbols))
    builder = TextBuilder(symbols.symbols, piece_table(symbols.symbols, symbols.unk(), special), begin)
    found = []
    for language, rows in texts.items():
        other = next(name for name in LANGUAGES if name != language)
        entries.use(lexicon(language, other, words))
        found.append(builder.add([Rows(rows)], symbols.index(f"[{language}]"), entries))
    options = Switching(**{"ratio": 0.35, "mean_span": 3.5, "seed": seed, **switching})
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


# ---- A tiny data-bin of two languages cut by a sentencepiece model, with lexicons in both directions that cover it. ----

WORDS = [
    *("the der", "a ein", "dog Hund", "cat Katze", "house Haus", "tree Baum", "sees sieht", "eats isst", "big groß"),
    *("small klein", "red rot", "old alt", "and und", "or oder", "under unter", "behind hinter", "man Mann"),
    *("woman Frau", "child Kind", "river Fluss", "mountain Berg", "bread Brot", "water Wasser", "quickly schnell"),
]
ENGLISH, GERMAN = zip(*(pair.split() for pair in WORDS))
LANGS = "en,de"


class Bin(NamedTuple):
    data: Path  # data-bin of the pair en-de: train 48, valid 8, test 8 sentences
    lexicon: Path  # folder with en-de.tsv and de-en.tsv
    model: Path  # sentencepiece model

    def options(self):
        return [
            *("--task", "code_switching_restore", "-s", "en", "-t", "de", "--langs", LANGS),
            *("--lexicon", str(self.lexicon), "--sentencepiece-model", str(self.model)),
        ]


def texts(count, seed):
    rng = np.random.default_rng(seed)
    rows = [rng.integers(len(WORDS), size=rng.integers(3, 14)).tolist() for _ in range(count)]
    return {
        name: [" ".join(words[number] for number in row[:-1]) + f" ({words[row[-1]]})." for row in rows]
        for name, words in (("en", ENGLISH), ("de", GERMAN))
    }


def write_lexicon(path, pairs, backwards=False):
    """A MUSE file of pairs ``dog Hund``, lower-cased; each word also gets the next word's translation."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = [pair.lower().split()[:: -1 if backwards else 1] for pair in pairs]
    rows = [f"{one} {two}\n{one} {columns[(n + 1) % len(columns)][1]}\n" for n, (one, two) in enumerate(columns)]
    path.write_text("".join(rows), encoding="utf-8")
    return path


def write(folder, counts=(48, 8, 8), seed=1):
    data, lexicon = folder / "bin", folder / "lexicon"
    data.mkdir(parents=True)
    lines = [*sum(texts(60, 99).values(), []), *(word.lower() for word in GERMAN)]
    model = nlu_bins.train_model(folder / "m.model", lines, vocab_size=110)
    cut = load_model(model)
    for language in ("en", "de"):
        write_dictionary(cut, data / f"dict.{language}.txt")
    for number, (split, count) in enumerate(zip(("train", "valid", "test"), counts)):
        write_pair(data, split, texts(count, seed + number), cut)
    write_lexicon(lexicon / "en-de.tsv", WORDS)
    write_lexicon(lexicon / "de-en.tsv", WORDS, backwards=True)
    return Bin(data, lexicon, model)


def write_pair(data, split, rows, cut):
    symbols = Dictionary.load(str(data / "dict.en.txt"))
    for language, side in rows.items():
        pieces = [[symbols.index(piece) for piece in cut.encode(text, out_type=str)] for text in side]
        builders.write_side(data, split, "en-de", language, pieces)


STOCK = dict(source_lang="en", target_lang="de", langs=LANGS, train_subset="train", dataset_impl=None, seed=1)
STOCK.update(required_seq_len_multiple=1, update_freq=[1], save_dir="nowhere", restore_file="checkpoint_last.pt")
STOCK["finetune_from_model"] = None


def setup(made, **options):
    paths = {"data": str(made.data), "lexicon": str(made.lexicon), "sentencepiece_model": str(made.model)}
    return CodeSwitchingRestoreTask.setup_task(CodeSwitchingRestoreConfig(**{**STOCK, **paths, **options}))


def load(task, split="train", **options):
    task.load_dataset(split, **{"epoch": 1, "combine": False, **options})
    return task.dataset(split)


class Criterion:
    def __call__(self, model, sample):
        return torch.zeros(1, requires_grad=True).sum(), 1, {"loss": 0}

    @staticmethod
    def reduce_metrics(logs):
        """Nothing."""


# ---- Tiny vectors and lexicons for the tests of the lexicon verbs. ----

DIMENSION = 10
write_raw = nlu_bins.write


def vectors(prefix, words=200, seed=1):
    """Random vectors in clusters of the words ``prefix0``, ``prefix1`` ..."""
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(12, DIMENSION))
    rows = centres[np.arange(words) % 12] + 0.7 * draw.normal(size=(words, DIMENSION))
    scale = np.linspace(2.0, 0.4, DIMENSION)
    return WordVectors([f"{prefix}{number}" for number in range(words)], (rows * scale).astype(np.float32))


def turned(side, prefix):
    """The same vectors after a rotation, in another order: word ``a7`` becomes ``prefix7``."""
    draw = np.random.default_rng(2)
    turn, _ = np.linalg.qr(draw.normal(size=(DIMENSION, DIMENSION)))
    order = draw.permutation(len(side.words))
    return WordVectors([f"{prefix}{number}" for number in order], (side.vectors[order] @ turn).astype(np.float32))


def two_sides(folder):
    """Files of vectors that a rotation brings together: a7 belongs to b7."""
    first = vectors("a")
    paths = folder / "a.vec", folder / "b.vec"
    write_vectors(paths, "--output", [first, turned(first, "b")])
    return paths


def mates(words):
    return {word: [f"b{word[1:]}"] for word in words}
