"""Task ``translation_from_pretrained_veco``: stock translation in the authors' conventions, with a cut dictionary."""

import logging
import os
import re
from dataclasses import dataclass
from typing import Any, Optional, Sequence, Tuple

import torch
from fairseq import utils
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask, load_langpair_dataset
from omegaconf import II
from torch import Tensor

from ..common.old_options import add_old_options
from ..common.options import option
from ..common.own_run import OwnRun
from ..compat.starting import DEFAULT

logger = logging.getLogger(__name__)

MISSING_TAGS: Any = ChoiceEnum(["unk", "error"])
_ADDED = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]|madeupword\d+")
"""Entries that a cut dictionary may have behind those that a map keeps."""


@dataclass
class VECOTranslationConfig(TranslationConfig):
    """Options of stock translation and the two of VECO's fine-tuning."""

    resized_dict_map: Optional[str] = option(
        None,
        "which entries of the pretrained dict.txt the data's dictionary has: a line each, 1 or 0, in its order (the "
        "four special symbols are not listed, nor <mask> in the authors' maps), as data_prep.cut_vocabulary writes it; the "
        "pretrained embedding is cut by it",
    )
    missing_language_tag: MISSING_TAGS = option(
        "error",
        "what stands for a language whose tag ([en]) the dictionary does not have: error; unk = <unk>, as in the "
        "authors' runs, with a warning",
    )
    restore_file: str = II("checkpoint.restore_file")
    finetune_from_model: Optional[str] = II("checkpoint.finetune_from_model")
    continue_once: Optional[str] = II("checkpoint.continue_once")
    save_dir: str = II("checkpoint.save_dir")


@register_task("translation_from_pretrained_veco", dataclass=VECOTranslationConfig)
class TranslationFromPretrainedVECOTask(OwnRun, TranslationTask):
    """Rows end with ``</s> [language]``; decoding starts and ends with the target language's tag.

    A restarted run continues from its own ``checkpoint_last.pt``, whatever ``--restore-file`` and the ``--reset-*`` options beside
    it say: they are for its start. Only a file of the run itself, ``checkpoint*`` or ``average*``, is gone back to (see
    :class:`OwnRun`).

    Attributes:
        kept_rows: the dictionary map, True = the entry is in the data's dictionary; None without one. The model cuts by it.

    Source: the authors' fine-tuning commands; VECO section 5.1.
    """

    criterions = ("cross_entropy", "label_smoothed_cross_entropy", "adaptive_loss")
    continues_its_own_run = True
    tgt_dict: Any

    @classmethod
    def add_args(cls, parser: Any) -> None:
        super().add_args(parser)
        add_old_options(parser)

    def __init__(self, cfg: VECOTranslationConfig, src_dict: Dictionary, tgt_dict: Dictionary):
        super().__init__(cfg, src_dict, tgt_dict)
        self.kept_rows: Optional[Tuple[bool, ...]] = None
        if cfg.resized_dict_map:
            self.kept_rows = read_dictionary_map(cfg.resized_dict_map)
            check_dictionary_map(self.kept_rows, src_dict, cfg)
        if str(cfg.missing_language_tag) not in [str(choice) for choice in MISSING_TAGS]:
            raise ValueError(f"--missing-language-tag must be unk or error; got {cfg.missing_language_tag}")
        self.source_tag = self._tag("source", cfg.source_lang, src_dict)
        self.target_tag = self._tag("target", cfg.target_lang, tgt_dict)

    def build_model(self, cfg: FairseqDataclass, from_checkpoint: bool = False) -> Any:
        """The stock way; refuses to train with a dictionary map where there is no pretrained file whose rows it would cut."""
        task = self.cfg
        starts_from_a_file = (
            any((task.finetune_from_model, task.continue_once, getattr(cfg, "init_from_mlm", None)))
            or task.restore_file != DEFAULT
            or os.path.exists(os.path.join(task.save_dir, DEFAULT))
        )
        if self.kept_rows is not None and not from_checkpoint and not starts_from_a_file:
            raise ValueError(
                f"--resized-dict-map {task.resized_dict_map}: there are no pretrained rows to cut; valid with --restore-file, "
                "--finetune-from-model or --init-from-mlm"
            )
        return super().build_model(cfg, from_checkpoint)

    def _tag(self, side: str, language: str, dictionary: Dictionary) -> int:
        """Index of a language's tag, or of ``<unk>`` where the option allows that."""
        tag = f"[{language}]"
        if tag in dictionary:
            return int(dictionary.index(tag))
        problem = f"the dictionary has no entry {tag} for --{side}-lang {language}"
        if str(self.cfg.missing_language_tag) == "error":
            raise ValueError(
                f"--missing-language-tag error: {problem}; valid: a dict.txt with it, or --missing-language-tag unk, as in the "
                "authors' runs (in training and decoding)"
            )
        logger.warning("%s: <unk> stands for it, as in the authors' runs (--missing-language-tag unk)", problem)
        return int(dictionary.unk())

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        cfg, paths = self.cfg, utils.split_paths(self.cfg.data)
        if split != cfg.train_subset:
            paths = paths[:1]  # the others hold further training data alone
        self.datasets[split] = load_langpair_dataset(
            paths[(epoch - 1) % len(paths)],
            split,
            cfg.source_lang,
            self.src_dict,
            cfg.target_lang,
            self.tgt_dict,
            combine=combine,
            dataset_impl=cfg.dataset_impl,
            upsample_primary=cfg.upsample_primary,
            left_pad_source=cfg.left_pad_source,
            left_pad_target=cfg.left_pad_target,
            # What --truncate-source leaves must have room for the tag.
            max_source_positions=cfg.max_source_positions - bool(cfg.truncate_source),
            max_target_positions=cfg.max_target_positions,
            load_alignments=cfg.load_alignments,
            truncate_source=cfg.truncate_source,
            append_source_id=True,
            num_buckets=cfg.num_batch_buckets,
            shuffle=(split != "test"),
            pad_to_multiple=cfg.required_seq_len_multiple,
        )

    def build_dataset_for_inference(
        self, src_tokens: Sequence[Tensor], src_lengths: Sequence[int], constraints: Optional[Tensor] = None
    ) -> LanguagePairDataset:
        """Rows for fairseq-interactive: what it read, (S,) int64 each with ``</s>``, and the source language's tag behind."""
        rows = [torch.cat([row, row.new_tensor([self.source_tag])]) for row in src_tokens]
        dataset = super().build_dataset_for_inference(rows, [int(length) + 1 for length in src_lengths], constraints)
        dataset.left_pad_source = self.cfg.left_pad_source
        return dataset

    def build_generator(
        self, models: Any, args: Any, seq_gen_cls: Any = None, extra_gen_cls_kwargs: Any = None, **options: Any
    ) -> Any:
        """Stock generator (or scorer of references) that starts and ends rows with the target language's tag."""
        if getattr(args, "score_reference", False):
            aligned = getattr(args, "print_alignment", False)
            return SequenceScorer(self.target_dictionary, compute_alignment=aligned, eos=self.target_tag)
        more = {**(extra_gen_cls_kwargs or {}), "eos": self.target_tag}
        return super().build_generator(models, args, seq_gen_cls=seq_gen_cls, extra_gen_cls_kwargs=more, **options)


def read_dictionary_map(path: str) -> Tuple[bool, ...]:
    """Read ``--resized-dict-map``; refuses a line that is neither 0 nor 1."""
    option = f"--resized-dict-map {path}"
    try:
        with open(path, encoding="utf-8") as stream:
            lines = stream.read().splitlines()
    except (OSError, UnicodeError) as error:
        raise ValueError(f"{option}: cannot be read ({error}); valid: a file with a 0 or 1 in each line") from error
    for number, line in enumerate(lines, 1):
        if line.strip() not in ("0", "1"):
            raise ValueError(f"{option}, line {number}: {line!r}; valid: 1 = the entry stays, 0 = it does not")
    return tuple(line.strip() == "1" for line in lines)


def check_dictionary_map(kept: Sequence[bool], dictionary: Dictionary, cfg: Any) -> None:
    """Refuse a map that keeps more entries than the dictionary has, or fewer than it has before those added at its end.

    Added are ``<mask>``, the languages' tags and what pads a dictionary.
    """
    entries = dictionary.symbols[dictionary.nspecial :]
    added = 0
    while added < len(entries) and _ADDED.fullmatch(entries[-1 - added]):
        added += 1
    fewest = max(1, len(entries) - added)
    if not fewest <= sum(kept) <= len(entries):
        raise ValueError(
            f"--resized-dict-map {cfg.resized_dict_map}: keeps {sum(kept):,} entries, the data's dictionary has {len(entries):,} "
            f"beside the special ones, {added:,} of them symbols added at its end; valid: {fewest:,} to {len(entries):,} lines "
            "with 1: the map that was written with this dictionary"
        )
