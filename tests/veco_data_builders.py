"""Tiny documents and pairs for VECO's pre-training, as streams and as data-bins, and a way to look at batches."""

from typing import List

import numpy as np
import torch

from fairseq_plugins.data.veco_dataset import VECODataset
from fairseq_plugins.data.veco_segments import AdjacentSegments, ParallelPairs
from tests import builders, data_bins

BOS, PAD, EOS, MASK = builders.BOS, builders.PAD, builders.EOS, builders.MASK
Rows = List[List[int]]


def documents(counts, seed=1, low=2, high=8):
    """Documents of so many random sentences, without </s>; an empty row ends each."""
    sentences = iter(data_bins.sentences(sum(counts), seed, low, high))
    rows = []
    for count in counts:
        rows += [next(sentences) for _ in range(count)] + [[]]
    return rows


def _side(rows):
    tensors = [torch.tensor([*row, EOS]) for row in rows]
    return tensors, np.array([len(row) for row in tensors], dtype=np.int32)


def segments(rows, room=12):
    return AdjacentSegments(*_side(rows), room, PAD, EOS)


def pairs(left, right):
    (x, x_sizes), (y, y_sizes) = _side(left), _side(right)
    return ParallelPairs([x, y], [x_sizes, y_sizes])


def streams(documents_=20, sentences=30):
    left, right = data_bins.sentences(sentences, 11), data_bins.sentences(sentences, 12)
    return [segments(documents([4] * documents_)), pairs(left, right)]


def dataset(parts, probabilities=None, seed=7, mask_prob=0.15):
    return VECODataset(parts, builders.dictionary(), mask_prob, seed, probabilities)


def plain(item):
    return list(item["lengths"]), item["tokens"].tolist(), item["target"].tolist()


def whole(item):
    (first, _), tokens, target = plain(item)
    row = [old if new == PAD else new for old, new in zip(tokens, target)]
    return [row[:first], row[first:]]


def rows_of(stream, index):
    return [[BOS, *tokens.tolist()] for tokens in stream.read(index)]


def write_documents(folder, split, language, rows):
    """Monolingual documents as ``fairseq-preprocess --only-source`` writes them, and the dictionary."""
    data_bins.write_side(folder, split, f"{language}-None", language, rows)
    data_bins.write_dictionary(folder, language)


def is_parallel(batch):
    return batch["net_input"]["joint_tokens"] is not None
