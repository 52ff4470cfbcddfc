"""Batches of several kinds that take turns through the whole of an epoch."""

import copy
import math
from typing import Any, List, Sequence

import numpy as np
from fairseq.data import data_utils
from fairseq.data.iterators import EpochBatchIterator, ShardedIterator

Batches = List[np.ndarray]


def take_turns(kinds: Sequence[Sequence[Any]], items: int, rng: np.random.Generator) -> Batches:
    """As many batches of each kind as the largest has: the first of each kind, the second of each kind, and so on.

    Batches of a smaller kind are used again, all of them before any a third time; those of a last, incomplete round are drawn.
    Each time the indices of such a batch are raised by ``items``, the length of the dataset, for noise of its own.

    ``kinds`` are the batches of each kind, (N,) int64 indices each; at least one per kind.
    """
    count = max(len(batches) for batches in kinds)
    turns: List[Batches] = []
    for batches in kinds:
        rounds, rest = divmod(count, len(batches))
        last = sorted(rng.permutation(len(batches))[:rest].tolist())
        used = [(number, times) for times in range(rounds) for number in range(len(batches))]
        used += [(number, rounds) for number in last]
        turns.append([np.asarray(batches[number]) + times * items for number, times in used])
    return [batch for turn in zip(*turns) for batch in turn]


class AlternatingIterator(EpochBatchIterator):
    """fairseq's iterator, whose shuffling leaves every batch in a place of its kind.

    Stock shuffles all batches of an epoch, also after a restart in the middle of one. Here the batches of each kind are shuffled
    among themselves; ranks are then dealt batches in turn, as in stock, so that an update of two ranks sees both kinds.
    """

    kinds = 1  # batch i is of kind i % kinds

    @classmethod
    def of(cls, stock: EpochBatchIterator, kinds: int) -> "AlternatingIterator":
        """The same batches, seed, shard and workers as a stock iterator that was not used yet."""
        alternating = copy.copy(stock)
        alternating.__class__, alternating.kinds = cls, kinds
        return alternating

    def ordered_batches(self, epoch: int, fix_batches_to_gpus: bool, shuffle: bool) -> List[Sequence[int]]:
        """The batches of this shard in their order; a function of (seed, epoch). ``fix_batches_to_gpus`` has no effect here.

        With ``--grouped-shuffling`` whole updates are shuffled: as many neighbouring batches as there are shards, or twice as many
        where their number is odd.
        """
        batches = list(self.frozen_batches)
        if shuffle:
            with data_utils.numpy_seed(self.seed + epoch):
                batches = self._in_groups(batches) if self.grouped_shuffling else self._within_kinds(batches)
        return list(ShardedIterator(batches, self.num_shards, self.shard_id, fill_value=[]))

    def _within_kinds(self, batches: Batches) -> Batches:
        shuffled: Batches = list(batches)
        for kind in range(self.kinds):
            own = batches[kind :: self.kinds]
            shuffled[kind :: self.kinds] = [own[place] for place in np.random.permutation(len(own))]
        return shuffled

    def _in_groups(self, batches: Batches) -> Batches:
        size = self.num_shards * self.kinds // math.gcd(self.num_shards, self.kinds)
        whole = len(batches) // size
        order = np.random.permutation(whole)
        groups = [batches[place * size : (place + 1) * size] for place in order]
        return [*(batch for group in groups for batch in group), *batches[whole * size :]]
