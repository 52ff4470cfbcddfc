"""Tiny data-bins of understanding tasks, as data_prep.nlu writes them, and a tiny tagger to read them with."""

from typing import Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from fairseq.models import BaseFairseqModel
from torch import nn

from tests import builders

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
FIRST_LABEL = 4
"""Number of the first label: fairseq's four symbols come before."""

Word = Tuple[Sequence[int], Optional[str]]
"""Pieces of a word, and its tag; None = one that the label dictionary does not have."""


def write_rows(folder, name, rows):
    """``FOLDER/NAME.bin`` and ``.idx``; every row is written as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    builder = MMapIndexedDatasetBuilder(str(folder / f"{name}.bin"), dtype=np.int32)
    for row in rows:
        builder.add_item(torch.tensor(list(row), dtype=torch.int64))
    builder.finalize(str(folder / f"{name}.idx"))


def write_texts(data, folder, name, rows):
    """Pieces of one side; every row gets its ``</s>``, and the dictionary is written beside them."""
    write_rows(data / folder, name, [[*row, builders.EOS] for row in rows])
    write_dictionary(data / folder / "dict.txt", [f"p{number}" for number in range(builders.PIECES)])


def write_dictionary(path, symbols):
    """A dict.txt; fairseq's own four symbols are not written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{symbol} 1\n" for symbol in symbols), encoding="utf-8")


def label_dictionary(labels):
    result = Dictionary()
    for label in labels:
        result.add_symbol(label)
    return result


def write_classes(data, name, classes, labels):
    """One class a row, ``</s>`` behind it, as fairseq-preprocess writes it."""
    write_dictionary(data / "label" / "dict.txt", labels)
    symbols = label_dictionary(labels)
    write_rows(data / "label", name, [[symbols.index(label), symbols.eos()] for label in classes])


def tag_row(words, labels):
    """A symbol a piece: the tag where a word starts, ``<pad>`` elsewhere; no ``</s>``."""
    symbols = label_dictionary(labels)
    row = []
    for pieces, tag in words:
        row += [symbols.unk() if tag is None else symbols.index(tag), *[symbols.pad()] * (len(pieces) - 1)]
    return row


def write_tagged(data, name, sentences, labels=TAGS):
    """input0 and label of one subset, and both dictionaries."""
    write_texts(data, "input0", name, [[piece for pieces, _ in words for piece in pieces] for words in sentences])
    write_dictionary(data / "label" / "dict.txt", labels)
    write_rows(data / "label", name, [[*tag_row(words, labels), builders.EOS] for words in sentences])


def tagged_sentences(count, seed, shift=0, words=7):
    """Sentences of at least ``words`` words whose tags follow from their pieces.

    Names of persons begin with one of three pieces, names of places with one of three others; one word in four of a name has a
    second piece. ``shift`` chooses other pieces for the words outside: another language with the same names.
    """
    generator = np.random.default_rng(seed)
    sentences = []
    for _ in range(count):
        sentence = []
        while len(sentence) < words:
            kind = generator.integers(4)
            if kind < 2:
                sentence.append(([10 + shift + int(generator.integers(5))], "O"))
                continue
            name = ("PER", "LOC")[kind - 2]
            for number in range(int(generator.integers(1, 4))):
                first = builders.FIRST_PIECE + 3 * (kind - 2) + int(generator.integers(3))
                rest = [builders.MASK - 1] * int(generator.integers(4) == 0)
                sentence.append(([int(first), *rest], f"{'B' if number == 0 else 'I'}-{name}"))
        sentences.append(sentence)
    return sentences


class TinyTagger(BaseFairseqModel):
    """An embedding, the piece before and a linear head: all that a task and a criterion ask of a tagging model."""

    def __init__(self, vocab=builders.VOCAB, width=8):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width, padding_idx=builders.PAD)
        self.token_heads = nn.ModuleDict()

    def register_token_head(self, name, num_classes):
        self.token_heads[name] = nn.Linear(self.embedding.embedding_dim, num_classes)

    def forward(
        self, src_tokens, src_lengths=None, features_only=False, classification_head_name=None, select=None, **unused
    ):
        """(B, S) -> (N, classes), the logits of the selected places."""
        x = self.embedding(src_tokens)
        x = x + 0.5 * x.roll(1, dims=1)
        assert features_only and classification_head_name is not None and select is not None
        return self.token_heads[classification_head_name](x[select]), {}
