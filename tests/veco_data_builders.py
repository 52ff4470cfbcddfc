"""Tiny documents and pairs for VECO's pre-training, as streams and as data-bins, and a way to look at batches."""

from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch

from fairseq_plugins.data.veco_dataset import Masking, VECODataset
from fairseq_plugins.data.veco_segments import AdjacentSegments, ParallelPairs, SegmentStream
from tests import builders, data_bins

BOS, PAD, EOS, MASK = builders.BOS, builders.PAD, builders.EOS, builders.MASK
Rows = List[List[int]]


def documents(counts: Sequence[int], seed: int = 1, low: int = 2, high: int = 8) -> Rows:
    """Documents of so many random sentences, without </s>; an empty row ends each."""
    sentences = iter(data_bins.sentences(sum(counts), seed, low, high))
    rows: Rows = []
    for count in counts:
        rows += [next(sentences) for _ in range(count)] + [[]]
    return rows


def _side(rows: Rows) -> Tuple[List[torch.Tensor], np.ndarray]:
    """As a data-bin holds them: each with its </s>."""
    tensors = [torch.tensor([*row, EOS]) for row in rows]
    return tensors, np.array([len(row) for row in tensors], dtype=np.int32)


def segments(rows: Rows, room: int = 12) -> AdjacentSegments:
    """Monolingual documents."""
    return AdjacentSegments(*_side(rows), room, PAD, EOS)


def pairs(left: Rows, right: Rows) -> ParallelPairs:
    """Translation pairs."""
    (x, x_sizes), (y, y_sizes) = _side(left), _side(right)
    return ParallelPairs([x, y], [x_sizes, y_sizes])


def streams(documents_: int = 20, sentences: int = 30) -> List[SegmentStream]:
    """A language of documents of four sentences, and a pair."""
    left, right = data_bins.sentences(sentences, 11), data_bins.sentences(sentences, 12)
    return [segments(documents([4] * documents_)), pairs(left, right)]


def dataset(
    parts: Sequence[SegmentStream],
    probabilities: Optional[Sequence[float]] = None,
    seed: int = 7,
    mask_prob: float = 0.15,
) -> VECODataset:
    """A dataset of these streams."""
    return VECODataset(parts, builders.dictionary(), Masking(mask_prob, seed), probabilities)


def plain(item: Dict[str, Any]) -> Tuple[List[int], List[int], List[int]]:
    """Lengths, tokens and targets of an item."""
    return list(item["lengths"]), item["tokens"].tolist(), item["target"].tolist()


def whole(item: Dict[str, Any]) -> List[List[int]]:
    """The two rows before masking."""
    (first, _), tokens, target = plain(item)
    row = [old if new == PAD else new for old, new in zip(tokens, target)]
    return [row[:first], row[first:]]


def rows_of(stream: SegmentStream, index: int) -> List[List[int]]:
    """The two rows of a text, with <s>."""
    return [[BOS, *tokens.tolist()] for tokens in stream.read(index)]


def write_documents(folder: Path, split: str, language: str, rows: Rows) -> None:
    """Monolingual documents as ``fairseq-preprocess --only-source`` writes them, and the dictionary."""
    data_bins.write_side(folder, split, f"{language}-None", language, rows)
    data_bins.write_dictionary(folder, language)


def is_parallel(batch: Dict[str, Any]) -> bool:
    """Kind of a batch."""
    return batch["net_input"]["joint_tokens"] is not None
