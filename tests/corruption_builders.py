"""Tiny streams of texts for span corruption, and the way back from source and target to the text."""

from typing import List

import numpy as np
import torch

from fairseq_plugins.data.sentinels import find_sentinels
from fairseq_plugins.data.span_corruption_dataset import SpanCorruption, SpanCorruptionDataset
from fairseq_plugins.data.text_streams import SentenceBlocks, SentencePairs
from tests import builders, data_bins

PAD, EOS = builders.PAD, builders.EOS
TEMPLATE = "<extra_id_{}>"
SENTINELS = 60
FIRST_SENTINEL = builders.VOCAB
Rows = List[List[int]]


def dictionary(sentinels=SENTINELS):
    symbols = builders.dictionary()
    find_sentinels(symbols, TEMPLATE, sentinels)
    return symbols


def tensors(rows):
    return [torch.tensor([*row, EOS]) for row in rows]


def sizes(rows):
    return np.array([len(row) + 1 for row in rows], dtype=np.int32)


def blocks(rows, block=20, mode="complete", ratio=0.15):
    return SentenceBlocks(tensors(rows), sizes(rows), block, mode, PAD, EOS, ratio)


def pairs(left, right, ratio=0.5):
    return SentencePairs([tensors(left), tensors(right)], [sizes(left), sizes(right)], ratio)


def pair_rows(count, low=2, high=12):
    return data_bins.sentences(count, 1, low, high), data_bins.sentences(count, 2, low, high)


def corruption(**changes):
    options = {"mean_span": 3.0, "sentinels": range(FIRST_SENTINEL, FIRST_SENTINEL + SENTINELS), "seed": 7, **changes}
    return SpanCorruption(**options)


def dataset(streams, probabilities=None, **changes):
    return SpanCorruptionDataset(streams, dictionary(), corruption(**changes), probabilities)


def spans(target):
    """The tokens behind each sentinel of a target, without its last </s>; the sentinels must be in order."""
    found = []
    for token in target[:-1]:
        if token >= FIRST_SENTINEL:
            assert token == FIRST_SENTINEL + len(found), "sentinels count up"
            found.append([])
        else:
            found[-1].append(token)
    return found


def restored(source, target):
    """The text: each sentinel of the source replaced by what the target has for it."""
    parts = spans(target)
    text = []
    used = 0
    for token in source:
        if token >= FIRST_SENTINEL:
            assert token == FIRST_SENTINEL + used, "sentinels count up"
            text += parts[used]
            used += 1
        else:
            text.append(token)
    assert used == len(parts)
    return text


def plain(item):
    return item["source"].tolist(), item["target"].tolist()
