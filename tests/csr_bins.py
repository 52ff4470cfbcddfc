"""A tiny data-bin of two languages cut by a sentencepiece model, with lexicons in both directions that cover it."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from fairseq.data import Dictionary

from data_prep.pieces import load_model, write_dictionary
from fairseq_plugins.tasks.code_switching_restore import CodeSwitchingRestoreConfig, CodeSwitchingRestoreTask
from tests import data_bins, nlu_raw

WORDS = [
    *("the der", "a ein", "dog Hund", "cat Katze", "house Haus", "tree Baum", "sees sieht", "eats isst", "big groß"),
    *("small klein", "red rot", "old alt", "and und", "or oder", "under unter", "behind hinter", "man Mann"),
    *("woman Frau", "child Kind", "river Fluss", "mountain Berg", "bread Brot", "water Wasser", "quickly schnell"),
]
ENGLISH, GERMAN = zip(*(pair.split() for pair in WORDS))
LANGS = "en,de"


class Bin(NamedTuple):
    """Paths.

    Attributes:
        data: data-bin of the pair en-de: train 48, valid 8, test 8 sentences.
        lexicon: folder with en-de.tsv and de-en.tsv.
        model: sentencepiece model.
    """

    data: Path
    lexicon: Path
    model: Path

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
    every = texts(60, 99)
    model = nlu_raw.train_model(
        folder / "m.model", [*every["en"], *every["de"], *(w.lower() for w in GERMAN)], vocab_size=110
    )
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
        data_bins.write_side(data, split, "en-de", language, pieces)


STOCK = {
    "source_lang": "en",
    "target_lang": "de",
    "langs": "en,de",
    "train_subset": "train",
    "dataset_impl": None,
    "required_seq_len_multiple": 1,
    "update_freq": [1],
    "seed": 1,
    "restore_file": "checkpoint_last.pt",
    "finetune_from_model": None,
    "save_dir": "nowhere",
}


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
