"""Task ``translation_mixing``: translation, with batches of corrupted text mixed in.

A model fine-tuned on English output alone answers in English whatever it is asked for ("accidental
translation"). Corrupted text keeps the other languages alive. Its targets have no sentinels, so
that none appears in what is generated.

Source: DeltaLM section 3.3: half of the time is pre-training, without sentinels in the targets.
"""

import logging
import os
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
from fairseq import utils
from fairseq.data import FairseqDataset
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationTask

from ..common.data_bins import (
    check_dictionaries,
    check_once,
    is_training,
    load_monolingual,
    split_names,
)
from ..common.options import check_rules
from ..common.own_run import TRANSLATION_CRITERIONS, OwnRun
from ..common.sampling import Purpose, epoch_rng
from ..common.shards import check_pair_folders, split_folders, take_turn
from .config import CORRUPTION_RULES, MIXING_RULES, TranslationMixingConfig
from .span_corruption import (
    SpanCorruption,
    SpanCorruptionDataset,
    TextStream,
    corrupted_texts,
    monolingual_blocks,
    monolingual_demand,
)
from .spans import check_sentinels, find_sentinels

logger = logging.getLogger(__name__)


class MixedBatchesDataset(FairseqDataset):
    """A translation set with batches of corrupted texts, each batch of one kind.

    An epoch is one pass over the translation set. Batches of corrupted texts are drawn without
    repetition until all are used, then again, with other noise. Indices from ``len(translation)``
    on are corrupted texts; from ``len(self)`` on they are the same texts again, with other noise.

    Args:
        share: share of the batches that are corrupted texts, in [0, 1).
        max_sizes: most tokens of an uncorrupted text, and of its target.
    """

    def __init__(
        self,
        translation: FairseqDataset,
        corrupted: SpanCorruptionDataset,
        share: float,
        max_sizes: Tuple[int, int],
        seed: int,
    ):
        self.translation, self.corrupted = translation, corrupted
        self.share, self.max_sizes, self.seed = share, max_sizes, seed
        self.first_text = len(translation)  # index of the first corrupted text
        self.epoch = 1

    def __len__(self) -> int:
        return self.first_text + len(self.corrupted)

    def set_epoch(self, epoch: int) -> None:
        """Choose texts, noise and batches of an epoch."""
        self.epoch = epoch
        self.translation.set_epoch(epoch)
        self.corrupted.set_epoch(epoch)

    def __getitem__(self, index: int) -> Dict[str, Any]:
        if index < self.first_text:
            return self.translation[index]
        times, text = divmod(index - self.first_text, len(self.corrupted))
        return {**self.corrupted.repeated(text, times), "id": index}

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        """Iterate once. Python's own iteration would never end, because any index is valid."""
        return (self[index] for index in range(len(self)))

    def collater(self, samples: List[Dict[str, Any]], **options: Any) -> Dict[str, Any]:
        """Collate with the dataset that all the samples come from."""
        if samples and samples[0]["id"] >= self.first_text:
            assert all(item["id"] >= self.first_text for item in samples), "a batch has one origin"
            return self.corrupted.collater(samples)
        return self.translation.collater(samples, **options)

    def ordered_indices(self) -> np.ndarray:
        """Order the translations as without mixing, then the corrupted texts. (N,) int64."""
        texts = self.corrupted.ordered_indices() + self.first_text
        return np.concatenate([self.translation.ordered_indices(), texts])

    def _split(self, indices: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """Split indices into those of the translation set and those of the corrupted texts."""
        is_pair = indices < self.first_text
        return indices[is_pair], indices[~is_pair] - self.first_text

    def filter_indices_by_size(
        self, indices: np.ndarray, max_sizes: Any
    ) -> Tuple[np.ndarray, List[int]]:
        """Split indices into items that fit the model, texts also their own limit, and others."""
        pairs, texts = self._split(indices)
        pairs, long_pairs = self.translation.filter_indices_by_size(pairs, max_sizes)
        text_sizes = utils.resolve_max_positions(self.max_sizes, max_sizes)
        texts, long_texts = self.corrupted.filter_indices_by_size(texts, text_sizes)
        long_indices = [*long_pairs, *(index + self.first_text for index in long_texts)]
        return np.concatenate([pairs, texts + self.first_text]), long_indices

    def batch_by_size(self, indices: np.ndarray, *limits: Any, **options: Any) -> List[np.ndarray]:
        """Batch each set by itself; the batches of texts are repeated or cut to their share."""
        pair_indices, text_indices = self._split(indices)
        pairs = self.translation.batch_by_size(pair_indices, *limits, **options)
        texts = self.corrupted.batch_by_size(text_indices, *limits, **options)
        count = round(len(pairs) * self.share / (1.0 - self.share))
        if count and not len(texts):
            raise ValueError(
                f"--mix-monolingual: no text fits into {self.max_sizes[0]} tokens "
                "(--tokens-per-sample), --max-source-positions, --max-target-positions and "
                "--max-tokens; raise them or set --mix-share 0"
            )
        return [*pairs, *self._repeat(texts, count)]

    def _repeat(self, batches: List[np.ndarray], count: int) -> List[np.ndarray]:
        """Draw ``count`` batches in random order; all are used once before any is used again.

        Each round raises the indices by the number of texts, which gives them other noise.
        """
        rng = epoch_rng(self.seed, self.epoch, Purpose.BATCHES)
        draws: List[np.ndarray] = []
        while len(draws) < count:
            shift = self.first_text + len(self.corrupted) * (len(draws) // len(batches))
            order = rng.permutation(len(batches))[: count - len(draws)]
            draws += [np.asarray(batches[number]) + shift for number in order]
        return draws

    def num_tokens(self, index: int) -> int:
        """Count the tokens of an item, as ``--max-tokens`` counts them."""
        if index < self.first_text:
            return int(self.translation.num_tokens(index))
        return self.corrupted.num_tokens(index - self.first_text)

    def size(self, index: int) -> Any:
        """Return the sizes of an item, as limits on the longest input count them."""
        if index < self.first_text:
            return self.translation.size(index)
        return self.corrupted.size(index - self.first_text)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Return False: every epoch has batches of its own."""
        return False


@register_task("translation_mixing", dataclass=TranslationMixingConfig)
class TranslationMixingTask(OwnRun, TranslationTask):
    """Stock pairs (translations, summaries ...) and span corruption of the target languages.

    Validation and decoding are those of ``translation``.
    """

    criterions = TRANSLATION_CRITERIONS
    languages: List[str]
    sentinels: List[int]

    @classmethod
    def setup_task(cls, cfg: TranslationMixingConfig, **kwargs: Any) -> "TranslationMixingTask":
        """Check the options, set up as stock does, and find the sentinels."""
        check_rules(cfg, MIXING_RULES)
        languages = split_names(cfg.mix_monolingual)
        check_once("--mix-monolingual", languages)
        if languages:
            check_rules(cfg, CORRUPTION_RULES)
        task: TranslationMixingTask = super().setup_task(cfg, **kwargs)
        task.languages = languages
        if languages:
            task.check_shared_dictionary()
        # Also without mixing (in decoding): the embeddings of a trained model have rows for them.
        task.sentinels = find_sentinels(task.src_dict, cfg.sentinels, cfg.add_sentinels)
        find_sentinels(task.tgt_dict, cfg.sentinels, cfg.add_sentinels)
        if languages:
            demands = [monolingual_demand(cfg)]
            check_sentinels(task.sentinels, cfg.sentinels, cfg.mean_span, demands)
        return task

    def check_shared_dictionary(self) -> None:
        """Raise ValueError unless there is one dictionary: texts are source and target at once."""
        folder = split_folders(self.cfg.data)[0]
        origin = os.path.join(folder, f"dict.{self.cfg.source_lang}.txt")
        check_dictionaries(folder, [self.cfg.target_lang], self.src_dict, origin)
        for text_folder in split_folders(self.cfg.mix_data or self.cfg.data):
            check_dictionaries(text_folder, self.languages, self.src_dict, origin)

    def has_sharded_data(self, split: str) -> bool:
        """Return True if pairs, or mixed text, are read from other folders in the next epoch."""
        folders = split_folders(self.cfg.mix_data or self.cfg.data)
        return super().has_sharded_data(split) or len(folders) > 1

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """Load the stock pairs; mix corrupted text into the training set.

        Raises:
            ValueError: a folder lacks the pair, or the text of a language.
        """
        cfg = self.cfg
        trains = is_training(split, cfg.train_subset, kwargs)
        if trains:
            check_pair_folders(cfg, split)
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        if not trains or not self.languages or not cfg.mix_share:
            return
        streams: Dict[str, TextStream] = {
            language: monolingual_blocks(cfg, self.text(split, language, epoch), self.src_dict)
            for language in self.languages
        }
        corruption = SpanCorruption(cfg.mean_span, self.sentinels, cfg.seed, target_sentinels=False)
        temperature = cfg.sampling_temperature
        texts = corrupted_texts(streams, self.src_dict, corruption, split, temperature)
        limits = (cfg.tokens_per_sample, cfg.tokens_per_sample + 1)
        self.datasets[split] = MixedBatchesDataset(
            self.datasets[split], texts, cfg.mix_share, limits, cfg.seed
        )
        share = f"{cfg.mix_share} of the batches are corrupted text of {cfg.mix_monolingual}"
        logger.info(f"{split}: {share}")

    def text(self, split: str, language: str, epoch: int) -> Any:
        """Load the text of a language in the folder of an epoch, after opening it in all."""
        pairs = [f"{self.cfg.source_lang}-{self.cfg.target_lang}"]
        texts = [
            load_monolingual(
                os.path.join(folder, split), language, pairs, self.src_dict, "--mix-monolingual"
            )
            for folder in split_folders(self.cfg.mix_data or self.cfg.data)
        ]
        return take_turn(texts, epoch)
