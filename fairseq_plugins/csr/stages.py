"""Run both stages in one training: which epochs are restore, and what happens at the switch.

``--restore-updates N``: the first N updates restore, the others translate. The last restore epoch
is cut to end with update N; update N + 1 begins with empty moments of the optimizer.
"""

import logging
from typing import Any, Callable, NamedTuple, Optional, Sequence

from fairseq.data import FairseqDataset

logger = logging.getLogger(__name__)


class Stages(NamedTuple):
    """Tells which epochs belong to the first stage, and how many batches the last of them has."""

    updates: int  # of the first stage, at least 1
    update_freq: Sequence[int]  # batches per update, by epoch; the last holds for all later epochs
    shards: int = 1  # processes that share the batches of an epoch
    # --skip-remainder-batch: fairseq leaves out an epoch's last batch, and a last update that would
    # have fewer batches than the others
    skips_remainder: bool = False

    def batches(self, epoch: int, count_batches: Callable[[int], int]) -> Optional[int]:
        """Count the restore batches of an epoch, for all processes.

        Earlier epochs are counted anew, so that a resumed run needs no state.

        Args:
            epoch: counted from 1.
            count_batches: returns how many batches a whole epoch has.

        Returns:
            A multiple of ``shards``; None = the epoch belongs to the second stage.

        Raises:
            ValueError: an epoch has no update, so that the first stage would never end.
        """
        remaining = self.updates
        for past in range(1, epoch):
            remaining -= self._updates(past, count_batches(past))
            if remaining <= 0:
                return None
        if remaining < self._updates(epoch, count_batches(epoch)):
            batches = remaining * self._update_freq(epoch) + int(self.skips_remainder)
            return batches * self.shards
        # All processes get equally many batches: the remainder of the division is left out.
        return count_batches(epoch) // self.shards * self.shards

    def _update_freq(self, epoch: int) -> int:
        return int(self.update_freq[min(epoch, len(self.update_freq)) - 1])

    def _updates(self, epoch: int, batches: int) -> int:
        """Count the updates of an epoch."""
        per_process, freq = batches // self.shards, self._update_freq(epoch)
        if self.skips_remainder:
            updates = (per_process - 1) // freq
        else:
            updates = -(-per_process // freq)
        if updates < 1:
            raise ValueError(
                f"--restore-updates {self.updates}: an epoch has {per_process} batches for each of "
                f"{self.shards} processes, too few for an update; make batches smaller "
                "(--max-tokens, --batch-size), or --update-freq"
            )
        return updates


class StagedDataset(FairseqDataset):
    """Placeholder for the training set of a run of two stages; holds that of the second stage."""

    def __init__(self, translation: FairseqDataset):
        self.translation = translation

    def __len__(self) -> int:
        return len(self.translation)


class StageSwitch:
    """Resets the optimizer at the switch, and warns if batches and updates disagree."""

    def __init__(self, restore_updates: int):
        self.restore_updates = restore_updates
        self.has_warned = False

    def begin_step(self, is_restore: bool, update_num: int, optimizer: Any) -> None:
        """Reset the optimizer if the second stage begins, and check the stage of a batch.

        The reset is repeated for each batch of the second stage's first update (--update-freq).
        The optimizer makes no step between them, so that this equals one reset, also after a
        resume.

        Args:
            is_restore: True = the batch is of the first stage.
            update_num: updates made so far.
        """
        if update_num == self.restore_updates:
            reset_moments(optimizer.optimizer)
        if is_restore != (update_num < self.restore_updates) and not self.has_warned:
            self.has_warned = True
            stage = "restore" if is_restore else "translation"
            logger.warning(
                f"--restore-updates {self.restore_updates}: update {update_num} is {stage}; "
                "updates were skipped for overflows, or the run was resumed with other batches or "
                "another number of processes"
            )


def reset_moments(optimizer: Any) -> None:
    """Forget a torch optimizer's moments and its count of steps; its options stay as they are."""
    optimizer.state.clear()
    for group in optimizer.param_groups:
        if "step" in group:  # apex counts there
            group["step"] = 0
