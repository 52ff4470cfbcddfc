"""Task ``sga_translation``: fairseq's translation with XLM-R's input and SGA's decoding."""

from dataclasses import fields
from types import SimpleNamespace
from typing import Any, Dict, List, Optional

import numpy as np
import torch
from fairseq.data import Dictionary, LanguagePairDataset, PrependTokenDataset
from fairseq.dataclass.configs import GenerationConfig
from fairseq.modules.fairseq_dropout import FairseqDropout
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from ..common.data_bins import BinSide, refuse_empty
from ..common.options import check_rules, flag
from ..common.own_run import OwnRun
from ..common.shards import check_pair_folders, split_folders, take_turn
from ..compat.own_runs import temporary_options
from ..compat.stored_models import drop_retired
from ..ops.masks import SOURCE_LENGTHS, TARGET_LENGTHS, source_lengths, target_lengths
from .decoding import SGAGenerator
from .state import PAIRS, check_decoded_pairs, check_same_pairs
from .target_rows import find_target_rows
from .variants import JOINED_DECODING_RULES, JoinedTranslationConfig, build_generator


@register_task("sga_translation", dataclass=JoinedTranslationConfig)
class SGATranslationTask(OwnRun, TranslationTask):
    """Translation for a frozen masked LM: its dictionary, and ``<s>`` before the source.

    The data-bin is stock: ``fairseq-preprocess --srcdict dict.txt --tgtdict dict.txt`` with the
    masked LM's ``dict.txt``, to which the task adds ``<mask>``. The target's ``dict.txt`` may hold
    some of its entries; see ``target_rows.py``.
    """

    criterions = ("sga_ctc", "sga_dag", "sga_mask_predict")
    fills_slots = True
    """For models whose decoder fills all slots at once."""
    from_checkpoint = False

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> "SGATranslationTask":
        """Check the side of the padding, and read the dictionaries.

        Raises:
            ValueError: padding on the left, or a target whose entries the source's dictionary
                lacks.
        """
        for name in ("left_pad_source", "left_pad_target"):
            if str(getattr(cfg, name)) == "True":
                raise ValueError(
                    f"{flag(name)} must be False: slots, positions and labels are counted from the "
                    "left"
                )
        task = super().setup_task(cfg, **kwargs)
        languages = (cfg.source_lang, cfg.target_lang)
        files = [f"dict.{language}.txt in {cfg.data}" for language in languages]
        find_target_rows(task.src_dict, task.tgt_dict, *files)
        return task

    @classmethod
    def load_dictionary(cls, filename: str) -> Dictionary:
        """Read a dictionary and add ``<mask>`` as its last entry, as XLM-R has it."""
        dictionary = super().load_dictionary(filename)
        dictionary.add_symbol("<mask>")
        return dictionary

    # ---- Data. ----

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """Load stock language pairs, and put ``<s>`` before the source.

        Raises:
            ValueError: an empty source or, in training, an empty target.
        """
        if split == self.cfg.train_subset and not self.from_checkpoint:
            check_pair_folders(self.cfg, split)
        # What --truncate-source leaves must have room for <s>.
        with temporary_options(self.cfg, max_source_positions=self.cfg.max_source_positions - 1):
            super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        dataset = self.datasets[split] = SlotPairs.wrap(self.datasets[split])
        self._refuse_empty(dataset, split, epoch)
        dataset.src = PrependTokenDataset(dataset.src, self.source_dictionary.bos())
        dataset.src_sizes = dataset.src_sizes + 1
        dataset.sizes = dataset.src_sizes
        if dataset.tgt_sizes is not None:
            dataset.sizes = np.stack([dataset.src_sizes, dataset.tgt_sizes], 1)

    def _refuse_empty(self, dataset: LanguagePairDataset, split: str, epoch: int) -> None:
        """Raise ValueError for empty sources and, in training, empty targets."""
        folders = split_folders(self.cfg.data)
        is_train_split = split == self.cfg.train_subset
        languages = (self.cfg.source_lang, self.cfg.target_lang)
        sides = [dataset.src]
        # The train split may be decoded or validated too; its targets may then be empty.
        if is_train_split and not self.from_checkpoint and dataset.tgt is not None:
            sides.append(dataset.tgt)
        # fairseq reads the folders of ``data`` in turn, one in each epoch of training.
        folder = take_turn(folders, epoch if is_train_split else 1)
        for side, language in zip(sides, languages):
            refuse_empty(side, BinSide(folder, split, languages, language, self.cfg.dataset_impl))

    def build_dataset_for_inference(
        self, src_tokens: List[Any], src_lengths: List[int], constraints: Optional[Any] = None
    ) -> LanguagePairDataset:
        """Build a dataset of raw sentences, for ``fairseq-interactive`` and the hub interface."""
        bos = torch.tensor([self.source_dictionary.bos()])
        rows = [torch.cat([bos.to(tokens), tokens]) for tokens in src_tokens]
        lengths = [int(length) + 1 for length in src_lengths]
        dataset = super().build_dataset_for_inference(rows, lengths, constraints)
        dataset.left_pad_source = False
        return dataset

    # ---- Model and decoding. ----

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build the model. Raises ValueError for a checkpoint of one that does not fill slots."""
        self.from_checkpoint = from_checkpoint
        model = super().build_model(cfg, from_checkpoint)
        if from_checkpoint and not hasattr(model, "slot_lengths"):
            raise ValueError(
                f"--task {self.cfg._name or 'sga_translation'} decodes SGA and nat_ctc alone, this "
                f"checkpoint is a {type(model).__name__}: give the task that it was trained with, "
                "as --task translation"
            )
        return model

    def build_criterion(self, cfg: Any, *args: Any, **kwargs: Any) -> Any:
        """Build the criterion; a checkpoint that is validated may record retired options."""
        return super().build_criterion(drop_retired(cfg), *args, **kwargs)

    def build_generator(
        self,
        models: List[Any],
        args: Any,
        seq_gen_cls: Any = None,
        extra_gen_cls_kwargs: Any = None,
        **kwargs: Any,
    ) -> SGAGenerator:
        """Build the generator of the model's alignment.

        Raises ValueError for options that do not fit it.
        """
        options = decoding_options(self.cfg, args, models)
        check_decoding(options, args, models)
        languages = (self.cfg.source_lang, self.cfg.target_lang)
        return build_generator(
            options, self.target_dictionary, languages, self.cfg.data, self.source_dictionary
        )

    # ---- State: the pairs that the prompts were trained on. ----

    def pairs_in_use(self) -> List[str]:
        """List the pairs of this command line, as in ``de-en``: trained, or decoded."""
        languages = (self.cfg.source_lang, self.cfg.target_lang)
        return [] if None in languages else ["-".join(languages)]

    def state_dict(self) -> Dict[str, Any]:
        """Add the pairs to the state that a checkpoint keeps."""
        return {**super().state_dict(), PAIRS: self.pairs_in_use()}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Compare the pairs with those of a checkpoint that is about to be decoded."""
        check_decoded_pairs(self.pairs_in_use(), self.cfg.target_lang, state_dict)
        super().load_state_dict(state_dict)

    def get_checkpoint_dict(self) -> Dict[str, Any]:
        """Return the state for a resumed run, by task class: either SGA task may go on."""
        return dict.fromkeys(("SGATranslationTask", "SGATranslationMultiTask"), self.state_dict())

    def set_checkpoint_dict(self, state: Dict[str, Any]) -> None:
        """Compare the pairs when a run is resumed.

        Raises ValueError if it was trained on other pairs.
        """
        check_same_pairs(self.pairs_in_use(), state.get(PAIRS), "the checkpoint to continue")


class SlotPairs(LanguagePairDataset):
    """Stock pairs whose batches have their lengths on the host too.

    ``host_src_lengths`` and ``host_tgt_lengths`` are read without waiting for a device to finish
    its work.
    """

    @classmethod
    def wrap(cls, dataset: LanguagePairDataset) -> "SlotPairs":
        """Copy a dataset's attributes into one with this collater."""
        pairs = cls.__new__(cls)
        pairs.__dict__.update(vars(dataset))
        return pairs

    def collater(self, samples: List[Dict[str, Any]], **options: Any) -> Dict[str, Any]:
        """Collate as stock does, and add the lengths as arrays (B,)."""
        batch: Dict[str, Any] = super().collater(samples, **options)
        if batch:
            # Copied: a worker that sends the batch moves the memory of its tensors.
            batch[SOURCE_LENGTHS] = np.array(source_lengths(batch))
        if batch.get("target") is not None:
            pad, eos = self.tgt_dict.pad(), self.tgt_dict.eos()
            batch[TARGET_LENGTHS] = np.array(target_lengths(batch, pad, eos))
        return batch


def decoding_options(cfg: Any, args: Any, models: List[Any]) -> Any:
    """Collect all that decides about decoding; the rules of decoding are about these names.

    Options of the task may stand in ``args`` too, as in ``--eval-bleu-args``.

    Args:
        cfg: options of the task.
        args: fairseq's generation options.
        models: to be decoded; the first tells its alignment.
    """
    model: Any = models[0] if models else None
    stock = {field.name for field in fields(TranslationConfig)}
    options = SimpleNamespace(
        iter_decode_max_iter=getattr(args, "iter_decode_max_iter", 10),
        iter_decode_force_max_iter=getattr(args, "iter_decode_force_max_iter", False),
        retain_iter_history=getattr(args, "retain_iter_history", False),
        nbest=getattr(args, "nbest", 1),
        lenpen=getattr(args, "lenpen", 1.0),
        alignment=getattr(model, "alignment", "ctc"),
        has_denoiser=getattr(model, "has_denoiser", False),
        longest_target=getattr(model, "longest_target", 0),
    )
    for field in fields(JoinedTranslationConfig):
        if field.name not in stock:
            setting = getattr(args, field.name, None)
            setattr(options, field.name, getattr(cfg, field.name) if setting is None else setting)
    options.most_hypotheses = max(options.iter_decode_ctc_beam, 1)
    return options


# ---- Generation options of fairseq that nothing here reads. ----

_UNREAD = (
    "lenpen unkpen min_len max_len_a max_len_b match_source_len no_early_stop no_repeat_ngram_size "
    "unnormalized sampling sampling_topk sampling_topp temperature diverse_beam_groups "
    "diverse_beam_strength diversity_rate lm_path lm_weight score_reference print_alignment "
    "replace_unk decoding_format eos_token iter_decode_with_beam iter_decode_eos_penalty "
    "iter_decode_with_external_reranker"
)
UNREAD_OPTIONS = {name: getattr(GenerationConfig(), name) for name in _UNREAD.split()}
"""Options of a search from left to right, or of other iterative models -> defaults."""

HINTS = {
    "lenpen": "; --rerank-at and --dag-decoding viterbi read it",
    "iter_decode_with_external_reranker": "; use --rerank-at PATH",
}


def check_decoding(options: Any, args: Any, models: List[Any]) -> None:
    """Raise ValueError for decoding options that break a rule, or that nothing would read.

    ``--beam`` is let pass: every recipe has it.

    Args:
        options: see :func:`decoding_options`.
        args: fairseq's generation options.
        models: to be decoded.
    """
    reads_lenpen = bool(options.rerank_at) or options.alignment == "dag"
    for name, default in UNREAD_OPTIONS.items():
        setting = getattr(args, name, default)
        if setting != default and not (reads_lenpen and name == "lenpen"):
            typed = flag(name) + ("" if setting is True else f" {setting}")
            valid = "leave it out" if default is None or default is False else f"valid: {default}"
            reason = "has no meaning for SGA, which decodes all tokens at once"
            raise ValueError(f"{typed} {reason}; {valid}{HINTS.get(name, '')}")
    if getattr(args, "retain_dropout", False):
        check_dropout(models)
    check_rules(options, JOINED_DECODING_RULES)


def check_dropout(models: List[Any]) -> None:
    """Raise ValueError for a model without dropout that fairseq could keep in decoding.

    fairseq keeps dropout in its own modules alone, and SGA's units have none of them.
    """
    for model in models:
        if not any(isinstance(module, FairseqDropout) for module in model.modules()):
            raise ValueError(
                f"--retain-dropout: {type(model).__name__} has no dropout that could be kept; "
                "leave it out"
            )
