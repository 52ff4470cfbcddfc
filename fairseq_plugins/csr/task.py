"""Task ``code_switching_restore``: an mBART restores switched sentences, then translates."""

import logging
import os
from typing import Any, Dict, List, Optional, Tuple

from fairseq.data import Dictionary, FairseqDataset
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.logging import metrics
from fairseq.tasks import register_task
from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask
from sentencepiece import SentencePieceProcessor

from ..common.data_bins import both_orders, check_dictionaries, is_training, load_monolingual
from ..common.old_options import add_old_options, refuse_options
from ..common.options import check_rules
from ..common.own_run import TRANSLATION_CRITERIONS, OwnRun
from ..common.shards import check_pair_folders, split_folders, take_turn
from .config import (
    AUTHORS_OPTIONS,
    LANGUAGE_RULES,
    RULES,
    CodeSwitchingRestoreConfig,
    restore_languages,
)
from .lexicon import Coverage, check_coverage, check_targets, locate_lexicons, read_lexicons
from .neighbours import Entries, WordEncoder, read_text
from .noise import Switching
from .restore import COUNTS, CodeSwitchingDataset
from .stages import StagedDataset, Stages, StageSwitch
from .words import classify_pieces

logger = logging.getLogger(__name__)

LOGGED = {name: f"csr_{name}" for name in COUNTS}
"""Count of a batch -> its name in the logging outputs."""


@register_task("code_switching_restore", dataclass=CodeSwitchingRestoreConfig)
class CodeSwitchingRestoreTask(OwnRun, TranslationFromPretrainedBARTTask):
    """Restore sentences of both languages, the first of two stages.

    The second stage is stock ``translation_from_pretrained_bart``. Validation sets have the same
    noise in every validation; ``fairseq-generate`` and ``fairseq-interactive`` translate as the
    stock task does.

    With ``--restore-updates N`` one run does both stages, and validation sets are translation
    throughout. It differs from two commands: the schedule of the learning rate goes on, and updates
    that fp16 skips for an overflow count among the N.

    Source: CSR III-B. The authors' code switches pieces, inserts ``<mask>`` and takes the least
    similar neighbours.
    """

    criterions = TRANSLATION_CRITERIONS
    cfg: CodeSwitchingRestoreConfig

    @classmethod
    def add_args(cls, parser: Any) -> None:
        """Add the options, and refuse those of the authors' fork by naming ours."""
        gen_parser_from_dataclass(parser, CodeSwitchingRestoreConfig())
        add_old_options(parser)
        refuse_options(parser, AUTHORS_OPTIONS)

    @classmethod
    def setup_task(
        cls, cfg: CodeSwitchingRestoreConfig, **kwargs: Any
    ) -> "CodeSwitchingRestoreTask":
        """Check the options, and read the dictionaries.

        Raises:
            ValueError: a broken rule, or languages with different dictionaries.
        """
        check_rules(cfg, RULES)
        task: CodeSwitchingRestoreTask = super().setup_task(cfg, **kwargs)
        check_rules(cfg, LANGUAGE_RULES)
        folders = split_folders(cfg.data)
        origin = os.path.join(folders[0], f"dict.{cfg.source_lang}.txt")
        languages = [cfg.target_lang, *restore_languages(cfg)]
        for folder in folders:
            check_dictionaries(folder, languages, Dictionary.load(origin), origin)
        return task

    def __init__(self, cfg: CodeSwitchingRestoreConfig, src_dict: Dictionary, tgt_dict: Dictionary):
        super().__init__(cfg, src_dict, tgt_dict)
        self._combine = False  # what ``load_dataset`` got for the training set
        self._restore_sets: Dict[str, CodeSwitchingDataset] = {}  # by folder, the last one
        self._batch_counts: Dict[str, int] = {}  # by folder
        self._switch: Optional[StageSwitch] = None
        if cfg.restore_updates is not None:
            self._switch = StageSwitch(cfg.restore_updates)

    # ---- Data. ----

    def load_dataset(
        self, split: str, epoch: Optional[int] = None, combine: bool = False, **kwargs: Any
    ) -> None:
        """Load restore sets for training and validation, the stock task's for decoding.

        With ``--restore-updates``, validation sets are the stock task's too.
        """
        # Both fairseq-generate and fairseq-validate pass task_cfg; only the latter names an epoch.
        is_decoding = kwargs.get("task_cfg") is not None and epoch is None
        trains = is_training(split, self.cfg.train_subset, kwargs)
        # Stock reads validation sets in turn too; elsewhere they come from the first folder.
        epoch = epoch if epoch and split == self.cfg.train_subset else 1
        if trains and not is_decoding:
            self._check_folders(split)
        if not is_decoding and self._switch is None:
            folder = self._folder(epoch if trains else 1)
            self.datasets[split] = self._load_restore(split, folder, combine)
            return
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        if trains and not is_decoding:
            self._combine = combine
            self.datasets[split] = StagedDataset(self.datasets[split])

    def _check_folders(self, split: str) -> None:
        """Open the training data of all folders: what one lacks is said before the first batch."""
        if self._switch is not None:
            check_pair_folders(self.cfg, split)
        for folder in split_folders(self.cfg.data):
            for language in restore_languages(self.cfg):
                self._load_rows(split, folder, language, combine=False)

    def _folder(self, epoch: int) -> str:
        """Return the folder of training data for an epoch; epochs go through them in turn."""
        return take_turn(split_folders(self.cfg.data), epoch)

    def _load_restore(self, split: str, folder: str, combine: bool) -> CodeSwitchingDataset:
        """Load the sentences of all languages, look up their words, and check the lexicons."""
        cfg, dictionary = self.cfg, self.src_dict
        languages = restore_languages(cfg)
        targets = [*languages, cfg.source_lang, cfg.target_lang]
        files = locate_lexicons(cfg.lexicon, languages, targets)
        entries = Entries(self._word_encoder(), classify_pieces(dictionary))
        bos = dictionary.bos() if cfg.prepend_bos else None
        texts, coverages = [], []
        for language in languages:
            entries.use(read_lexicons(files[language], cfg.lexicon_top_k))
            rows = self._load_rows(split, folder, language, combine)
            text = read_text(rows, dictionary.index(f"[{language}]"), entries, bos)
            coverage = Coverage(
                language,
                files[language],
                entries.lexicon,
                words=int(text.words.sum()),
                covered=len(text.entries),
                counts=entries.counts,
                unusable=entries.unusable,
            )
            logger.info(
                f"{split} {language}: {len(text.lengths)} sentences, {coverage.words} words, "
                f"{100 * coverage.share:.1f} % of them with an entry; {entries.usable} candidates "
                f"({entries.identical} are the word itself), {entries.unusable} more left out "
                "with <unk>"
            )
            check_coverage(coverage, f"{split} {language}")
            texts.append(text)
            coverages.append(coverage)
        if split == cfg.train_subset:
            check_targets(coverages)
        switching = Switching(cfg.switch_ratio, cfg.switch_span, cfg.seed)
        layout = (cfg.left_pad_source, cfg.left_pad_target, cfg.one_language_per_batch)
        return CodeSwitchingDataset(texts, entries.table(), switching, dictionary, *layout)

    def _word_encoder(self) -> WordEncoder:
        """Read ``--sentencepiece-model``. Raises ValueError if it is missing or damaged."""
        path = self.cfg.sentencepiece_model
        if not os.path.isfile(path):
            raise ValueError(
                f"--sentencepiece-model {path or '(empty)'}: there is no such file; valid: the "
                "model that the data were cut with"
            )
        try:
            model = SentencePieceProcessor(model_file=path)
        except (RuntimeError, OSError) as error:
            raise ValueError(
                f"--sentencepiece-model {path}: is no sentencepiece model ({error})"
            ) from error
        return WordEncoder(model, self.src_dict)

    def _load_rows(self, split: str, folder: str, language: str, combine: bool) -> List[Any]:
        """Load a language's side of ``train`` and, to ``combine``, of ``train1``, ``train2`` ..."""
        pair = f"{self.cfg.source_lang}-{self.cfg.target_lang}"
        prefix = os.path.join(folder, split)
        prefixes = [prefix]
        while combine and self._has_part(f"{prefix}{len(prefixes)}", language, pair):
            prefixes.append(f"{prefix}{len(prefixes)}")
        return [
            load_monolingual(part, language, [pair], self.src_dict, "--restore-langs")
            for part in prefixes
        ]

    @staticmethod
    def _has_part(prefix: str, language: str, pair: str) -> bool:
        directions = (f"{language}-None", *both_orders(pair))
        return any(os.path.isfile(f"{prefix}.{name}.{language}.idx") for name in directions)

    # ---- Two stages in one run. ----

    def get_batch_iterator(self, dataset: FairseqDataset, *args: Any, **options: Any) -> Any:
        """Iterate as stock does; for :class:`StagedDataset`, over the data of the epoch's stage."""
        if not isinstance(dataset, StagedDataset):
            return super().get_batch_iterator(dataset, *args, **options)
        epoch = options.get("epoch", 1)
        stages = Stages(
            self.cfg.restore_updates or 0,
            list(self.cfg.update_freq),
            options.get("num_shards", 1),
            bool(options.get("skip_remainder_batch")),
        )
        batches = stages.batches(epoch, lambda past: self._count_batches(past, options))
        if batches is None:
            logger.info(f"epoch {epoch} is translation")
            return super().get_batch_iterator(dataset.translation, *args, **options)
        restore = self._restore_set(self._folder(epoch))
        restore.most_batches = batches
        logger.info(f"epoch {epoch} is restore: {batches} batches")
        return super().get_batch_iterator(restore, *args, **options)

    def _restore_set(self, folder: str) -> CodeSwitchingDataset:
        """Load the first stage's training set in a folder; the last one loaded is cached."""
        if folder not in self._restore_sets:
            restore = self._load_restore(self.cfg.train_subset, folder, self._combine)
            self._restore_sets = {folder: restore}
        return self._restore_sets[folder]

    def _count_batches(self, epoch: int, options: Dict[str, Any]) -> int:
        """Count the batches of a whole restore epoch, for all processes."""
        folder = self._folder(epoch)
        if folder not in self._batch_counts:
            restore = self._restore_set(folder)
            restore.most_batches = None
            indices = restore.ordered_indices()
            if options.get("max_positions") is not None:
                positions = options["max_positions"]
                indices = self.filter_indices_by_size(indices, restore, positions, True)
            names = ("max_tokens", "max_sentences", "required_batch_size_multiple")
            limits = {name: options[name] for name in names if name in options}
            self._batch_counts[folder] = len(restore.batch_by_size(indices, **limits))
        return self._batch_counts[folder]

    # ---- Steps. ----

    def train_step(
        self,
        sample: Any,
        model: Any,
        criterion: Any,
        optimizer: Any,
        update_num: int,
        *args: Any,
        **kwargs: Any,
    ) -> Tuple[Any, Any, Dict[str, Any]]:
        """Train as stock; also reset the optimizer between stages, and count replaced words."""
        if self._switch is not None:
            self._switch.begin_step("switching" in sample, update_num, optimizer)
        loss, size, logs = super().train_step(
            sample, model, criterion, optimizer, update_num, *args, **kwargs
        )
        return loss, size, {**logs, **_counts(sample)}

    def valid_step(
        self, sample: Dict[str, Any], model: Any, criterion: Any
    ) -> Tuple[Any, Any, Dict[str, Any]]:
        """Validate as stock; also count the replaced words."""
        loss, size, logs = super().valid_step(sample, model, criterion)
        return loss, size, {**logs, **_counts(sample)}

    def reduce_metrics(self, logging_outputs: List[Dict[str, Any]], criterion: Any) -> None:
        """Log the stock metrics and, for restore, two shares of the words.

        ``switched`` is the share that was replaced, ``coverage`` the share with an entry.
        """
        super().reduce_metrics(logging_outputs, criterion)
        words, covered, switched = (
            sum(int(log.get(key, 0)) for log in logging_outputs) for key in LOGGED.values()
        )
        if words:
            metrics.log_scalar("switched", switched / words, words, round=4)
            metrics.log_scalar("coverage", covered / words, words, round=4)


def _counts(sample: Dict[str, Any]) -> Dict[str, int]:
    """Return the counts of a batch.

    They are zero for translation, because the logs of all processes must have the same keys.
    """
    counts = sample.get("switching", {})
    return {key: counts.get(name, 0) for name, key in LOGGED.items()}
