"""Language pairs sampled at a temperature that changes from epoch to epoch."""

import logging
import math
from collections import OrderedDict
from typing import Any, NamedTuple, Optional, Sequence

import numpy as np
from fairseq.data import SampledMultiDataset

from .sampling import sampling_probabilities

logger = logging.getLogger(__name__)


class TemperatureSchedule(NamedTuple):
    """The sampling temperature as a function of the epoch.

    Source: DeltaLM section 3.2, "the sampling temperature increases from 1.0 to 5.0 gradually"; linear is ours.
    """

    start: float  # temperature of epoch 1
    end: float  # temperature of epoch ``epochs`` + 1 and of every later one
    epochs: int  # how many epochs the way from start to end takes, at least 1

    @classmethod
    def parse(cls, text: str, option: str = "--sampling-temperature-schedule") -> "TemperatureSchedule":
        """Read ``START:END:EPOCHS``, as in ``1:5:10``. The temperature may rise or fall."""
        start, end, epochs = (*str(text).split(":"), "", "")[:3]
        try:
            schedule = cls(float(start), float(end), int(epochs))
        except ValueError:
            schedule = cls(0.0, 0.0, 0)
        # Below 1 the largest pair gets even more than its share of the data. This also refuses nan.
        if text.count(":") != 2 or not all(1.0 <= value < math.inf for value in schedule):
            raise ValueError(
                f"{option} must be START:END:EPOCHS, two temperatures (1 = sizes as they are, larger = more equal shares) and a "
                f"whole number, as 1:5:10, each at least 1; got {text!r}"
            )
        return schedule

    def at(self, epoch: int) -> float:
        """Temperature of an epoch, counted from 1; it depends on nothing else."""
        return self.start + (self.end - self.start) * min((epoch - 1) / self.epochs, 1.0)


class TemperatureDataset(SampledMultiDataset):
    """fairseq's sampled pairs, drawn anew for every epoch at the temperature of that epoch.

    fairseq's class keeps the ratios it was made with; with ``--virtual-epoch-size`` it draws once for several epochs, from a seed
    that depends on the epoch in which the process started. Here everything is a function of (seed, epoch). A direction that is
    drawn more often than it has sentences gives every sentence before any of them again.

    Args:
        sizes: sentences of each direction in all of its data, which may be more than what is loaded.
        virtual_size: sentences per epoch; None = as many as leave the largest direction at its size, at most 1.5 times all.
    """

    def __init__(
        self,
        datasets: "OrderedDict[str, Any]",
        sizes: Sequence[int],
        schedule: TemperatureSchedule,
        seed: int,
        epoch: int = 1,
        virtual_size: Optional[int] = None,
        split: str = "train",
        shared_collater: bool = True,
    ):
        self.pair_sizes, self.schedule, self.wanted_size = list(sizes), schedule, virtual_size
        super().__init__(datasets, None, seed=seed, epoch=epoch, split=split, shared_collater=shared_collater)

    def set_epoch(self, epoch: int) -> None:
        if epoch != self._cur_epoch:
            temperature = self.schedule.at(epoch)
            self.setup_sampling(sampling_probabilities(self.pair_sizes, temperature), self.wanted_size)
            shares = ", ".join(f"{key} {share:.4f}" for key, share in zip(self.keys, self.sample_ratios))
            logger.info(
                f"[{self.split}] epoch {epoch}: sampling temperature {temperature:.4g}, {len(self)} sentences, "
                f"probabilities: {shares}"
            )
        super().set_epoch(epoch)

    def random_choice_in_dataset(self, rng: np.random.RandomState, dataset: Any, choice_size: int) -> np.ndarray:
        """Which sentences of a direction an epoch holds. (choice_size,) int64."""
        times, rest = divmod(int(choice_size), len(dataset))
        whole = np.tile(np.arange(len(dataset)), times)
        return np.concatenate([whole, rng.choice(len(dataset), rest, replace=False)])
