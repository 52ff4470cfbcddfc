"""Task ``sga_translation_multi``: one SGA model for several language pairs, with the same prompts for all of them."""

import logging
import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.logging import metrics
from fairseq.tasks import register_task
from omegaconf import II

from ..common.data_bins import check_dictionaries, split_pair
from ..common.options import check_range, option
from ..common.own_run import changed
from ..common.temperature import TemperatureDataset, TemperatureSchedule
from ..compat.validation import BLEU_SUMS, bleu_of, log_bleu
from .pairs_apart import PairsApart
from .tasks import PAIRS, SGATranslationConfig, SGATranslationTask, check_same_pairs

logger = logging.getLogger(__name__)


@dataclass
class SGATranslationMultiConfig(SGATranslationConfig):
    """Options of ``sga_translation``, the pairs, and how often each is drawn."""

    lang_pairs: Optional[str] = option(
        None,
        "pairs that are trained and validated together, for example de-en,es-en,fr-en. For decoding any pair is named "
        "by --source-lang and --target-lang; pairs given there too must be those of the training",
    )
    sampling_temperature: float = option(
        1.5, "T of the shares of the pairs in an epoch, n^(1/T), at least 1; 1 = sizes as they are, larger = more equal"
    )
    seed: int = II("common.seed")


@register_task("sga_translation_multi", dataclass=SGATranslationMultiConfig)
class SGATranslationMultiTask(SGATranslationTask):
    """Prompts shared by several pairs, as X -> English; no language tags: what is written follows from the training.

    Training draws the pairs by temperature, anew for each epoch as a function of (seed, epoch). Validation scores each pair
    (``bleu_de-en``); their mean is ``bleu``, for ``--best-checkpoint-metric bleu``. Checkpoints keep the pairs. They are decoded
    with this task or with ``sga_translation``, from any language: one that was never trained is logged as zero-shot.

    Source: SGA section 5, "Prompt sharing"; it names no sampling.
    """

    pairs: List[Tuple[str, str]]

    @classmethod
    def setup_task(cls, cfg: SGATranslationMultiConfig, **kwargs: Any) -> "SGATranslationMultiTask":
        """Check the options and read the dictionary, which must be that of every language."""
        pairs = parse_pairs(cfg.lang_pairs)
        if (cfg.source_lang is None) != (cfg.target_lang is None):
            raise ValueError(
                f"--source-lang {cfg.source_lang} and --target-lang {cfg.target_lang}: give both, or none and --lang-pairs"
            )
        if not pairs and cfg.source_lang is None:
            raise ValueError("--lang-pairs is needed, as de-en,fr-en; for decoding --source-lang and --target-lang")
        check_range(cfg, "[1, inf)", "sampling_temperature")
        source, target = pairs[0] if cfg.source_lang is None else (cfg.source_lang, cfg.target_lang)
        with changed(cfg, source_lang=source, target_lang=target):
            task: SGATranslationMultiTask = super().setup_task(cfg, **kwargs)
        task.pairs = pairs
        folder = utils.split_paths(cfg.data)[0]
        origin = os.path.join(folder, f"dict.{source}.txt")
        languages = sorted({language for pair in pairs for language in pair})
        check_dictionaries(folder, languages, Dictionary.load(origin), origin)
        return task

    def trained_pairs(self) -> List[str]:
        """The one pair that is decoded, or all that are trained."""
        return super().trained_pairs() or ["-".join(pair) for pair in self.pairs]

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build the model; ValueError for a training with ``--source-lang``."""
        if not from_checkpoint and self.cfg.source_lang is not None:
            raise ValueError(
                f"--source-lang {self.cfg.source_lang} --target-lang {self.cfg.target_lang} name what is decoded; a training takes "
                "--lang-pairs alone"
            )
        return super().build_model(cfg, from_checkpoint)

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Called with a checkpoint that is about to be decoded; ValueError where ``--lang-pairs`` names other pairs."""
        if self.pairs:
            check_same_pairs(["-".join(pair) for pair in self.pairs], state_dict.get(PAIRS), "the checkpoint")
        super().load_state_dict(state_dict)

    # ---- Data. ----

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """The pair that is decoded; or all pairs, drawn by temperature for training, one behind the other otherwise."""
        if self.cfg.source_lang is not None:
            super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
            return
        parts: OrderedDict[str, Any] = OrderedDict()
        for source, target in self.pairs:
            with changed(self.cfg, source_lang=source, target_lang=target):
                try:
                    super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
                except FileNotFoundError as error:
                    raise ValueError(f"--lang-pairs: {source}-{target} has no data: {error}") from error
            parts[f"{source}-{target}"] = self.datasets.pop(split)
        if split != self.cfg.train_subset:
            self.datasets[split] = PairsApart(parts)
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

    def valid_step(self, sample: Dict[str, Any], model: Any, criterion: Any) -> Tuple[Any, Any, Dict[str, Any]]:
        """Stock step; the counts of BLEU are logged under the pair of the batch."""
        loss, sample_size, logged = super().valid_step(sample, model, criterion)
        if self.cfg.eval_bleu:
            found = {name: logged.pop(f"_bleu_{name}") for name in BLEU_SUMS}
            for pair in self.trained_pairs():  # every batch has all keys: what several processes log is summed by key
                for name, value in found.items():
                    logged[f"_bleu_{pair}_{name}"] = value if sample.get("pair", pair) == pair else 0
        return loss, sample_size, logged

    def reduce_metrics(self, logging_outputs: List[Dict[str, Any]], criterion: Any) -> None:
        """Stock metrics, BLEU of each pair, and as ``bleu`` their mean, in which each pair has the same weight."""
        super().reduce_metrics(logging_outputs, criterion)
        pairs = [
            pair for pair in self.trained_pairs() if any(f"_bleu_{pair}_sys_len" in log for log in logging_outputs)
        ]
        for pair in pairs:
            log_bleu(logging_outputs, f"_bleu_{pair}", f"bleu_{pair}")
        if pairs:
            metrics.log_derived(
                "bleu", lambda meters: round(float(np.mean([bleu_of(meters, f"_bleu_{pair}") for pair in pairs])), 2)
            )


def parse_pairs(text: Optional[str]) -> List[Tuple[str, str]]:
    """Read ``de-en,fr-en``; ValueError for something that is no pair, or a pair twice."""
    pairs: List[Tuple[str, str]] = []
    for name in text.split(",") if text else []:
        pair = split_pair("--lang-pairs", name.strip())
        if pair in pairs:
            raise ValueError(f"--lang-pairs {text}: {name} is given twice")
        pairs.append(pair)
    return pairs
