"""Task ``tlm_pretraining``: masked LM (MLM) on sentences and translation LM (TLM) on pairs, from stock data-bins."""

import glob
import logging
import os
from dataclasses import dataclass
from typing import Any, List

import numpy as np
from fairseq.data import ConcatDataset
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import register_task
from omegaconf import II, MISSING

from ..data.data_bins import load_monolingual, load_pair_side
from ..data.epoch_dataset import EpochDataset
from ..data.stream_names import check_names, split_names
from ..data.tlm_dataset import MaskingConfig, TLMDataset
from ..options import check_range, option
from .common.shared_dictionary import SharedDictionaryTask

logger = logging.getLogger(__name__)


@dataclass
class TLMPretrainingConfig(FairseqDataclass):
    """Options of MLM + TLM pre-training."""

    data: str = option(MISSING, "folder made by fairseq-preprocess, with dict.<lang>.txt")
    pairs: str = option("", "pairs trained with TLM, for example en-de,en-fr")
    monolingual: str = option("", "languages trained with MLM, for example en,de,fr; --pairs need not have them")
    mask_prob: float = option(0.15, "share of tokens predicted, in (0, 1]")
    one_side_prob: float = option(
        0.0, "probability, in [0, 1], that a pair is masked on one side only, at a ratio from U(mask_prob, 1)"
    )
    tokens_per_sample: int = option(512, "longest input in tokens; longer pairs are left out")
    seed: int = II("common.seed")


@register_task("tlm_pretraining", dataclass=TLMPretrainingConfig)
class TLMPretrainingTask(SharedDictionaryTask):
    """MLM + TLM over several languages with one shared dictionary, whose last entry is ``<mask>``."""

    criterions = ("masked_lm",)

    @classmethod
    def setup_task(cls, cfg: TLMPretrainingConfig, **kwargs: Any) -> "TLMPretrainingTask":
        """Check the options and read the dictionary."""
        check_range(cfg, "(0, 1]", "mask_prob")
        check_range(cfg, "[0, 1]", "one_side_prob")
        pairs = split_names(cfg.pairs)
        if not pairs:
            raise ValueError(
                "--pairs needs at least one pair, for example en-de (monolingual text is read from the pairs too)"
            )
        check_names(pairs, split_names(cfg.monolingual))
        known = {language for pair in pairs for language in pair.split("-")}
        for language in sorted(set(split_names(cfg.monolingual)) - known):
            if not glob.glob(os.path.join(glob.escape(cfg.data), f"*.{glob.escape(language)}.idx")):
                raise ValueError(
                    f"--monolingual {language}: no text in {cfg.data}, neither of --pairs ({sorted(known)}) nor of another pair or "
                    "of fairseq-preprocess --only-source"
                )
        dictionary = cls.read_dictionary(cfg)
        dictionary.add_symbol("<mask>")
        logger.info("dictionary: %d types with <mask>", len(dictionary))
        return cls(cfg, dictionary)

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Build the split: one dataset per pair and per monolingual language, concatenated."""
        masking = MaskingConfig(self.cfg.mask_prob, self.cfg.one_side_prob, self.cfg.seed)
        datasets: List[TLMDataset] = []
        for name in [*self.pairs, *self.languages]:
            sides = self.sides(split, name) if len(datasets) < len(self.pairs) else [self._text(split, name)]
            numbered = masking._replace(stream=len(datasets))
            datasets.append(TLMDataset(sides, [side.sizes for side in sides], self.dictionary, numbered))
            logger.info("%s %s: %d items, %d tokens", split, name, len(datasets[-1]), int(datasets[-1].sizes.sum()))
        self.datasets[split] = _EpochConcatDataset(datasets)

    def _text(self, split: str, language: str) -> Any:
        """Text of a language: a side of the first of ``--pairs`` that has it; without one, text by itself or of any other pair."""
        prefix = self.prefix(split)
        pair = next((pair for pair in self.pairs if language in pair.split("-")), None)
        if pair is not None:
            return load_pair_side(prefix, pair, language, self.dictionary, "--pairs")
        start = len(os.path.basename(prefix)) + 1
        files = sorted(glob.glob(f"{glob.escape(prefix)}.*-*.{glob.escape(language)}.idx"))
        others = [os.path.basename(file)[start : -len(f".{language}.idx")] for file in files]
        return load_monolingual(prefix, language, others, self.dictionary, "--monolingual")

    def max_positions(self) -> int:
        """Longest input in tokens, ``<s>`` and ``</s>`` counted."""
        return self.cfg.tokens_per_sample


class _EpochConcatDataset(EpochDataset, ConcatDataset):
    """fairseq's ConcatDataset with sizes as one array and batches of similar length."""

    sizes: Any = None

    def __init__(self, datasets: List[TLMDataset]):
        ConcatDataset.__init__(self, datasets)
        self.sizes = np.concatenate([dataset.sizes for dataset in datasets])

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Batches are the same in every epoch; only their order differs."""
        return True

    def permutation(self) -> np.ndarray:
        """Items as they are: the trainer shuffles the batches. (N,)."""
        return np.arange(len(self))

    def collater(self, samples: List[Any], **extra: Any) -> Any:
        """All parts share one collater."""
        return self.datasets[0].collater(samples)
