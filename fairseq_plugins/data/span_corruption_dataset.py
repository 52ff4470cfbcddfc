"""Texts with corrupted spans, for pre-training an encoder-decoder on several languages and pairs."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import data_utils
from fairseq.data.language_pair_dataset import collate

from ..common.epoch_dataset import StreamDataset
from ..ops.spans import corrupt_spans, count_spans, draw_span_mask
from .text_streams import TextStream


class SpanCorruption(NamedTuple):
    """How texts are corrupted; the ratio is the stream's."""

    mean_span: float  # mean length of a span in tokens, at least 1
    sentinels: Sequence[int]  # ids of the sentinels, in order of use
    seed: int  # noise is a function of (seed, stream, epoch, index)
    target_sentinels: bool = True  # False leaves the sentinels out of the targets


class SpanCorruptionDataset(StreamDataset):
    """Several streams of texts, drawn anew in every epoch and corrupted on the fly.

    Source and target end with ``</s>``. A text that is drawn twice in an epoch is corrupted in two ways, because noise depends on
    the place in the epoch; with natural proportions every text has one place.

    For the arguments see :class:`StreamDataset`. ``sizes`` is (N, 2) int64: the uncorrupted text with all its ``</s>``, which is
    what ``--tokens-per-sample`` limits and no source is longer than; and the longest its target can be, at most one token more.
    """

    def __init__(
        self,
        streams: Sequence[TextStream],
        dictionary: Any,
        corruption: SpanCorruption,
        probabilities: Optional[np.ndarray] = None,
    ):
        self.corruption = corruption
        self.pad, self.eos = dictionary.pad(), dictionary.eos()
        sizes, lengths = zip(*(self._bounds(stream) for stream in streams))
        self._lengths = np.concatenate(lengths)
        super().__init__(streams, sizes, corruption.seed, probabilities)

    def _bounds(self, stream: TextStream) -> Tuple[np.ndarray, np.ndarray]:
        """``sizes`` of a stream's texts, and the longest that source or target can be."""
        noise, spans = count_spans(stream.tokens, stream.ratio, self.corruption.mean_span)
        spans = np.minimum(spans + stream.separators, noise)
        whole = stream.tokens + stream.separators + 1
        target = noise + 1 + (spans if self.corruption.target_sentinels else 0)
        return np.stack([whole, target], axis=1), np.maximum(whole - noise + spans, target)

    def __getitem__(self, index: int) -> Dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} of {len(self)}")
        return self.repeated(index, 0)

    def repeated(self, index: int, times: int) -> Dict[str, Any]:
        """An item after it was used so many times in this epoch: the same text with other noise."""
        number, text = self.place_of(index)
        stream, place = self.streams[number], int(index) + times * len(self)
        rng = np.random.default_rng((self.seed, number, self.epoch, place))
        tokens, ends = stream.read(text, rng)
        free = np.ones(len(tokens), dtype=bool)
        free[ends] = False
        mask = np.zeros(len(tokens), dtype=bool)
        # A span that meets a </s> goes on behind it, as two spans.
        mask[free] = draw_span_mask(int(free.sum()), stream.ratio, self.corruption.mean_span, rng)
        source, target = corrupt_spans(tokens, mask, self.corruption.sentinels, self.corruption.target_sentinels)
        return {
            "id": index,
            "source": torch.from_numpy(source),
            "target": torch.from_numpy(np.append(target, self.eos)),
        }

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """fairseq's batch of a translation task, padded on the right; the decoder's input begins with ``</s>``."""
        return collate(samples, self.pad, self.eos, left_pad_source=False, left_pad_target=False)

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        """The longest that source or target can be. (N,) int64.

        Exact but for spans that meet a ``</s>`` between two sentences: each adds one to both, and all are counted here.
        """
        return self._lengths[self._drawn[indices]]

    def size(self, index: int) -> Tuple[int, int]:
        whole, target = self.sizes[index]
        return int(whole), int(target)

    def filter_indices_by_size(self, indices: np.ndarray, max_sizes: Any) -> Tuple[np.ndarray, List[int]]:
        """Leave out what is longer than (source, target) or a single limit; returns what stays and what goes."""
        return data_utils.filter_paired_dataset_indices_by_size(self.sizes[:, 0], self.sizes[:, 1], indices, max_sizes)
