"""Two stages in one run: which epochs are restore, and how many batches the last of them has."""

from typing import Callable, NamedTuple, Optional, Sequence

from fairseq.data import FairseqDataset


class Stages(NamedTuple):
    """When the first stage ends.

    Attributes:
        updates: of the first stage; at least 1.
        update_freq: batches of an update, by epoch; the last counts for all epochs behind.
        shards: processes that share the batches of an epoch.
        skips_remainder: ``--skip-remainder-batch``: an epoch's last batch is left out, and updates of fewer batches.
    """

    updates: int
    update_freq: Sequence[int]
    shards: int = 1
    skips_remainder: bool = False

    def batches(self, epoch: int, of_epoch: Callable[[int], int]) -> Optional[int]:
        """Batches of the first stage in an epoch: a whole number a process; None = the epoch is of the second stage.

        It is a function of the epoch, so that a resumed run needs to know nothing else.

        Args:
            epoch: from 1.
            of_epoch: epoch -> batches of all processes that it would have.

        Raises:
            ValueError: an epoch makes no update, so that the first stage would never end.
        """
        done = 0
        for past in range(1, epoch):
            done += self._updates(past, of_epoch(past))
            if done >= self.updates:
                return None
        left, here = self.updates - done, self._updates(epoch, of_epoch(epoch))
        if left < here:
            return (left * self._update_freq(epoch) + int(self.skips_remainder)) * self.shards
        return self._for_each(of_epoch(epoch)) * self.shards

    def _update_freq(self, epoch: int) -> int:
        return int(self.update_freq[min(epoch, len(self.update_freq)) - 1])

    def _for_each(self, batches: int) -> int:
        """Batches of a process; what is left when they are dealt out is left out, so that all have as many."""
        return batches // self.shards

    def _updates(self, epoch: int, batches: int) -> int:
        batches, freq = self._for_each(batches), self._update_freq(epoch)
        updates = (batches - 1) // freq if self.skips_remainder else -(-batches // freq)
        if updates < 1:
            raise ValueError(
                f"--restore-updates {self.updates}: an epoch has {batches} batches for each of {self.shards} processes, too few "
                "for an update; make batches smaller (--max-tokens, --batch-size), or --update-freq"
            )
        return updates


class StagedDataset(FairseqDataset):
    """Stands for the training set of a run of two stages; the task makes every epoch's batches from one of the two.

    Args:
        translation: training set of the second stage.
    """

    def __init__(self, translation: FairseqDataset):
        self.translation = translation

    def __len__(self) -> int:
        return len(self.translation)
