"""Task ``tlm_pretraining``: masked LM on sentences (MLM) and on pairs (TLM)."""

import glob
import logging
import os
from dataclasses import dataclass
from typing import Any, List

import numpy as np
from fairseq.tasks import register_task

from ..common.data_bins import check_names, split_names
from ..common.epoch_dataset import JoinedDataset
from ..common.options import check_range, option
from ..common.shared_dictionary import SharedDictionaryConfig, SharedDictionaryTask
from .dataset import MaskingConfig, TLMDataset

logger = logging.getLogger(__name__)


@dataclass
class TLMPretrainingConfig(SharedDictionaryConfig):
    """Options of MLM + TLM pre-training; ``--pairs`` are needed."""

    mask_prob: float = option(0.15, "share of tokens predicted, in (0, 1]")
    one_side_prob: float = option(
        0.0,
        "probability, in [0, 1], that a pair is masked on one side only, at a ratio from "
        "U(mask_prob, 1)",
    )
    tokens_per_sample: int = option(512, "longest input in tokens; longer pairs are left out")


@register_task("tlm_pretraining", dataclass=TLMPretrainingConfig)
class TLMPretrainingTask(SharedDictionaryTask):
    """MLM + TLM over several languages with one dictionary, whose last entry is ``<mask>``."""

    criterions = ("masked_lm",)

    @classmethod
    def setup_task(cls, cfg: TLMPretrainingConfig, **kwargs: Any) -> "TLMPretrainingTask":
        """Check the options, and read the dictionary of all languages."""
        check_range(cfg, "(0, 1]", "mask_prob")
        check_range(cfg, "[0, 1]", "one_side_prob")
        pairs = split_names(cfg.pairs)
        if not pairs:
            raise ValueError(
                "--pairs needs at least one pair, for example en-de (monolingual text is read from "
                "the pairs too)"
            )
        check_names(pairs, split_names(cfg.monolingual))
        return cls(cfg, cls.read_masked_dictionary(cfg))

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """Build the split: one dataset per pair and per monolingual language, concatenated.

        The number of a dataset (``stream``) seeds its noise together with the line.
        """
        texts = [(pair, self.sides(split, pair, epoch)) for pair in self.pairs]
        texts += [(language, [self.text(split, language, epoch)]) for language in self.languages]
        cfg, datasets = self.cfg, []
        for stream, (name, sides) in enumerate(texts):
            masking = MaskingConfig(cfg.mask_prob, cfg.one_side_prob, cfg.seed, stream)
            sizes = [side.sizes for side in sides]
            dataset = TLMDataset(sides, sizes, self.dictionary, masking)
            count, tokens = len(dataset), int(dataset.sizes.sum())
            logger.info("%s %s: %d items, %d tokens", split, name, count, tokens)
            datasets.append(dataset)
        self.datasets[split] = _InFileOrder(datasets, self.cfg.seed)

    def pairs_with_text(self, prefix: str, language: str) -> List[str]:
        """List the pairs of ``--pairs``, then all others in the data-bin that have the language."""
        files = sorted(glob.glob(f"{glob.escape(prefix)}.*-*.{glob.escape(language)}.idx"))
        pairs = list(self.pairs)
        for file in files:  # as train.en-de.de.idx
            name = os.path.basename(file).removeprefix(f"{os.path.basename(prefix)}.")
            pairs.append(name.removesuffix(f".{language}.idx"))
        return pairs

    def max_positions(self) -> int:
        """Return the longest input in tokens."""
        return self.cfg.tokens_per_sample


class _InFileOrder(JoinedDataset):
    """Join datasets in one order for all epochs. The trainer shuffles only whole batches."""

    def permutation(self) -> np.ndarray:
        """Keep the order of the files. (N,)."""
        return np.arange(len(self))
