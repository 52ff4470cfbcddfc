"""Task ``sga_translation_multi``: the same prompts for several language pairs."""

import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np
from fairseq.data import ConcatDataset, Dictionary, data_utils
from fairseq.logging import metrics
from fairseq.tasks import register_task
from omegaconf import II

from ..common.data_bins import check_dictionaries, split_pair
from ..common.options import check_range, option
from ..common.sampling import TemperatureDataset, TemperatureSchedule
from ..common.shards import split_folders
from ..compat.own_runs import temporary_options
from ..compat.validation import BLEU_SUMS, bleu_of, log_bleu
from .state import PAIRS, check_same_pairs
from .tasks import SGATranslationTask
from .variants import JoinedTranslationConfig


@dataclass
class SGATranslationMultiConfig(JoinedTranslationConfig):
    """Options of ``sga_translation``, the pairs, and how often each is drawn."""

    lang_pairs: Optional[str] = option(
        None,
        "pairs that are trained and validated together, for example de-en,es-en,fr-en. For "
        "decoding any pair is named by --source-lang and --target-lang; pairs given there too "
        "must be those of the training",
    )
    sampling_temperature: float = option(
        1.5,
        "T of the shares of the pairs in an epoch, n^(1/T), at least 1; 1 = sizes as they are, "
        "larger = more equal",
    )
    seed: int = II("common.seed")


@register_task("sga_translation_multi", dataclass=SGATranslationMultiConfig)
class SGATranslationMultiTask(SGATranslationTask):
    """Prompts shared by several pairs, as X -> English, without language tags.

    Training draws the pairs by temperature, anew for each epoch as a function of (seed, epoch).
    Validation scores each pair (``bleu_de-en``); their mean is ``bleu``, for
    ``--best-checkpoint-metric bleu``. Checkpoints keep the pairs. They are decoded with this task
    or with ``sga_translation``, from any language: one that was never trained is logged as
    zero-shot.

    Source: SGA section 5.4, prompt sharing; it names no sampling.
    """

    pairs: List[Tuple[str, str]]

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> "SGATranslationMultiTask":
        """Check the options and read the dictionaries: one for all sources, one for all targets."""
        pairs = parse_pairs(cfg.lang_pairs)
        if (cfg.source_lang is None) != (cfg.target_lang is None):
            raise ValueError(
                f"--source-lang {cfg.source_lang} and --target-lang {cfg.target_lang}: give both, "
                "or none and --lang-pairs"
            )
        if not pairs and cfg.source_lang is None:
            raise ValueError(
                "--lang-pairs is needed, as de-en,fr-en; for decoding --source-lang and "
                "--target-lang"
            )
        check_range(cfg, "[1, inf)", "sampling_temperature")
        source, target = cfg.source_lang, cfg.target_lang
        if source is None:
            source, target = pairs[0]
        with temporary_options(cfg, source_lang=source, target_lang=target):
            task: SGATranslationMultiTask = super().setup_task(cfg, **kwargs)
        task.pairs = pairs
        folder = split_folders(cfg.data)[0]
        for side, language in enumerate((source, target)):
            origin = os.path.join(folder, f"dict.{language}.txt")
            languages = sorted({pair[side] for pair in pairs})
            check_dictionaries(folder, languages, Dictionary.load(origin), origin)
        return task

    def pairs_in_use(self) -> List[str]:
        """List the one pair that is decoded, or all that are trained."""
        return super().pairs_in_use() or ["-".join(pair) for pair in self.pairs]

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build the model. Raises ValueError for a training with ``--source-lang``."""
        if not from_checkpoint and self.cfg.source_lang is not None:
            raise ValueError(
                f"--source-lang {self.cfg.source_lang} --target-lang {self.cfg.target_lang} name "
                "what is decoded; a training takes --lang-pairs alone"
            )
        return super().build_model(cfg, from_checkpoint)

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Compare the pairs with those of a checkpoint that is about to be decoded.

        Raises:
            ValueError: ``--lang-pairs`` names other pairs.
        """
        if self.pairs:
            pairs = ["-".join(pair) for pair in self.pairs]
            check_same_pairs(pairs, state_dict.get(PAIRS), "the checkpoint")
        super().load_state_dict(state_dict)

    # ---- Data. ----

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """Load the pair that is decoded, or all pairs.

        Training draws all pairs by temperature; elsewhere they stand one after another.
        """
        if self.cfg.source_lang is not None:
            super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
            return
        parts: OrderedDict[str, Any] = OrderedDict()
        for source, target in self.pairs:
            with temporary_options(self.cfg, source_lang=source, target_lang=target):
                try:
                    super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
                except FileNotFoundError as error:
                    message = f"--lang-pairs: {source}-{target} has no data: {error}"
                    raise ValueError(message) from error
            parts[f"{source}-{target}"] = self.datasets.pop(split)
        if split != self.cfg.train_subset:
            self.datasets[split] = OnePairPerBatch(parts)
            return
        temperature = self.cfg.sampling_temperature
        self.datasets[split] = TemperatureDataset(
            parts,
            [len(part) for part in parts.values()],
            TemperatureSchedule(temperature, temperature, 1),
            seed=self.cfg.seed,
            epoch=epoch,
            split=split,
        )

    # ---- BLEU of each pair. ----

    def valid_step(
        self, sample: Dict[str, Any], model: Any, criterion: Any
    ) -> Tuple[Any, Any, Dict[str, Any]]:
        """Run the stock step, and log the counts of BLEU under the pair of the batch."""
        loss, sample_size, logged = super().valid_step(sample, model, criterion)
        if self.cfg.eval_bleu:
            sums = {name: logged.pop(f"_bleu_{name}") for name in BLEU_SUMS}
            # Every batch has all keys: what several processes log is summed by key.
            for pair in self.pairs_in_use():
                is_pair = sample.get("pair", pair) == pair
                for name, count in sums.items():
                    logged[f"_bleu_{pair}_{name}"] = count if is_pair else 0
        return loss, sample_size, logged

    def reduce_metrics(self, logging_outputs: List[Dict[str, Any]], criterion: Any) -> None:
        """Log stock metrics, BLEU of each pair, and as ``bleu`` their mean with equal weights."""
        super().reduce_metrics(logging_outputs, criterion)
        pairs = [
            pair
            for pair in self.pairs_in_use()
            if any(f"_bleu_{pair}_sys_len" in log for log in logging_outputs)
        ]
        for pair in pairs:
            log_bleu(logging_outputs, f"_bleu_{pair}", f"bleu_{pair}")

        def mean_bleu(meters: Any) -> float:
            """Compute the mean over the pairs."""
            scores = [bleu_of(meters, f"_bleu_{pair}") for pair in pairs]
            return round(float(np.mean(scores)), 2)

        if pairs:
            metrics.log_derived("bleu", mean_bleu)


class OnePairPerBatch(ConcatDataset):
    """All pairs in one dataset, one after another.

    Each batch holds sentences of a single pair, named in ``batch["pair"]``.

    Args:
        pairs: name -> fairseq's language pairs; at least one, and all collated alike.
    """

    def __init__(self, pairs: Mapping[str, Any]):
        super().__init__(list(pairs.values()))
        self.names = list(pairs)

    def pair_of(self, indices: np.ndarray) -> np.ndarray:
        """Return the number of each sentence's pair. (N,) -> (N,)."""
        return np.searchsorted(self.cumulative_sizes, indices, side="right")

    def __getitem__(self, index: int) -> Dict[str, Any]:
        pair = self.names[int(self.pair_of(np.asarray(index)))]
        return {**super().__getitem__(int(index)), "id": int(index), "pair": pair}

    def collater(self, samples: List[Dict[str, Any]], **options: Any) -> Dict[str, Any]:
        """Collate as each pair's dataset does, and add the name of the pair."""
        batch = super().collater(samples, **options)
        if samples:
            (batch["pair"],) = {sample["pair"] for sample in samples}
        return batch

    def filter_indices_by_size(
        self, indices: np.ndarray, max_sizes: Any
    ) -> Tuple[np.ndarray, List[int]]:
        """Return the indices of sentences that fit on both sides, and those of the rest."""
        sources, targets = self.sizes[:, 0], self.sizes[:, 1]
        return data_utils.filter_paired_dataset_indices_by_size(
            sources, targets, indices, max_sizes
        )

    def batch_by_size(self, indices: np.ndarray, *limits: Any, **options: Any) -> List[Any]:
        """Batch each pair by itself."""
        pairs = self.pair_of(indices)
        return [
            batch
            for number in range(len(self.names))
            for batch in super(OnePairPerBatch, self).batch_by_size(
                indices[pairs == number], *limits, **options
            )
        ]


def parse_pairs(text: Optional[str]) -> List[Tuple[str, str]]:
    """Read ``de-en,fr-en``.

    Raises ValueError for a name that is not a pair, or a pair named twice.
    """
    pairs: List[Tuple[str, str]] = []
    for name in text.split(",") if text else []:
        pair = split_pair("--lang-pairs", name.strip())
        if pair in pairs:
            raise ValueError(f"--lang-pairs {text}: {name} is given twice")
        pairs.append(pair)
    return pairs
