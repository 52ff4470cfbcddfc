"""Tiny streams of texts for span corruption, and the way back from source and target to the text."""

from typing import Any, List, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import Dictionary

from fairseq_plugins.data.sentinels import find_sentinels
from fairseq_plugins.data.span_corruption_dataset import SpanCorruption, SpanCorruptionDataset
from fairseq_plugins.data.text_streams import SentenceBlocks, SentencePairs, TextStream
from tests import builders, data_bins

PAD, EOS = builders.PAD, builders.EOS
TEMPLATE = "<extra_id_{}>"
SENTINELS = 60
FIRST_SENTINEL = builders.VOCAB
Rows = List[List[int]]


def dictionary(sentinels: int = SENTINELS) -> Dictionary:
    """The tiny dictionary with sentinels at its end."""
    symbols = builders.dictionary()
    find_sentinels(symbols, TEMPLATE, sentinels)
    return symbols


def tensors(rows: Rows) -> List[torch.Tensor]:
    """Each with its </s>, as in a data-bin."""
    return [torch.tensor([*row, EOS]) for row in rows]


def sizes(rows: Rows) -> np.ndarray:
    """Of these, as a data-bin keeps them."""
    return np.array([len(row) + 1 for row in rows], dtype=np.int32)


def blocks(rows: Rows, block: int = 20, mode: str = "complete", ratio: float = 0.15) -> SentenceBlocks:
    """Monolingual sentences, packed."""
    return SentenceBlocks(tensors(rows), sizes(rows), block, mode, PAD, EOS, ratio)


def pairs(left: Rows, right: Rows, ratio: float = 0.5) -> SentencePairs:
    """Translation pairs."""
    return SentencePairs([tensors(left), tensors(right)], [sizes(left), sizes(right)], ratio)


def pair_rows(count: int, low: int = 2, high: int = 12) -> Tuple[Rows, Rows]:
    """Two sides of random sentences."""
    return data_bins.sentences(count, 1, low, high), data_bins.sentences(count, 2, low, high)


def corruption(**changes: Any) -> SpanCorruption:
    """Mean span 3, seed 7, all the sentinels."""
    options = {"mean_span": 3.0, "sentinels": range(FIRST_SENTINEL, FIRST_SENTINEL + SENTINELS), "seed": 7, **changes}
    return SpanCorruption(**options)


def dataset(streams: Sequence[TextStream], probabilities: Any = None, **changes: Any) -> SpanCorruptionDataset:
    """A dataset of these streams."""
    return SpanCorruptionDataset(streams, dictionary(), corruption(**changes), probabilities)


def spans(target: Sequence[int]) -> List[List[int]]:
    """The tokens behind each sentinel of a target, without its last </s>; the sentinels must be in order."""
    found: List[List[int]] = []
    for token in target[:-1]:
        if token >= FIRST_SENTINEL:
            assert token == FIRST_SENTINEL + len(found), "sentinels count up"
            found.append([])
        else:
            found[-1].append(token)
    return found


def restored(source: Sequence[int], target: Sequence[int]) -> List[int]:
    """The text: each sentinel of the source replaced by what the target has for it."""
    parts = spans(target)
    text: List[int] = []
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


def plain(item: Any) -> Tuple[List[int], List[int]]:
    """Source and target of an item."""
    return item["source"].tolist(), item["target"].tolist()
