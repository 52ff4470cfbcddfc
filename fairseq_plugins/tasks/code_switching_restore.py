"""Task ``code_switching_restore``: an mBART restores sentences whose words were switched into other languages, then translates."""

import logging
import os
from dataclasses import dataclass
from itertools import count
from typing import Any, Dict, List, Optional, Sequence, Tuple

from fairseq import utils
from fairseq.data import Dictionary, FairseqDataset
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.logging import metrics
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig
from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask
from omegaconf import II
from sentencepiece import SentencePieceProcessor

from ..common.data_bins import both_orders, check_dictionaries, check_once, is_training, load_monolingual, split_names
from ..common.old_options import add_old_options, refuse_options
from ..common.options import check_range, option
from ..common.own_run import OwnRun
from ..data.csr_dataset import COUNTS, CodeSwitchingDataset, Switching
from ..data.csr_entries import Entries, WordEncoder
from ..data.csr_lexicon import (
    LEAST_TRANSLATED,
    Lexicon,
    LexiconFile,
    diagnosis,
    is_backwards,
    language_names,
    lexicon_files,
    read_lexicons,
    share_translated,
)
from ..data.csr_stages import StagedDataset, Stages
from ..data.csr_text import Coverage, TextBuilder
from ..data.csr_words import piece_table
from ..ops.word_spans import LONGEST_MEAN

logger = logging.getLogger(__name__)

AUTHORS_OPTIONS = {
    "--competence-step": "the restore stage is --task code_switching_restore, for all updates of the run, or for the first N with "
    "--restore-updates N; a run without it (their -1) is one without that task",
    "--span-length": "--task code_switching_restore has --switch-span, the mean of the Poisson law of the spans in words (their -1 "
    "means: leave it out)",
}
"""Option of the authors' fork of fairseq -> what it is called here."""

LOGGED = {name: f"csr_{name}" for name in COUNTS}


@dataclass
class CodeSwitchingRestoreConfig(TranslationConfig):
    """fairseq's translation options, those of its mBART task, and how words are switched."""

    langs: str = option("", "needed: all languages of the pretrained model in their order, for example en_XX,de_DE")
    prepend_bos: bool = option(False, "put <s> in front of every sentence")
    lexicon: str = option(
        "",
        "folder with SOURCE-TARGET.tsv and TARGET-SOURCE.tsv, or en-de=FILE,de-en=FILE; files with one first language "
        "are merged. Needed to train; decoding reads none",
    )
    lexicon_top_k: int = option(5, "candidates of a word, by rank; one is drawn at random; at least 1")
    restore_langs: str = option(
        "", "languages whose sentences are restored, mixed in every batch (default: source and target language)"
    )
    switch_ratio: float = option(0.35, "share of a sentence's words replaced, in (0, 1]")
    switch_span: float = option(3.5, "mean of the Poisson law of the spans, in words; zeros are drawn again")
    sentencepiece_model: str = option("", "model that the data were cut with; needed to train")
    restore_updates: Optional[int] = option(
        None,
        "both stages in one run: restore for so many updates, then translation; the optimiser's moments are reset "
        "between (default: restore alone)",
    )
    seed: int = II("common.seed")
    update_freq: Any = II("optimization.update_freq")
    finetune_from_model: Optional[str] = II("checkpoint.finetune_from_model")
    restore_file: str = II("checkpoint.restore_file")
    save_dir: str = II("checkpoint.save_dir")


@register_task("code_switching_restore", dataclass=CodeSwitchingRestoreConfig)
class CodeSwitchingRestoreTask(OwnRun, TranslationFromPretrainedBARTTask):
    """First stage of two: restore sentences of both languages; the second is stock ``translation_from_pretrained_bart``.

    Words are found from the pieces and replaced by the pieces of candidates of a lexicon; the target is the sentence. Both sides
    carry the id of the sentence's own language. Validation sets have the same noise in every validation; ``fairseq-generate`` and
    ``fairseq-interactive`` translate as the stock task does.

    With ``--restore-updates N`` one run does both: its first N updates are restore, the others translation of the stock task's
    data, and validation sets are translation throughout. Epochs are counted through both stages, and the last restore epoch is cut
    to N updates. It differs from two commands in that the learning rate's schedule goes on, and that updates which fp16 skips for
    an overflow count among the N.

    Source: CSR section 3 (the authors' code switches pieces, inserts ``<mask>`` and takes the least similar candidates).
    """

    criterions = ("cross_entropy", "label_smoothed_cross_entropy", "adaptive_loss")
    cfg: CodeSwitchingRestoreConfig

    @classmethod
    def add_args(cls, parser: Any) -> None:
        gen_parser_from_dataclass(parser, CodeSwitchingRestoreConfig())
        add_old_options(parser)
        refuse_options(parser, AUTHORS_OPTIONS)

    @classmethod
    def setup_task(cls, cfg: CodeSwitchingRestoreConfig, **kwargs: Any) -> "CodeSwitchingRestoreTask":
        check_range(cfg, "(0, 1]", "switch_ratio")
        check_range(cfg, f"(0, {LONGEST_MEAN:.0f}]", "switch_span")
        if not cfg.langs:
            raise ValueError("--langs is needed: all languages of the pretrained model, in its order")
        check_range(cfg, "[1, inf)", "lexicon_top_k", "restore_updates")
        task: CodeSwitchingRestoreTask = super().setup_task(cfg, **kwargs)
        task.check_languages()
        return task

    def __init__(self, cfg: CodeSwitchingRestoreConfig, src_dict: Dictionary, tgt_dict: Dictionary):
        super().__init__(cfg, src_dict, tgt_dict)
        self.restore_languages = split_names(cfg.restore_langs) or [cfg.source_lang, cfg.target_lang]
        self._restore: Optional[Tuple[str, CodeSwitchingDataset]] = None
        self._combine = self._warned = False
        self._batches: Dict[str, int] = {}

    # ---- Languages. ----

    def check_languages(self) -> None:
        """Refuse a language without an id, one that is named twice, and dictionaries that differ."""
        cfg, langs = self.cfg, list(self.langs)
        if len(set(langs)) < len(langs) or not all(langs):
            raise ValueError(f"--langs must name each language once; got {cfg.langs}")
        check_once("--restore-langs", self.restore_languages)
        used = {"--source-lang": [cfg.source_lang], "--target-lang": [cfg.target_lang]}
        for flag, names in {**used, "--restore-langs": self.restore_languages}.items():
            for name in names:
                if name not in langs:
                    raise ValueError(
                        f"{flag} {name}: the dictionary has no [{name}], because --langs {cfg.langs} lacks it; valid: the "
                        "languages of the pretrained model, in its order"
                    )
        folder = utils.split_paths(cfg.data)[0]
        origin = os.path.join(folder, f"dict.{cfg.source_lang}.txt")
        check_dictionaries(folder, [cfg.target_lang, *self.restore_languages], Dictionary.load(origin), origin)

    # ---- Data. ----

    def load_dataset(self, split: str, epoch: Optional[int] = None, combine: bool = False, **kwargs: Any) -> None:
        """Restore sets for training and validation; for decoding, and for the second stage, the stock task's."""
        # fairseq-generate names no epoch, fairseq-validate does.
        decoded = kwargs.get("task_cfg") is not None and epoch is None
        epoch, training = epoch or 1, is_training(split, self.cfg.train_subset, kwargs)
        if not decoded and self.cfg.restore_updates is None:
            self.datasets[split] = self._load_restore(split, self._folder(epoch if training else 1), combine)
            return
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        if training and not decoded:
            self._combine = combine
            self.datasets[split] = StagedDataset(self.datasets[split])

    def _folder(self, epoch: int) -> str:
        paths = utils.split_paths(self.cfg.data)
        return str(paths[(epoch - 1) % len(paths)])

    def _load_restore(self, split: str, folder: str, combine: bool) -> CodeSwitchingDataset:
        """Sentences of all languages, and the words of theirs that have an entry."""
        cfg, dictionary = self.cfg, self.src_dict
        targets = [*self.restore_languages, cfg.source_lang, cfg.target_lang]
        files = lexicon_files(cfg.lexicon, self.restore_languages, targets)
        special = [dictionary.bos(), dictionary.pad(), dictionary.eos()]
        table = piece_table(dictionary.symbols, dictionary.unk(), special)
        entries = Entries(self._word_encoder())
        builder = TextBuilder(dictionary.symbols, table, dictionary.bos() if cfg.prepend_bos else None)
        found, lexicons = [], []
        for language in self.restore_languages:
            entries.use(read_lexicons([file.path for file in files[language]], cfg.lexicon_top_k))
            texts = self._texts(split, folder, language, combine)
            found.append(builder.add(texts, dictionary.index(f"[{language}]"), entries))
            lexicons.append(entries.lexicon)
            self._report(f"{split} {language}", _shown(files[language]), found[-1], entries)
        if split == self.cfg.train_subset:
            self._compare_texts(files, found, lexicons)
        return CodeSwitchingDataset(
            builder.build(entries.table(), cfg.switch_ratio),
            [coverage.sentences for coverage in found],
            Switching(cfg.switch_ratio, cfg.switch_span, cfg.seed),
            dictionary,
            cfg.left_pad_source,
            cfg.left_pad_target,
        )

    def _word_encoder(self) -> WordEncoder:
        path = self.cfg.sentencepiece_model
        if not os.path.isfile(path):
            raise ValueError(
                f"--sentencepiece-model {path or '(empty)'}: there is no such file; valid: the model that the data were cut with"
            )
        try:
            model = SentencePieceProcessor(model_file=path)
        except (RuntimeError, OSError) as error:
            raise ValueError(f"--sentencepiece-model {path}: is no sentencepiece model ({error})") from error
        return WordEncoder(model, self.src_dict)

    def _texts(self, split: str, folder: str, language: str, combine: bool) -> List[Any]:
        """``train`` and, where they are to be combined, ``train1``, ``train2`` ..."""
        pair, prefix = f"{self.cfg.source_lang}-{self.cfg.target_lang}", os.path.join(folder, split)
        prefixes = [prefix]
        for number in count(1) if combine else ():
            names = [f"{prefix}{number}.{name}.{language}.idx" for name in (f"{language}-None", *both_orders(pair))]
            if not any(os.path.isfile(name) for name in names):
                break
            prefixes.append(f"{prefix}{number}")
        return [load_monolingual(part, language, [pair], self.src_dict, "--restore-langs") for part in prefixes]

    def _report(self, name: str, files: str, found: Coverage, entries: Entries) -> None:
        """Log what the lexicon covers; refuse one that finds no word of the text, with the likely reason."""
        logger.info(
            f"{name}: {found.sentences} sentences, {found.words} words, {100 * found.share:.1f} % of them with an entry; "
            f"{entries.kept} candidates ({entries.same} are the word itself), {entries.left_out} more left out with <unk>"
        )
        if found.covered == 0 or is_backwards(found.counts, entries.lexicon):
            reason = diagnosis(found.counts, entries.lexicon)
            if entries.left_out:
                reason = f"all {entries.left_out} candidates of its words have <unk>: the dictionary lacks their pieces"
            raise ValueError(
                f"--lexicon {files}: {100 * found.share:.1f} % of the words of {name} have an entry; {reason}"
            )

    def _compare_texts(
        self, files: Dict[str, List[LexiconFile]], found: Sequence[Coverage], lexicons: Sequence[Lexicon]
    ) -> None:
        """Refuse candidates that are no words of the other texts, where all languages that a lexicon goes into have one."""
        names = {name: language for language in self.restore_languages for name in language_names(language)}
        for place, (language, coverage, lexicon) in enumerate(zip(self.restore_languages, found, lexicons)):
            targets = {file.target for file in files[language]}
            if not targets <= set(names):
                continue
            others = [text for number, other in enumerate(found) if number != place for text in other.counts]
            share = share_translated(coverage.counts, lexicon, others)
            if share < LEAST_TRANSLATED:
                what = f"--lexicon {_shown(files[language])}: the text of {', '.join(sorted(targets))} has"
                raise ValueError(
                    f"{what} a candidate for {100 * share:.1f} % of the words with an entry; valid: at least "
                    f"{100 * LEAST_TRANSLATED:.0f} %. It looks like a lexicon into another language"
                )

    # ---- Two stages in one run. ----

    def get_batch_iterator(self, dataset: FairseqDataset, *args: Any, **options: Any) -> Any:
        """The stock iterator; with ``--restore-updates`` an epoch of the training set is of one stage, see :class:`Stages`."""
        if not isinstance(dataset, StagedDataset):
            return super().get_batch_iterator(dataset, *args, **options)
        epoch = options.get("epoch", 1)
        stages = Stages(
            self.cfg.restore_updates or 0,
            list(self.cfg.update_freq),
            options.get("num_shards", 1),
            bool(options.get("skip_remainder_batch")),
        )
        batches = stages.batches(epoch, lambda number: self._count_batches(self._folder(number), options))
        if batches is None:
            logger.info(f"epoch {epoch} is translation")
            return super().get_batch_iterator(dataset.translation, *args, **options)
        restore = self._restore_of(self._folder(epoch))
        restore.most_batches = batches
        logger.info(f"epoch {epoch} is restore: {batches} batches")
        return super().get_batch_iterator(restore, *args, **options)

    def _restore_of(self, folder: str) -> CodeSwitchingDataset:
        """Training set of the first stage; the last one is kept."""
        if self._restore is None or self._restore[0] != folder:
            self._restore = (folder, self._load_restore(self.cfg.train_subset, folder, self._combine))
        return self._restore[1]

    def _count_batches(self, folder: str, options: Dict[str, Any]) -> int:
        """Batches of a restore epoch of a folder, for all processes; every epoch has as many."""
        if folder not in self._batches:
            restore = self._restore_of(folder)
            restore.most_batches = None
            indices = restore.ordered_indices()
            if options.get("max_positions") is not None:
                indices = self.filter_indices_by_size(indices, restore, options["max_positions"], True)
            limits = ("max_tokens", "max_sentences", "required_batch_size_multiple")
            batches = restore.batch_by_size(indices, **{name: options[name] for name in limits if name in options})
            self._batches[folder] = len(batches)
        return self._batches[folder]

    def train_step(
        self, sample: Any, model: Any, criterion: Any, optimizer: Any, update_num: int, *args: Any, **kwargs: Any
    ) -> Tuple[Any, Any, Dict[str, Any]]:
        """The stock step, which also logs what was switched; the first update of the second stage begins with empty moments."""
        if self.cfg.restore_updates is not None:
            if update_num == self.cfg.restore_updates:
                # Once for each batch of the update: no step lies between, so that this is one reset, also after a resume.
                reset_moments(optimizer.optimizer)
            self._check_stage("switching" in sample, update_num, self.cfg.restore_updates)
        loss, size, logged = super().train_step(sample, model, criterion, optimizer, update_num, *args, **kwargs)
        return loss, size, {**logged, **_counts(sample)}

    def _check_stage(self, restoring: bool, update_num: int, first_stage: int) -> None:
        """Say once that stage and update do not agree."""
        if restoring != (update_num < first_stage) and not self._warned:
            self._warned = True
            logger.warning(
                f"--restore-updates {first_stage}: update {update_num} is {'restore' if restoring else 'translation'}"
                "; updates were skipped for overflows, or the run was resumed with other batches or another number of processes"
            )

    def valid_step(self, sample: Dict[str, Any], model: Any, criterion: Any) -> Tuple[Any, Any, Dict[str, Any]]:
        loss, size, logged = super().valid_step(sample, model, criterion)
        return loss, size, {**logged, **_counts(sample)}

    def reduce_metrics(self, logging_outputs: List[Dict[str, Any]], criterion: Any) -> None:
        """The stock metrics; for restore also the shares of words replaced (``switched``) and with an entry (``coverage``)."""
        super().reduce_metrics(logging_outputs, criterion)
        words, covered, switched = (sum(int(log.get(key, 0)) for log in logging_outputs) for key in LOGGED.values())
        if words:
            metrics.log_scalar("switched", switched / words, words, round=4)
            metrics.log_scalar("coverage", covered / words, words, round=4)


def _shown(files: Sequence[LexiconFile]) -> str:
    return ", ".join(str(file.path) for file in files)


def _counts(sample: Dict[str, Any]) -> Dict[str, int]:
    """Counts of a batch; zeros for translation, since the logs of all processes must have the same keys."""
    counts = sample.get("switching", {})
    return {key: counts.get(name, 0) for name, key in LOGGED.items()}


def reset_moments(optimizer: Any) -> None:
    """Forget what a torch optimiser has gathered of former gradients, and its count of steps; options stay as they are."""
    optimizer.state.clear()
    for group in optimizer.param_groups:
        if "step" in group:  # apex counts there
            group["step"] = 0
