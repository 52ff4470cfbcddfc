"""Task ``translation_mixing``: fairseq's translation task with batches of corrupted monolingual text among those it trains on."""

import logging
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from fairseq import utils
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from ..common.data_bins import check_dictionaries, check_once, is_training, split_names
from ..common.options import check_range, option
from ..common.own_run import OwnRun
from ..data.mixed_batches import MixedBatchesDataset
from ..data.sentinels import check_sentinels, find_sentinels
from ..data.span_corruption_dataset import SpanCorruption
from ..data.text_streams import TextStream
from .span_corruption import (
    CorruptionOptions,
    check_corruption,
    corrupted_texts,
    monolingual_blocks,
    monolingual_demand,
)

logger = logging.getLogger(__name__)


@dataclass
class TranslationMixingConfig(TranslationConfig, CorruptionOptions):
    """fairseq's translation options, what is mixed in, and how it is corrupted."""

    mix_monolingual: str = option("", "languages whose corrupted text is mixed in, for example de,fr; empty = none")
    mix_share: float = option(0.5, "share of the training batches that are corrupted text, in [0, 1)")
    mix_data: Optional[str] = option(None, "folder with the languages' text (default: the first data folder)")


@register_task("translation_mixing", dataclass=TranslationMixingConfig)
class TranslationMixingTask(OwnRun, TranslationTask):
    """Stock pairs (translations, summaries ...) and span corruption of the languages that are to be generated.

    A model fine-tuned on English output alone answers in English whatever it is asked for ("accidental translation"). The corrupted
    text keeps the other languages alive; its targets have no sentinels, so that none appears in what is generated. Every batch is
    of one kind. Validation and decoding are those of ``translation``.

    Source: DeltaLM section 3.3: half of the time, sentinels removed from the targets.
    """

    criterions = ("cross_entropy", "label_smoothed_cross_entropy", "adaptive_loss")
    languages: List[str]
    sentinels: List[int]

    @classmethod
    def setup_task(cls, cfg: TranslationMixingConfig, **kwargs: Any) -> "TranslationMixingTask":
        """Check the options; then the stock setup, and the sentinels of what is mixed in."""
        check_range(cfg, "[0, 1)", "mix_share")
        languages = split_names(cfg.mix_monolingual)
        check_once("--mix-monolingual", languages)
        if languages:
            check_corruption(cfg)
        task: TranslationMixingTask = super().setup_task(cfg, **kwargs)
        task.languages = languages
        if languages:
            task.check_shared_dictionary()
        # Also where nothing is mixed in: the embeddings of a trained model have rows for them.
        task.sentinels = find_sentinels(task.src_dict, cfg.sentinels, cfg.add_sentinels)
        find_sentinels(task.tgt_dict, cfg.sentinels, cfg.add_sentinels)
        if languages:
            check_sentinels(task.sentinels, cfg.sentinels, cfg.mean_span, [monolingual_demand(cfg)])
        return task

    def check_shared_dictionary(self) -> None:
        """Refuse a target or a language with a dictionary of its own: corrupted text is source and target at once."""
        folder = utils.split_paths(self.cfg.data)[0]
        origin = os.path.join(folder, f"dict.{self.cfg.source_lang}.txt")
        check_dictionaries(folder, [self.cfg.target_lang], self.src_dict, origin)
        check_dictionaries(self.cfg.mix_data or folder, self.languages, self.src_dict, origin)

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        cfg = self.cfg
        if not self.languages or not cfg.mix_share or not is_training(split, cfg.train_subset, kwargs):
            return
        prefix = os.path.join(cfg.mix_data or utils.split_paths(cfg.data)[0], split)
        pairs = [f"{cfg.source_lang}-{cfg.target_lang}"]
        streams: Dict[str, TextStream] = {
            language: monolingual_blocks(cfg, self.src_dict, prefix, language, pairs, "--mix-monolingual")
            for language in self.languages
        }
        corruption = SpanCorruption(cfg.mean_span, self.sentinels, cfg.seed, target_sentinels=False)
        texts = corrupted_texts(streams, self.src_dict, corruption, split, cfg.sampling_temperature)
        limits = (cfg.tokens_per_sample, cfg.tokens_per_sample + 1)
        self.datasets[split] = MixedBatchesDataset(self.datasets[split], texts, cfg.mix_share, limits, cfg.seed)
        logger.info(f"{split}: {cfg.mix_share} of the batches are corrupted text of {cfg.mix_monolingual}")
