"""Tiny texts and lexicons for code-switching restore.

Words consist of letters and numbers, so that their pieces are known without a model.
"""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from fairseq.data import Dictionary, ListDataset

from data_prep.lexicon.vectors import WordVectors, write_vectors
from data_prep.pieces.segmenters import load_model, write_dictionary
from fairseq_plugins.csr.config import CodeSwitchingRestoreConfig
from fairseq_plugins.csr.neighbours import Entries, read_text
from fairseq_plugins.csr.noise import Switching
from fairseq_plugins.csr.restore import CodeSwitchingDataset
from fairseq_plugins.csr.task import CodeSwitchingRestoreTask
from fairseq_plugins.csr.words import MARK, classify_pieces
from tests import builders, nlu_bins

KINDS = 20
LANGUAGES = {"en": "abc", "de": "def"}
"""A language's words are ``a3``, of one piece, and ``b3c5``, of two."""


def dictionary():
    """Make pieces of a letter and a number, with and without mark; punctuation; languages."""
    letters = "".join(LANGUAGES.values())
    pieces = [
        f"{mark}{letter}{number}"
        for letter in letters
        for number in range(KINDS)
        for mark in (MARK, "")
    ]
    punctuation = (".", ",", "(", f"{MARK}(", MARK, "[en]", "[de]", "<mask>")
    return builders.of_symbols([*pieces, *punctuation])


class KnownPieces:
    """Encode words as :class:`WordEncoder` does, without a sentencepiece model."""

    def __init__(self, symbols):
        self.symbols = symbols

    def normalize(self, word):
        return word

    def encode(self, words, marked):
        rows = []
        for word in words:
            parts = re.findall(r"[a-z]\d+", word)
            marks = [MARK if marked and not place else "" for place in range(len(parts))]
            pieces = [self.symbols.index(mark + part) for mark, part in zip(marks, parts)]
            rows.append(None if self.symbols.unk() in pieces or "".join(parts) != word else pieces)
        return rows


def list_dataset(rows):
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    return ListDataset([torch.tensor(row) for row in rows], lengths)


def word(language, number):
    """Make a word of one piece from the numbers below 20, of two pieces from the next 20."""
    first, second, third = LANGUAGES[language]
    if number < KINDS:
        return f"{first}{number}"
    return f"{second}{number - KINDS}{third}{(7 * number) % KINDS}"


def lexicon(source, target, words=2 * KINDS):
    return {
        word(source, number): [
            word(target, (3 * number + place) % (2 * KINDS)) for place in range(3)
        ]
        for number in range(words)
    }


def sentences(symbols, language, count, seed, low=1, high=25):
    """Draw rows of words and commas with one word in brackets, a full stop and ``</s>``."""
    rng = np.random.default_rng(seed)
    encoder, rows = KnownPieces(symbols), []
    for _ in range(count):
        row = []
        length = rng.integers(low, high, endpoint=True)
        for place, number in enumerate(rng.integers(2 * KINDS, size=length).tolist()):
            if place == 2:
                row.append(symbols.index(f"{MARK}("))
            row += encoder.encode([word(language, number)], marked=place != 2)[0] or []
            if rng.random() < 0.1:
                row.append(symbols.index(","))
        rows.append([*row, symbols.index("."), symbols.eos()])
    return rows


def build(rows, symbols, words=2 * KINDS, bos=None, **switching):
    """Make a dataset of rows by language; the first ``words`` words have an entry."""
    entries = Entries(KnownPieces(symbols), classify_pieces(symbols))
    texts = []
    for language, sides in rows.items():
        target = next(name for name in LANGUAGES if name != language)
        entries.use(lexicon(language, target, words))
        texts.append(read_text([list_dataset(sides)], symbols.index(f"[{language}]"), entries, bos))
    return CodeSwitchingDataset(texts, entries.table(), Switching(**switching), symbols)


def corpus(count=60, words=2 * KINDS, seed=1, **options):
    symbols = dictionary()
    texts = {name: sentences(symbols, name, count, place) for place, name in enumerate(LANGUAGES)}
    return build(texts, symbols, words, seed=seed, **options)


def plain(item):
    return tuple(value.tolist() if torch.is_tensor(value) else value for value in item.values())


def texts_of(tokens, symbols):
    text = "".join(symbols[int(token)] if token >= symbols.nspecial else " " for token in tokens)
    return re.findall(r"(?:[a-f]\d+)+", text.replace(MARK, " ").split("[")[0])


# ---- A tiny data-bin of two languages with a sentencepiece model and lexicons that cover it. ----

WORDS = """the der, a ein, dog Hund, cat Katze, house Haus, tree Baum, sees sieht, eats isst,
big groß, small klein, red rot, old alt, and und, or oder, under unter, behind hinter, man Mann,
woman Frau, child Kind, river Fluss, mountain Berg, bread Brot, water Wasser, quickly schnell"""
WORDS = [" ".join(pair.split()) for pair in WORDS.split(",")]
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

    def join(words, row):
        return " ".join(words[number] for number in row[:-1]) + f" ({words[row[-1]]})."

    return {
        name: [join(words, row) for row in rows]
        for name, words in (("en", ENGLISH), ("de", GERMAN))
    }


def write_lexicon(path, pairs, backwards=False):
    """Write a MUSE file of lower-cased pairs ``dog Hund``.

    Each word also gets the translation of the next word.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = [pair.lower().split()[:: -1 if backwards else 1] for pair in pairs]
    lines = []
    for (word, translation), (_, next_translation) in zip(columns, [*columns[1:], columns[0]]):
        lines += [f"{word} {translation}\n", f"{word} {next_translation}\n"]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def write(folder, counts=(48, 8, 8), seed=1):
    data, lexicon = folder / "bin", folder / "lexicon"
    data.mkdir(parents=True)
    lines = [*sum(texts(60, 99).values(), []), *(word.lower() for word in GERMAN)]
    model = nlu_bins.train_model(folder / "m.model", lines, vocab_size=110)
    pieces = load_model(model)
    for language in ("en", "de"):
        write_dictionary(pieces, data / f"dict.{language}.txt")
    for number, (split, count) in enumerate(zip(("train", "valid", "test"), counts)):
        write_pair(data, split, texts(count, seed + number), pieces)
    write_lexicon(lexicon / "en-de.tsv", WORDS)
    write_lexicon(lexicon / "de-en.tsv", WORDS, backwards=True)
    return Bin(data, lexicon, model)


def write_pair(data, split, rows, model):
    symbols = Dictionary.load(str(data / "dict.en.txt"))
    for language, side in rows.items():
        pieces = [model.encode(text, out_type=str) for text in side]
        rows = [[symbols.index(piece) for piece in row] for row in pieces]
        builders.write_side(data, split, "en-de", language, rows)


STOCK = {
    **dict(source_lang="en", target_lang="de", langs=LANGS, train_subset="train", seed=1),
    **dict(dataset_impl=None, required_seq_len_multiple=1, update_freq=[1], save_dir="nowhere"),
    **dict(restore_file="checkpoint_last.pt", finetune_from_model=None),
}


def setup(corpus, **options):
    """Set up the task for a :class:`Bin`."""
    paths = {"data": str(corpus.data), "lexicon": str(corpus.lexicon)}
    paths["sentencepiece_model"] = str(corpus.model)
    cfg = CodeSwitchingRestoreConfig(**{**STOCK, **paths, **options})
    return CodeSwitchingRestoreTask.setup_task(cfg)


def load(task, split="train", **options):
    task.load_dataset(split, **{"epoch": 1, "combine": False, **options})
    return task.dataset(split)


class Criterion:
    def __call__(self, model, sample):
        return torch.zeros(1, requires_grad=True).sum(), 1, {"loss": 0}

    @staticmethod
    def reduce_metrics(logs):
        """Log nothing."""


# ---- Tiny vectors and lexicons for the tests of the lexicon verbs. ----

DIMENSION = 10
write_raw = nlu_bins.write


def vectors(prefix, words=200, seed=1):
    """Draw vectors of the words ``prefix0``, ``prefix1`` ... in clusters."""
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(12, DIMENSION))
    rows = centres[np.arange(words) % 12] + 0.7 * draw.normal(size=(words, DIMENSION))
    scale = np.linspace(2.0, 0.4, DIMENSION)
    names = [f"{prefix}{number}" for number in range(words)]
    return WordVectors(names, (rows * scale).astype(np.float32))


def turned(side, prefix):
    """Rotate vectors and reorder them: word ``a7`` becomes ``prefix7``."""
    draw = np.random.default_rng(2)
    turn, _ = np.linalg.qr(draw.normal(size=(DIMENSION, DIMENSION)))
    order = draw.permutation(len(side.words))
    rows = (side.vectors[order] @ turn).astype(np.float32)
    return WordVectors([f"{prefix}{number}" for number in order], rows)


def two_sides(folder):
    """Write vectors that a rotation aligns: a7 belongs to b7."""
    first = vectors("a")
    paths = folder / "a.vec", folder / "b.vec"
    write_vectors(paths, "--output", [first, turned(first, "b")])
    return paths


def mates(words):
    return {word: [f"b{word[1:]}"] for word in words}
