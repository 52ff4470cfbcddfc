"""Several languages' data in one run, sampled by temperature: translate-train-all."""

import logging
from typing import Any, Mapping

from ..common.epoch_dataset import EpochDataset, JoinedDataset
from ..common.sampling import sampling_probabilities

logger = logging.getLogger(__name__)


class LanguageMixture(JoinedDataset):
    """As many items per epoch as all parts have together, each part by its share p ∝ n^(1/T).

    Which items an epoch holds is a function of (seed, epoch). A batch may hold several languages.

    ``parts``: name -> dataset with ``sizes``; at least one, and all collated alike. ``temperature``: T, at least 1; 1 = natural
    proportions, every item once per epoch; infinity = equal shares.

    Source: XGLUE and XTREME, "translate-train-all"; the temperature as in Arivazhagan et al. 2019.
    """

    permutation = EpochDataset.permutation

    def __init__(self, parts: Mapping[str, Any], temperature: float, seed: int):
        empty = [name for name, part in parts.items() if not len(part)]
        if empty:
            raise ValueError(f"{', '.join(empty)}: no rows; leave it out of --train-subset")
        probabilities = sampling_probabilities([len(part) for part in parts.values()], temperature)
        shares = ", ".join(f"{name} {share:.4f}" for name, share in zip(parts, probabilities))
        logger.info(f"sampling temperature {temperature:g}: {shares}")
        super().__init__(list(parts.values()), seed, probabilities)
