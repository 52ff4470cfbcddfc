"""Several languages' data in one run, sampled by temperature: translate-train-all."""

import logging
from bisect import bisect_right
from typing import Any, Dict, List, Mapping

import numpy as np

from .epoch_dataset import EpochDataset
from .stream_sampling import Purpose, draw_texts, epoch_rng, sampling_probabilities

logger = logging.getLogger(__name__)


class LanguageMixture(EpochDataset):
    """As many items an epoch as all parts have together, each part by its share p ∝ n^(1/T).

    Which items an epoch holds is a function of (seed, epoch). A batch may hold several languages.

    Args:
        parts: name -> dataset with ``sizes``; at least one, and all collated alike.
        temperature: T, at least 1; 1 = natural proportions, every item once an epoch; infinity = equal shares.

    Source: XGLUE and XTREME, "translate-train-all"; the temperature as in Arivazhagan et al. 2019.
    """

    def __init__(self, parts: Mapping[str, Any], temperature: float, seed: int):
        empty = [name for name, part in parts.items() if not len(part)]
        if empty:
            raise ValueError(f"{', '.join(empty)}: no rows; leave it out of --train-subset")
        self.names, self.parts, self.seed = list(parts), list(parts.values()), seed
        self.ends: List[int] = np.cumsum([len(part) for part in self.parts]).tolist()
        counts = [len(part) for part in self.parts]
        self.probabilities = sampling_probabilities(counts, temperature)
        shares = ", ".join(f"{name} {share:.4f}" for name, share in zip(self.names, self.probabilities))
        logger.info(f"sampling temperature {temperature:g}: {shares}")
        self.all_sizes = np.concatenate([part.sizes for part in self.parts])
        self.epoch = 0
        self.set_epoch(1)

    def set_epoch(self, epoch: int) -> None:
        """Draw the items of an epoch, unless they are those at hand."""
        for part in self.parts:
            part.set_epoch(epoch)
        if epoch != self.epoch:
            rng = epoch_rng(self.seed, epoch, Purpose.TEXTS)
            self.drawn = draw_texts([len(part) for part in self.parts], self.probabilities, rng)
            self.sizes = self.all_sizes[self.drawn]
            self.epoch = epoch

    def __len__(self) -> int:
        return len(self.drawn)

    def __getitem__(self, index: int) -> Dict[str, Any]:
        number = int(self.drawn[index])
        part = bisect_right(self.ends, number)
        start = self.ends[part - 1] if part else 0
        return {**self.parts[part][number - start], "id": int(index)}

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """All parts share one collater."""
        return self.parts[0].collater(samples)
