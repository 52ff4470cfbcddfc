"""Task ``translation_from_pretrained_veco``: translation in the authors' conventions."""

import logging
import os
from dataclasses import dataclass
from typing import Any, Optional, Sequence, Tuple

import torch
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask, load_langpair_dataset
from omegaconf import II
from torch import Tensor

from ..common.data_bins import is_training
from ..common.old_options import add_old_options
from ..common.options import check_choices, option
from ..common.own_run import TRANSLATION_CRITERIONS, OwnRun
from ..common.shards import check_pair_folders, split_folders, take_turn
from ..compat.starting import DEFAULT
from .config import CHECKPOINT_KINDS
from .dictionary_map import check_dictionary_map, read_dictionary_map

logger = logging.getLogger(__name__)

MISSING_TAGS: Any = ChoiceEnum(["unk", "error"])


@dataclass
class VECOTranslationConfig(TranslationConfig):
    """Options of stock translation and those of VECO's fine-tuning."""

    resized_dict_map: Optional[str] = option(
        None,
        "file that says which entries of the pretrained dict.txt the data's dictionary has: a line "
        "each, 1 or 0, in its order (the four special symbols are not listed, nor <mask> in the "
        "authors' maps), as data_prep.cut_vocabulary writes it; the pretrained embedding is cut by "
        "it",
    )
    missing_language_tag: MISSING_TAGS = option(
        "error",
        "stand-in for a language whose tag ([en]) the dictionary does not have: error; unk = "
        "<unk>, as in the authors' runs, with a warning",
    )
    veco_checkpoint_kind: Optional[CHECKPOINT_KINDS] = option(
        None,
        "kind of a checkpoint that does not store it in its task or options: released (default) = "
        "the authors' pre-training, pretraining = veco_pretraining, run = a translation model, "
        "whose layers and rows are taken as they are",
    )
    restore_file: str = II("checkpoint.restore_file")
    finetune_from_model: Optional[str] = II("checkpoint.finetune_from_model")
    continue_once: Optional[str] = II("checkpoint.continue_once")
    save_dir: str = II("checkpoint.save_dir")


@register_task("translation_from_pretrained_veco", dataclass=VECOTranslationConfig)
class TranslationFromPretrainedVECOTask(OwnRun, TranslationTask):
    """Translate with language tags, as the authors do.

    Sources and targets end with ``</s> [language]``; decoding starts and ends with the target
    language's tag.

    A restarted run continues from its own ``checkpoint_last.pt``; ``--restore-file`` and the
    ``--reset-*`` options beside it apply to its first start only, unless that file is one of the
    run itself, ``checkpoint*`` or ``average*`` (see :class:`OwnRun`).

    Attributes:
        kept_rows: the dictionary map, True = the entry is in the data's dictionary; None without
            one. The model cuts pretrained rows by it.
        checkpoint_kind: value of ``--veco-checkpoint-kind``, which the model reads.

    Source: the authors' fine-tuning commands; VECO section 5.1.
    """

    criterions = TRANSLATION_CRITERIONS
    continues_its_own_run = True
    tgt_dict: Any

    @classmethod
    def add_args(cls, parser: Any) -> None:
        """Add the options, and those of the authors' command lines that fairseq renamed."""
        super().add_args(parser)
        add_old_options(parser)

    def __init__(self, cfg: VECOTranslationConfig, src_dict: Dictionary, tgt_dict: Dictionary):
        super().__init__(cfg, src_dict, tgt_dict)
        choices = {
            "missing_language_tag": MISSING_TAGS,
            "veco_checkpoint_kind": CHECKPOINT_KINDS,
        }
        check_choices(cfg, choices)
        kind = cfg.veco_checkpoint_kind
        self.checkpoint_kind: Optional[str] = None if kind is None else str(kind)
        self.kept_rows: Optional[Tuple[bool, ...]] = None
        if cfg.resized_dict_map:
            self.kept_rows = read_dictionary_map(cfg.resized_dict_map)
            check_dictionary_map(self.kept_rows, src_dict, cfg.resized_dict_map)
        self.source_tag = self._find_tag("source", cfg.source_lang, src_dict)
        self.target_tag = self._find_tag("target", cfg.target_lang, tgt_dict)

    def build_model(self, cfg: FairseqDataclass, from_checkpoint: bool = False) -> Any:
        """Build the model as stock does.

        Raises:
            ValueError: there is a dictionary map, but no pretrained file whose rows it would cut.
        """
        task = self.cfg
        starts_from_a_file = (
            any((task.finetune_from_model, task.continue_once, getattr(cfg, "init_from_mlm", None)))
            or task.restore_file != DEFAULT
            or os.path.exists(os.path.join(task.save_dir, DEFAULT))
        )
        if self.kept_rows is not None and not from_checkpoint and not starts_from_a_file:
            raise ValueError(
                f"--resized-dict-map {task.resized_dict_map}: there are no pretrained rows to cut; "
                "valid with --restore-file, --finetune-from-model or --init-from-mlm"
            )
        return super().build_model(cfg, from_checkpoint)

    def _find_tag(self, side: str, language: str, dictionary: Dictionary) -> int:
        """Return the index of a language's tag, or of ``<unk>`` if the option allows that."""
        tag = f"[{language}]"
        if tag in dictionary:
            return int(dictionary.index(tag))
        problem = f"the dictionary has no entry {tag} for --{side}-lang {language}"
        if str(self.cfg.missing_language_tag) == "error":
            raise ValueError(
                f"--missing-language-tag error: {problem}; valid: a dict.txt with it, or "
                "--missing-language-tag unk, as in the authors' runs (in training and decoding)"
            )
        reason = "as in the authors' runs (--missing-language-tag unk)"
        logger.warning("%s: <unk> stands for it, %s", problem, reason)
        return int(dictionary.unk())

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """Load stock language pairs whose sources and targets end with their language."""
        cfg, folders = self.cfg, split_folders(self.cfg.data)
        if split != cfg.train_subset:
            folders = folders[:1]  # the others hold only training data
        elif is_training(split, cfg.train_subset, kwargs):
            check_pair_folders(cfg, split)
        self.datasets[split] = load_langpair_dataset(
            take_turn(folders, epoch),
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
            # --truncate-source leaves room for the tag.
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
        self,
        src_tokens: Sequence[Tensor],
        src_lengths: Sequence[int],
        constraints: Optional[Tensor] = None,
    ) -> LanguagePairDataset:
        """Build a dataset of raw sentences, for ``fairseq-interactive`` and the hub interface.

        Args:
            src_tokens: (S,) int64 each, with ``</s>``; the source language's tag is added.
        """
        rows = [torch.cat([row, row.new_tensor([self.source_tag])]) for row in src_tokens]
        lengths = [int(length) + 1 for length in src_lengths]
        dataset = super().build_dataset_for_inference(rows, lengths, constraints)
        dataset.left_pad_source = self.cfg.left_pad_source
        return dataset

    def build_generator(
        self,
        models: Any,
        args: Any,
        seq_gen_cls: Any = None,
        extra_gen_cls_kwargs: Any = None,
        **options: Any,
    ) -> Any:
        """Build the stock generator (or scorer of references), with the tag in place of </s>."""
        if getattr(args, "score_reference", False):
            aligned = getattr(args, "print_alignment", False)
            dictionary = self.target_dictionary
            return SequenceScorer(dictionary, compute_alignment=aligned, eos=self.target_tag)
        extra = {**(extra_gen_cls_kwargs or {}), "eos": self.target_tag}
        return super().build_generator(models, args, seq_gen_cls, extra, **options)
