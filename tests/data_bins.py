"""Tiny stock data-bins, as fairseq-preprocess writes them, made in-process."""

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

from tests import builders


def sentences(count, seed, low=2, high=8):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(low, high + 1, (count,), generator=generator).tolist()
    return [torch.randint(builders.FIRST_PIECE, builders.MASK, (n,), generator=generator).tolist() for n in lengths]


def write_side(folder, split, pair, language, rows):
    """``SPLIT.PAIR.LANGUAGE.bin`` and ``.idx``; every row gets its </s>."""
    prefix = str(folder / f"{split}.{pair}.{language}")
    builder = MMapIndexedDatasetBuilder(prefix + ".bin", dtype=np.int32)
    for row in rows:
        builder.add_item(torch.tensor([*row, builders.EOS]))
    builder.finalize(prefix + ".idx")


def write_dictionary(folder, language, pieces=builders.PIECES):
    symbols = Dictionary()
    for number in range(pieces):
        symbols.add_symbol(f"p{number}")
    symbols.save(str(folder / f"dict.{language}.txt"))


def write_pair(folder, split, source, target, count=12, seed=1):
    """A pair of random sides and both dictionaries; returns the rows by language."""
    rows = {source: sentences(count, seed), target: sentences(count, seed + 100)}
    for language, side in rows.items():
        write_side(folder, split, f"{source}-{target}", language, side)
        write_dictionary(folder, language)
    return rows
