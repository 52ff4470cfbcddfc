"""Tiny texts and lexicons of code-switching restore: words of letters and numbers, whose pieces are known without a model."""

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
    """Every letter with every number, at a word's beginning and inside; punctuation; the languages."""
    pieces = [f"{letter}{number}" for letter in "".join(LANGUAGES.values()) for number in range(KINDS)]
    punctuation = (".", ",", "(", f"{MARK}(", MARK, "[en]", "[de]", "<mask>")
    return builders.of_symbols([*(mark + piece for piece in pieces for mark in (MARK, "")), *punctuation])


class KnownPieces:
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


def Rows(rows):
    return ListDataset([torch.tensor(row) for row in rows], np.array([len(row) for row in rows], dtype=np.int64))


def word(language, number):
    """Of the first 20 numbers a word of one piece, of the next 20 one of two."""
    first, second, third = LANGUAGES[language]
    return f"{first}{number}" if number < KINDS else f"{second}{number - KINDS}{third}{(7 * number) % KINDS}"


def lexicon(source, target, words=2 * KINDS):
    candidates = {n: [word(target, (3 * n + place) % (2 * KINDS)) for place in range(3)] for n in range(words)}
    return {word(source, number): neighbours for number, neighbours in candidates.items()}


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


def build(rows, symbols, words=2 * KINDS, bos=None, **switching):
    """A dataset of the rows of languages; ``words`` of each language have an entry."""
    entries = Entries(KnownPieces(symbols), classify_pieces(symbols))
    texts = []
    for language, sides in rows.items():
        target = next(name for name in LANGUAGES if name != language)
        entries.use(lexicon(language, target, words))
        texts.append(read_text([Rows(sides)], symbols.index(f"[{language}]"), entries, bos))
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
    following = [*columns[1:], columns[0]]
    rows = [f"{word} {mate}\n{word} {next_mate}\n" for (word, mate), (_, next_mate) in zip(columns, following)]
    path.write_text("".join(rows), encoding="utf-8")
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
        pieces = [[symbols.index(piece) for piece in model.encode(text, out_type=str)] for text in side]
        builders.write_side(data, split, "en-de", language, pieces)


STOCK = dict(source_lang="en", target_lang="de", langs=LANGS, train_subset="train", dataset_impl=None, seed=1)
STOCK.update(required_seq_len_multiple=1, update_freq=[1], save_dir="nowhere", restore_file="checkpoint_last.pt")
STOCK["finetune_from_model"] = None


def setup(corpus, **options):
    """The task of a :class:`Bin`."""
    paths = {"data": str(corpus.data), "lexicon": str(corpus.lexicon), "sentencepiece_model": str(corpus.model)}
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
