"""Draw the texts of an epoch from several streams: shares by temperature, and the draw itself."""

import logging
import math
from collections import OrderedDict
from enum import IntEnum
from typing import Any, List, NamedTuple, Optional, Sequence

import numpy as np
from fairseq.data import SampledMultiDataset
from fairseq.data.multilingual.sampling_method import temperature_sampling

logger = logging.getLogger(__name__)


class Purpose(IntEnum):
    """Draws that happen once per epoch; each has random numbers of its own."""

    TEXTS = 1
    ORDER = 2
    BATCHES = 3


def epoch_rng(seed: int, epoch: int, purpose: Purpose) -> np.random.Generator:
    """Create the generator of a draw that happens once per epoch.

    It has five seeds, so that it never equals the generator of an item's noise, which has four.
    """
    return np.random.default_rng((seed, epoch, 0, 0, int(purpose)))


def sampling_probabilities(
    sizes: Sequence[int],
    temperature: float,
    is_pair: Sequence[bool] = (),
    pair_share: Optional[float] = None,
) -> np.ndarray:
    """Compute the share of each stream in an epoch: p ∝ n^(1/T).

    Args:
        sizes: number of texts of each stream (language or pair); at least one stream.
        temperature: T, at least 1; 1 = natural proportions, infinity = equal shares.
        is_pair: for each stream, True = a pair; read only with ``pair_share``.
        pair_share: total share of the pairs, in [0, 1]; the temperature then acts among the pairs
            and among the languages. None = the share that follows from the sizes.

    Returns:
        (K,) float64 that sum to 1.

    Source: DeltaLM names no sampling for its pre-training (for fine-tuning see
    :class:`TemperatureSchedule`); temperature as in Arivazhagan et al. 2019, α = 1/T of XLM-R and
    mT5.
    """
    weights = np.asarray(temperature_sampling(list(sizes), temperature))
    if pair_share is not None:
        pairs = np.asarray(is_pair, dtype=bool)
        for group, share in ((pairs, pair_share), (~pairs, 1.0 - pair_share)):
            total = max(weights[group].sum(), np.finfo(float).tiny)  # not 0 for an empty group
            weights[group] *= share / total
    return weights / weights.sum()


def draw_texts(
    sizes: Sequence[int], probabilities: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw the texts of an epoch: as many as there are in all, each stream by its share.

    The number of texts of a stream is its share of the epoch, rounded up or down at random so that
    its expectation is the share (systematic sampling). No text is drawn a second time before every
    text of its stream was drawn once. Natural proportions give every text once.

    Args:
        sizes: texts of each stream.
        probabilities: (K,) share of each stream.

    Returns:
        (N,) int64, numbers of texts counted through all streams.
    """
    total = int(sum(sizes))
    # One random offset moves all ends, so each count is its share rounded up or down. np.round:
    # a share of 11.999999999 texts is a share of 12.
    ends = np.floor(np.round(np.cumsum(probabilities) * total, 6) + rng.random()).astype(np.int64)
    counts = np.diff(ends, prepend=0)
    texts: List[np.ndarray] = []
    start = 0
    for size, count in zip(sizes, counts):
        repeats, remainder = divmod(int(count), size)
        texts += [start + np.arange(size)] * repeats
        texts.append(start + rng.choice(size, remainder, replace=False))
        start += size
    return np.concatenate(texts)


# ---- Language pairs at a temperature that changes from epoch to epoch. ----


class TemperatureSchedule(NamedTuple):
    """The sampling temperature as a function of the epoch.

    Source: DeltaLM section 3.2, "the sampling temperature increases from 1.0 to 5.0 gradually";
    linear is ours.
    """

    start: float  # temperature of epoch 1
    end: float  # temperature of epoch ``epochs`` + 1 and of every later one
    epochs: int  # epochs from ``start`` to ``end``, at least 1

    @classmethod
    def parse(
        cls, text: str, option: str = "--sampling-temperature-schedule"
    ) -> "TemperatureSchedule":
        """Read ``START:END:EPOCHS``, as in ``1:5:10``. The temperature may rise or fall."""
        try:
            start, end, epochs = str(text).split(":")
            schedule = cls(float(start), float(end), int(epochs))
            # Below 1 the largest pair gets even more than its share of the data. Refuses nan too.
            is_valid = all(1.0 <= number < math.inf for number in schedule)
        except ValueError:
            is_valid = False
        if not is_valid:
            raise ValueError(
                f"{option} must be START:END:EPOCHS, two temperatures (1 = sizes as they are, "
                "larger = more equal shares) and a whole number, as 1:5:10, each at least 1; got "
                f"{text!r}"
            )
        return schedule

    def at(self, epoch: int) -> float:
        """Return the temperature of an epoch, counted from 1."""
        return self.start + (self.end - self.start) * min((epoch - 1) / self.epochs, 1.0)


class TemperatureDataset(SampledMultiDataset):
    """Draw the sentences of each epoch from several pairs, at the temperature of the epoch.

    The draw is a function of (seed, epoch). fairseq's class keeps the shares of its first epoch.
    With ``--virtual-epoch-size`` it draws once for several epochs, by a seed that depends on the
    epoch in which the process started, so a resumed run differs. Here no sentence is drawn a second
    time before every sentence of its direction was drawn once.

    Args:
        datasets: direction -> its data.
        sizes: sentences of each direction in all of its data, which may be more than what is
            loaded.
        virtual_size: sentences per epoch; None = as many as leave the largest direction at its
            size, at most 1.5 times all.
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
        self.pair_sizes, self.schedule, self.requested_size = list(sizes), schedule, virtual_size
        super().__init__(
            datasets, None, seed=seed, epoch=epoch, split=split, shared_collater=shared_collater
        )

    def set_epoch(self, epoch: int) -> None:
        """Draw the sentences of an epoch, counted from 1, at its temperature."""
        if epoch != self._cur_epoch:
            temperature = self.schedule.at(epoch)
            self.setup_sampling(
                sampling_probabilities(self.pair_sizes, temperature), self.requested_size
            )
            shares = ", ".join(
                f"{key} {share:.4f}" for key, share in zip(self.keys, self.sample_ratios)
            )
            logger.info(
                f"[{self.split}] epoch {epoch}: sampling temperature {temperature:.4g}, "
                f"{len(self)} sentences, probabilities: {shares}"
            )
        super().set_epoch(epoch)

    def random_choice_in_dataset(
        self, rng: np.random.RandomState, dataset: Any, choice_size: int
    ) -> np.ndarray:
        """Draw the sentences of a direction for an epoch. (choice_size,).

        fairseq's method draws with replacement if it needs more sentences than there are.
        """
        repeats, remainder = divmod(int(choice_size), len(dataset))
        every_sentence = np.tile(np.arange(len(dataset)), repeats)
        return np.concatenate([every_sentence, rng.choice(len(dataset), remainder, replace=False)])
