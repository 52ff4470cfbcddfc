"""Task ``tlm_pretraining``: masked LM (MLM) on sentences and translation LM (TLM) on pairs, from stock data-bins."""

import glob
import logging
import os
from dataclasses import dataclass, field
from typing import Any, List, Optional

import numpy as np
from fairseq.data import ConcatDataset, Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import register_task
from omegaconf import II, MISSING

from ..data.data_bins import check_dictionaries, load_monolingual, load_pair_side
from ..data.tlm_dataset import MaskingConfig, TLMDataset
from .own_run import OwnRun

logger = logging.getLogger(__name__)


@dataclass
class TLMPretrainingConfig(FairseqDataclass):
    """Options of MLM + TLM pre-training."""

    data: str = field(default=MISSING, metadata={"help": "folder made by fairseq-preprocess, with dict.<lang>.txt"})
    pairs: str = field(default="", metadata={"help": "pairs trained with TLM, for example en-de,en-fr"})
    monolingual: str = field(
        default="", metadata={"help": "languages trained with MLM, for example en,de,fr; --pairs need not have them"}
    )
    mask_prob: float = field(default=0.15, metadata={"help": "share of tokens predicted, in (0, 1]"})
    one_side_prob: float = field(
        default=0.0,
        metadata={
            "help": "probability, in [0, 1], that a pair is masked on one side only, at a ratio from U(mask_prob, 1)"
        },
    )
    tokens_per_sample: int = field(default=512, metadata={"help": "longest input in tokens; longer pairs are left out"})
    seed: int = II("common.seed")


def _check_share(name: str, value: float, low_open: bool) -> None:
    if not (0.0 <= value <= 1.0) or (low_open and value == 0.0):
        raise ValueError(f"--{name} must lie in {'(0, 1]' if low_open else '[0, 1]'}; got {value}")


@register_task("tlm_pretraining", dataclass=TLMPretrainingConfig)
class TLMPretrainingTask(OwnRun):
    """MLM + TLM over several languages with one shared dictionary.

    The data-bin is what ``fairseq-preprocess`` makes for each pair, in one folder: ``train.en-de.en.bin`` and so on.
    """

    criterions = ("masked_lm",)

    def __init__(self, cfg: TLMPretrainingConfig, dictionary: Dictionary):
        super().__init__(cfg)
        self.dictionary = dictionary

    @classmethod
    def setup_task(cls, cfg: TLMPretrainingConfig, **kwargs: Any) -> "TLMPretrainingTask":
        """Check the options and read the dictionary.

        Raises:
            ValueError: neither pairs nor languages given, a malformed pair, a ratio out of range, no dictionary.
        """
        _check_share("mask-prob", cfg.mask_prob, low_open=True)
        _check_share("one-side-prob", cfg.one_side_prob, low_open=False)
        pairs = [pair for pair in cfg.pairs.split(",") if pair]
        languages = [language for language in cfg.monolingual.split(",") if language]
        if not pairs:
            raise ValueError(
                "--pairs needs at least one pair, for example en-de (monolingual text is read from the pairs too)"
            )
        for pair in pairs:
            if len(pair.split("-")) != 2:
                raise ValueError(f"--pairs must look like en-de,en-fr; got {pair!r}")
        known = {language for pair in pairs for language in pair.split("-")}
        for language in sorted(set(languages) - known):
            if not glob.glob(os.path.join(glob.escape(cfg.data), f"*.{glob.escape(language)}.idx")):
                raise ValueError(
                    f"--monolingual {language}: no text in {cfg.data}, neither of --pairs ({sorted(known)}) nor of another pair or "
                    "of fairseq-preprocess --only-source"
                )
        path = os.path.join(cfg.data, f"dict.{pairs[0].split('-')[0]}.txt")
        if not os.path.isfile(path):
            raise ValueError(f"no dictionary {path}: give the folder that fairseq-preprocess wrote")
        dictionary = Dictionary.load(path)
        check_dictionaries(cfg.data, [*sorted(known), *languages], dictionary, path)
        dictionary.add_symbol("<mask>")
        logger.info("dictionary: %d types with <mask>", len(dictionary))
        return cls(cfg, dictionary)

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Build the split: one dataset a pair, one a monolingual language, concatenated."""
        masking = MaskingConfig(self.cfg.mask_prob, self.cfg.one_side_prob, self.cfg.seed)
        datasets: List[TLMDataset] = []
        pairs = [pair for pair in self.cfg.pairs.split(",") if pair]
        for pair in pairs:
            sides = [self._side(split, pair, language) for language in pair.split("-")]
            sizes = [side.sizes for side in sides]
            datasets.append(TLMDataset(sides, sizes, self.dictionary, masking._replace(stream=len(datasets))))
        for language in [language for language in self.cfg.monolingual.split(",") if language]:
            pair = next((pair for pair in pairs if language in pair.split("-")), None)
            side = self._other_text(split, language) if pair is None else self._side(split, pair, language)
            datasets.append(TLMDataset([side], [side.sizes], self.dictionary, masking._replace(stream=len(datasets))))
        for name, dataset in zip(pairs + self.cfg.monolingual.split(","), datasets):
            logger.info("%s %s: %d items, %d tokens", split, name, len(dataset), int(dataset.sizes.sum()))
        self.datasets[split] = _EpochConcatDataset(datasets)

    def _side(self, split: str, pair: str, language: str) -> Any:
        return load_pair_side(os.path.join(self.cfg.data, split), pair, language, self.dictionary, "--pairs")

    def _other_text(self, split: str, language: str) -> Any:
        """Text of a language that no pair of ``--pairs`` has: by itself, or a side of any other pair in the folder."""
        prefix = os.path.join(self.cfg.data, split)
        start = len(os.path.basename(prefix)) + 1
        files = sorted(glob.glob(f"{glob.escape(prefix)}.*-*.{glob.escape(language)}.idx"))
        others = [os.path.basename(file)[start : -len(f".{language}.idx")] for file in files]
        return load_monolingual(prefix, language, others, self.dictionary, "--monolingual")

    def max_positions(self) -> int:
        """Longest input in tokens, ``<s>`` and ``</s>`` counted."""
        return self.cfg.tokens_per_sample

    @property
    def source_dictionary(self) -> Dictionary:
        """The shared dictionary, with ``<mask>`` as its last entry."""
        return self.dictionary

    @property
    def target_dictionary(self) -> Dictionary:
        """The shared dictionary."""
        return self.dictionary


class _EpochConcatDataset(ConcatDataset):
    """fairseq's ConcatDataset with sizes as one array and batches of similar length."""

    def __init__(self, datasets: List[TLMDataset]):
        super().__init__(datasets)
        self._sizes = np.concatenate([dataset.sizes for dataset in datasets])

    @property
    def sizes(self) -> np.ndarray:
        """(N,) tokens an item."""
        return self._sizes

    def num_tokens(self, index: int) -> int:
        """Tokens of the item."""
        return int(self._sizes[index])

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        """Tokens of several items."""
        return self._sizes[indices]

    def size(self, index: int) -> int:
        """Tokens of the item."""
        return int(self._sizes[index])

    def ordered_indices(self) -> np.ndarray:
        """Sorted by size; batches themselves are shuffled by the trainer. (N,)."""
        return np.argsort(self._sizes, kind="mergesort")

    def collater(self, samples: List[Any], **extra: Optional[Any]) -> Any:
        """All parts share one collater."""
        return self.datasets[0].collater(samples)
