"""Masked texts of two segments for VECO's pre-training, and batches of both kinds in turn."""

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import data_utils
from fairseq.data.iterators import EpochBatchIterator, ShardedIterator
from torch import Tensor

from ..checkpoints.vocabulary import MASK
from ..common.epoch_dataset import StreamDataset
from ..common.sampling import Purpose, draw_texts, epoch_rng
from ..ops.bert_masking import Replacements, choose_tokens, replace_tokens
from ..ops.masks import Places
from .segments import SegmentStream

Batches = List[np.ndarray]
"""Batches, (N,) int64 indices each."""


class MaskedRow(NamedTuple):
    """A segment as the model reads it."""

    tokens: np.ndarray  # (S,) int64, noisy
    target: np.ndarray  # (S,) int64, the original token where it is predicted, padding elsewhere


class VECODataset(StreamDataset):
    """Texts (x, y) of several streams, drawn anew in every epoch and masked on the fly.

    Rows are ``<s> ... </s>``. Special symbols are never masked; at least one token of each segment
    is. A batch is monolingual or parallel. Indices from ``len(self)`` on are the same texts again,
    with other noise.

    Args:
        streams: languages, then pairs; the noise depends on their order.
        dictionary: has the pieces before ``<mask>``; entries after it (symbols of languages) never
            replace a token.
        mask_prob: share of the tokens of a segment that are predicted, in (0, 1].
        probabilities: (K,) share of each language among the languages and of each pair among the
            pairs. An epoch then draws as many texts of each kind as there are, and its batches are
            of both kinds in turn; the smaller kind's are repeated. None = every text once,
            monolingual batches first.

    Attributes:
        first_pair: number of monolingual texts, and so the index of the first pair.
        sizes: (N,) int64, tokens of a text in a batch, as ``--max-tokens`` and
            ``--tokens-per-sample`` count them: twice the longer segment, which pads the other. The
            row of both segments together is never longer.

    Source: VECO section 2.2, "the same mask strategy like BERT".
    """

    def __init__(
        self,
        streams: Sequence[SegmentStream],
        dictionary: Any,
        mask_prob: float,
        seed: int,
        probabilities: Optional[Sequence[float]] = None,
    ):
        parallel = [stream.parallel for stream in streams]
        assert parallel == sorted(parallel), "languages first, then pairs"
        self.languages = parallel.count(False)
        self.first_pair = sum(len(stream) for stream in streams[: self.languages])
        self.mask_prob = mask_prob
        self.pad, self.bos, self.eos = dictionary.pad(), dictionary.bos(), dictionary.eos()
        mask = dictionary.index(MASK)
        self.replacements = Replacements(mask, dictionary.nspecial, mask)
        shares = None if probabilities is None else np.asarray(probabilities, dtype=float)
        sizes = [2 * stream.lengths.max(axis=1) for stream in streams]
        super().__init__(streams, sizes, seed, shares)

    def draw(self, rng: np.random.Generator, probabilities: np.ndarray) -> np.ndarray:
        """Draw the texts of an epoch, each kind by itself, monolingual ones first. (N,) int64."""
        counts = np.diff(self._starts)
        draws = []
        for kind in (slice(0, self.languages), slice(self.languages, len(counts))):
            if len(counts[kind]):
                texts = draw_texts(counts[kind].tolist(), probabilities[kind], rng)
                draws.append(self._starts[kind][0] + texts)
        return np.concatenate(draws)

    def __getitem__(self, index: int) -> Dict[str, Any]:
        number, text = self.place_of(index % len(self))
        stream = self.streams[number]
        rng = np.random.default_rng((self.seed, number, self.epoch, int(index)))
        rows = [self._mask(segment, rng) for segment in stream.read(text)]
        return {
            "id": int(index),
            "parallel": stream.parallel,
            "lengths": [len(row.tokens) for row in rows],
            "tokens": np.concatenate([row.tokens for row in rows]),
            "target": np.concatenate([row.target for row in rows]),
        }

    def _mask(self, segment: np.ndarray, rng: np.random.Generator) -> MaskedRow:
        """Put ``<s>`` before a segment, and mask it as BERT does."""
        tokens = np.concatenate([[self.bos], segment])
        is_maskable = (tokens != self.bos) & (tokens != self.eos)
        predicted = choose_tokens(is_maskable, self.mask_prob, rng)
        noisy = replace_tokens(tokens, predicted, self.replacements, rng)
        return MaskedRow(noisy, np.where(predicted, tokens, self.pad))

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """Make a batch of one kind.

        Returns:
            A batch whose ``net_input`` has ``src_tokens`` (2B, S) int64, right-padded, all first
            segments before all second ones; ``src_lengths`` (2B,); ``masked``, the places in
            (2B, S) that are predicted; ``joint_tokens`` (B, J) int64, ``<s> x </s> </s> y </s>``
            with the same tokens masked, and ``joint_masked``, the places in (B, J), both None in a
            monolingual batch. ``target`` (2B, S) and ``joint_target`` (B, J) or None hold the
            original token where it is predicted, padding elsewhere.
        """
        if not samples:
            return {}
        parallel = samples[0]["parallel"]
        kinds = {sample["parallel"] for sample in samples}
        assert len(kinds) == 1, "a batch is monolingual or parallel"
        flat_tokens = np.concatenate([sample["tokens"] for sample in samples])
        flat_target = np.concatenate([sample["target"] for sample in samples])
        lengths = np.array([sample["lengths"] for sample in samples])  # B 2
        target = self._rows(flat_target, lengths)
        net_input: Dict[str, Any] = {
            "src_tokens": self._rows(flat_tokens, lengths),
            "src_lengths": torch.from_numpy(lengths.T.reshape(-1)),
            "masked": Places.where(target.ne(self.pad)),
            "joint_tokens": None,
            "joint_masked": None,
        }
        joint_target = None
        if parallel:
            joint_lengths = lengths.sum(axis=1, keepdims=True)  # B 1
            joint_tokens = self._rows(flat_tokens, joint_lengths)
            # </s> in the place of the <s> of y.
            joint_tokens[torch.arange(len(samples)), torch.from_numpy(lengths[:, 0])] = self.eos
            joint_target = self._rows(flat_target, joint_lengths)
            net_input["joint_tokens"] = joint_tokens
            net_input["joint_masked"] = Places.where(joint_target.ne(self.pad))
        return {
            "id": torch.tensor([sample["id"] for sample in samples]),
            "nsentences": len(samples),
            "ntokens": int(lengths.sum()),
            "net_input": net_input,
            "target": target,
            "joint_target": joint_target,
        }

    def _rows(self, flat: np.ndarray, lengths: np.ndarray) -> Tensor:
        """Pad rows that lie one after another: K rows of each of B texts.

        Args:
            flat: the rows, text by text.
            lengths: (B, K) int64.

        Returns:
            (K B, S) int64: the first rows of all texts, then their second rows, and so on.
        """
        rows = np.full((*lengths.shape, int(lengths.max())), self.pad, dtype=np.int64)
        rows[np.arange(rows.shape[2]) < lengths[:, :, None]] = flat
        return torch.from_numpy(rows.transpose(1, 0, 2).reshape(-1, rows.shape[2]))

    # ---- Batches of one kind. ----

    @property
    def kinds(self) -> int:
        """Number of kinds of batches that take turns: 2 if both are sampled, else 1."""
        return 2 if self.probabilities is not None and 0 < self.first_pair < len(self) else 1

    def filter_indices_by_size(
        self, indices: np.ndarray, max_sizes: Any
    ) -> Tuple[np.ndarray, List[int]]:
        """Split indices into texts that fit every limit and longer ones."""
        limits = max_sizes if isinstance(max_sizes, (list, tuple)) else [max_sizes]
        limit = min((limit for limit in limits if limit is not None), default=np.inf)
        fits = self.sizes[indices] <= limit
        return indices[fits], indices[~fits].tolist()

    def batch_by_size(self, indices: np.ndarray, *limits: Any, **options: Any) -> Batches:
        """Make batches of one kind each: in turn if the epoch is sampled, else languages first.

        Raises:
            ValueError: all texts of a kind are too long.
        """
        is_pair = indices >= self.first_pair
        kinds: List[Batches] = []
        for texts in (indices[~is_pair], indices[is_pair]):
            kinds.append(super().batch_by_size(texts, *limits, **options) if len(texts) else [])
        if self.kinds == 1:
            return [*kinds[0], *kinds[1]]
        for option, batches in zip(("--monolingual", "--pairs"), kinds):
            if not len(batches):
                raise ValueError(
                    f"{option}: no text fits into --tokens-per-sample, --max-tokens and the "
                    f"positions of the model; raise them or leave {option} empty"
                )
        return take_turns(kinds, len(self), epoch_rng(self.seed, self.epoch, Purpose.BATCHES))


# ---- Batches in turn. ----


def take_turns(kinds: Sequence[Batches], items: int, rng: np.random.Generator) -> Batches:
    """Order batches in turn: the first of each kind, the second of each kind, and so on.

    A smaller kind is repeated until it has as many batches as the largest: in whole rounds over all
    its batches, then by a random choice of them. Each round raises the indices by ``items``, so
    that repeated texts get other noise.

    Args:
        kinds: batches of each kind, at least one each.
        items: length of the dataset.
    """
    count = max(len(batches) for batches in kinds)
    turns: List[Batches] = []
    for batches in kinds:
        rounds, remainder = divmod(count, len(batches))
        choice = sorted(rng.permutation(len(batches))[:remainder].tolist())
        uses = [(number, times) for times in range(rounds) for number in range(len(batches))]
        uses += [(number, rounds) for number in choice]
        turns.append([np.asarray(batches[number]) + times * items for number, times in uses])
    return [batch for turn in zip(*turns) for batch in turn]


class AlternatingIterator(EpochBatchIterator):
    """fairseq's iterator, with a shuffle that keeps the kinds in turn.

    Stock shuffles all batches of an epoch. Here the batches of each kind are shuffled among
    themselves. As in stock, ranks then get batches in turn, so that an update of two ranks sees
    both kinds.

    Attributes:
        kinds: batch i is of kind i % kinds.
    """

    kinds = 1

    @classmethod
    def wrap(cls, stock: EpochBatchIterator, kinds: int) -> "AlternatingIterator":
        """Copy an unused iterator: same batches, seed, shard and workers."""
        iterator = cls.__new__(cls)
        iterator.__dict__.update(vars(stock))
        iterator.kinds = kinds
        return iterator

    def ordered_batches(self, epoch: int, fix_batches_to_gpus: bool, shuffle: bool) -> List[Any]:
        """Order the batches of this shard; a function of (seed, epoch).

        With ``--grouped-shuffling`` groups of neighbouring batches are shuffled. A group has as
        many batches as there are shards, or twice as many if that number is odd, so that both
        kinds are equally frequent in it. ``fix_batches_to_gpus`` has no effect.
        """
        batches = list(self.frozen_batches)
        if shuffle:
            with data_utils.numpy_seed(self.seed + epoch):
                if self.grouped_shuffling:
                    batches = self._shuffle_groups(batches)
                else:
                    batches = self._shuffle_within_kinds(batches)
        return list(ShardedIterator(batches, self.num_shards, self.shard_id, fill_value=[]))

    def _shuffle_within_kinds(self, batches: Batches) -> Batches:
        """Shuffle the batches of each kind among their own places."""
        shuffled: Batches = list(batches)
        for kind in range(self.kinds):
            kind_batches = batches[kind :: self.kinds]
            order = np.random.permutation(len(kind_batches))
            shuffled[kind :: self.kinds] = [kind_batches[place] for place in order]
        return shuffled

    def _shuffle_groups(self, batches: Batches) -> Batches:
        """Shuffle groups of neighbouring batches; an incomplete group stays at the end."""
        size = math.lcm(self.num_shards, self.kinds)
        count = len(batches) // size
        groups = [
            batches[place * size : (place + 1) * size] for place in np.random.permutation(count)
        ]
        shuffled = [batch for group in groups for batch in group]
        return [*shuffled, *batches[count * size :]]
