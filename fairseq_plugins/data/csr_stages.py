"""Two stages in one run: which epochs are restore, and how many batches the last of them has."""

from typing import Callable, NamedTuple, Optional, Sequence

from fairseq.data import FairseqDataset


class Stages(NamedTuple):
    """When the first stage ends."""

    updates: int  # of the first stage; at least 1
    update_freq: Sequence[int]  # batches of an update, by epoch; the last counts for all epochs behind
    shards: int = 1  # processes that share the batches of an epoch
    # ``--skip-remainder-batch``: an epoch's last batch is left out, and updates of fewer batches
    skips_remainder: bool = False

    def batches(self, epoch: int, of_epoch: Callable[[int], int]) -> Optional[int]:
        """Batches of the first stage in an epoch, a multiple of the processes; None = the epoch is of the second stage.

        It is a function of the epoch (from 1), so that a resumed run needs to know nothing else. ``of_epoch`` tells how many
        batches an epoch would have. An epoch without an update is refused: the first stage would never end.
        """
        done = 0
        for past in range(1, epoch):
            done += self._updates(past, of_epoch(past))
            if done >= self.updates:
                return None
        left, here = self.updates - done, self._updates(epoch, of_epoch(epoch))
        if left < here:
            return (left * self._update_freq(epoch) + int(self.skips_remainder)) * self.shards
        # What is left when batches are dealt out is left out, so that all processes have as many.
        return of_epoch(epoch) // self.shards * self.shards

    def _update_freq(self, epoch: int) -> int:
        return int(self.update_freq[min(epoch, len(self.update_freq)) - 1])

    def _updates(self, epoch: int, batches: int) -> int:
        batches, freq = batches // self.shards, self._update_freq(epoch)
        updates = (batches - 1) // freq if self.skips_remainder else -(-batches // freq)
        if updates < 1:
            raise ValueError(
                f"--restore-updates {self.updates}: an epoch has {batches} batches for each of {self.shards} processes, too few "
                "for an update; make batches smaller (--max-tokens, --batch-size), or --update-freq"
            )
        return updates


class StagedDataset(FairseqDataset):
    """Stands for the training set of a run of two stages; ``translation`` is that of the second."""

    def __init__(self, translation: FairseqDataset):
        self.translation = translation

    def __len__(self) -> int:
        return len(self.translation)
