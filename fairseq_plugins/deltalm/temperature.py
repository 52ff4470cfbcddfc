"""Task ``translation_multi_temperature``: many language pairs, sampled at a changing temperature.

Source: DeltaLM section 3.2: "the sampling temperature increases from 1.0 to 5.0 gradually". Linear
over epochs is ours.
"""

import logging
import os
from argparse import Namespace
from collections import OrderedDict
from typing import Any, Dict, List

from fairseq.data import Dictionary
from fairseq.data.multilingual.multilingual_utils import augment_dictionary
from fairseq.tasks import register_task
from fairseq.tasks.translation_multi_simple_epoch import TranslationMultiSimpleEpochTask

from ..checkpoints import read_checkpoint
from ..checkpoints.starting import started_from
from ..common.data_bins import split_pair
from ..common.options import flag, set_architecture
from ..common.own_run import TRANSLATION_CRITERIONS, OwnRun
from ..common.sampling import TemperatureDataset, TemperatureSchedule
from ..common.shards import find_missing_file, split_folders

logger = logging.getLogger(__name__)

OPTION = "--sampling-temperature-schedule"
STOCK_SAMPLING = {"sampling_method": "concat", "sampling_temperature": 1.5}
"""Defaults of the stock task."""
WEIGHTS = ("sampling_weights", "sampling_weights_from_file")
LANGUAGES = "languages"  # in the state of the task, which checkpoints hold
TAG_OPTIONS = {
    "langs": "--langs (or --lang-dict)",
    "tags": "--lang-tok-style, --langtoks-specs, --extra-data (rows of the language tags)",
    "tags_used": "--encoder-langtok, --decoder-langtok (or --langtoks)",
    "replacing_bos_eos": "--lang-tok-replacing-bos-eos",
}
"""Entry of the state ``languages`` -> options that decide it, for messages."""


@register_task("translation_multi_temperature")
class TranslationMultiTemperatureTask(OwnRun, TranslationMultiSimpleEpochTask):
    """fairseq's ``translation_multi_simple_epoch`` with a schedule of the sampling temperature.

    Without the schedule the data are those of the stock task.

    Checkpoints hold the languages in their order and the use of their tags, because the order
    decides which row of the embedding belongs to which tag. With another order the model would
    write another language. Decoding, resuming (fairseq-fixed, not 0.12.2) and --finetune-from-model
    compare them.
    """

    criterions = TRANSLATION_CRITERIONS

    @staticmethod
    def add_args(parser: Any) -> None:
        """Add the stock options and the schedule."""
        TranslationMultiSimpleEpochTask.add_args(parser)
        parser.add_argument(
            OPTION,
            default=None,
            metavar="START:END:EPOCHS",
            help="sampling temperature of the language pairs: START in epoch 1, END from epoch "
            "EPOCHS + 1 on, linear between, as 1:5:10; at least 1 each. Every epoch is drawn anew, "
            "with --virtual-epoch-size (or --virtual-data-size) sentences. Implies "
            "--sampling-method temperature",
        )
        # None = not typed. The schedule must not overrule a typed option without an error.
        parser.set_defaults(**dict.fromkeys(STOCK_SAMPLING))

    @classmethod
    def setup_task(cls, args: Namespace, **kwargs: Any) -> "TranslationMultiTemperatureTask":
        """Check the options, set up as stock, and compare languages with the starting checkpoint.

        Raises:
            ValueError: options that exclude each other, a pair without a dictionary, or a
                checkpoint to start from that has other languages.
        """
        set_sampling(args)
        # Stock evaluates these as text; a bool, which checkpoints have, would count as False.
        for name in ("left_pad_source", "left_pad_target"):
            setattr(args, name, str(getattr(args, name)))
        check_pairs(args)
        task = super().setup_task(args, **kwargs)
        path = started_from(args)
        if path and task.training and not kwargs.get("from_checkpoint"):
            task.compare_languages(read_checkpoint(path).get("task_state") or {}, path)
        return task

    def __init__(
        self, args: Namespace, langs: List[str], dicts: Dict[str, Dictionary], training: bool
    ):
        super().__init__(args, langs, dicts, training)
        text = getattr(args, "sampling_temperature_schedule", None)
        self.schedule = TemperatureSchedule.parse(text) if text else None
        self.state.add_factory(LANGUAGES, self._describe_languages)
        tags = " ".join(self.state.languages["tags"])
        logger.info("language tags, in the order of their rows: %s", tags)

    # ---- Data. ----

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """Load a split; with a schedule, the training set is drawn anew in every epoch.

        Raises:
            ValueError: a pair has no data.
        """
        self._check_data(split)
        if self.schedule is None or not self.training or split != self.args.train_subset:
            super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
            return
        manager = self.data_manager
        shard_epoch = manager.estimate_global_pass_epoch(epoch)
        datasets, params = manager.load_split_datasets(
            split, True, epoch, combine, shard_epoch=shard_epoch
        )
        if self.has_sharded_data(split):
            self._count_all_shards(split, combine)
        self.datasets[split] = TemperatureDataset(
            OrderedDict(datasets),
            manager.get_train_dataset_sizes(params, datasets, epoch, shard_epoch),
            self.schedule,
            seed=self.args.seed,
            epoch=epoch,
            virtual_size=self.args.virtual_epoch_size or self.args.virtual_data_size,
            split=split,
            shared_collater=manager._shared_collater(),
        )

    def _count_all_shards(self, split: str, combine: bool) -> None:
        """Tell the data manager how many sentences each data folder has.

        Stock estimates those not loaded yet, so that a resumed run would draw other sentences.
        """
        manager = self.data_manager
        counts = manager.get_split_num_data_shards(split)
        for shard in range(1, max(counts.values()) + 1):
            for param in manager.get_split_data_param_list(split, shard, shard):
                sizes = manager._training_data_sizes[param["key"]]
                number = manager.get_shard_id(counts[param["key"]], shard, shard)
                if number not in sizes:
                    sizes[number] = len(manager.load_a_dataset(combine=combine, **param))

    def _check_data(self, split: str) -> None:
        """Raise ValueError for the first pair without data; stock would raise a KeyError."""
        paths, pairs = self.data_manager.get_data_paths_and_lang_pairs(split)
        folders = split_folders(paths["main"])
        if split != getattr(self.args, "train_subset", None):
            folders = folders[:1]  # as stock does
        for pair in pairs["main"]:
            missing = [find_missing_file(folder, split, pair, self.training) for folder in folders]
            # Stock goes through as many folders as have the pair, from the first one on.
            folders_read = max(missing.count(None), 1)
            path = next((path for path in missing[:folders_read] if path), None)
            if path:
                raise ValueError(
                    f"--lang-pairs: {pair} has no data for the split {split!r}: {path} is missing "
                    f"or empty. Run fairseq-preprocess for {pair} into that folder, or take {pair} "
                    "out of --lang-pairs"
                )

    # ---- Languages. ----

    def _describe_languages(self) -> Dict[str, Any]:
        """Return what decides the rows of the tags, in plain values for checkpoints."""
        rows = Dictionary()
        special = len(rows)
        args = self.args
        tag_options = (args.lang_tok_style, args.langtoks_specs, args.extra_data)
        augment_dictionary(rows, self.langs, *tag_options)
        return {
            "langs": [str(language) for language in self.langs],
            "tags": list(rows.symbols[special:]),
            "tags_used": [str(spec) for spec in args.langtoks["main"]],
            "replacing_bos_eos": bool(args.lang_tok_replacing_bos_eos),
        }

    def compare_languages(self, state: Dict[str, Any], origin: str) -> None:
        """Raise ValueError if a checkpoint has other languages, another order or other tags.

        Args:
            state: the checkpoint's task state; without languages it is accepted with a warning.
            origin: name of the checkpoint, for messages.
        """
        trained = state.get(LANGUAGES)
        if trained is None:
            text = (
                "%s does not tell its languages: make sure that --langs has them in the order of "
                "its training"
            )
            logger.warning(text, origin)
            return
        for key, setting in self.state.languages.items():
            trained_as = trained.get(key, setting)
            if trained_as != setting:
                raise ValueError(
                    f"{origin} was trained with other language tags than this command line gives. "
                    f"{TAG_OPTIONS[key]}: {_join(trained_as)} there, {_join(setting)} here. Every "
                    "tag has a row of the embedding by its place in that list, so give the options "
                    "of the training, in its order"
                )

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Compare the languages of the checkpoint that is decoded."""
        self.compare_languages(state_dict, "the checkpoint")
        super().load_state_dict(state_dict)

    def get_checkpoint_dict(self) -> Dict[str, Any]:
        """Return the task's state in the form that fairseq passes to ``set_checkpoint_dict``."""
        return {type(self).__name__: self.state_dict()}

    def set_checkpoint_dict(self, state: Dict[str, Any]) -> None:
        """Compare the languages of the checkpoint that is continued."""
        self.compare_languages(state, "the checkpoint to continue")


def _join(setting: Any) -> Any:
    return ",".join(setting) if isinstance(setting, list) else setting


# ---- Checks of the command line. ----


def set_sampling(args: Namespace) -> None:
    """Fill in the stock sampling or, with a schedule, set the method to ``temperature``.

    A schedule excludes all other options of sampling, except that method.

    Raises:
        ValueError: a schedule beside another option of sampling.
    """
    schedule = getattr(args, "sampling_temperature_schedule", None)
    if not schedule:
        set_architecture(args, STOCK_SAMPLING)
        return
    TemperatureSchedule.parse(schedule)
    settings = {name: getattr(args, name, None) for name in (*STOCK_SAMPLING, *WEIGHTS)}
    if settings["sampling_method"] == "temperature":
        del settings["sampling_method"]
    conflicts = [
        f"{flag(name)} {setting}" for name, setting in settings.items() if setting is not None
    ]
    if conflicts:
        raise ValueError(
            f"{OPTION} {schedule} and {', '.join(conflicts)} exclude each other; valid: the "
            "schedule alone (it implies --sampling-method temperature), or none"
        )
    args.sampling_method = "temperature"


def check_pairs(args: Namespace) -> None:
    """Raise ValueError for a malformed pair, or a language without a dictionary."""
    is_decoding = args.source_lang is not None or args.target_lang is not None
    pairs = args.lang_pairs or []
    folder = split_folders(args.data)[0]
    for pair in pairs.split(",") if isinstance(pairs, str) else pairs:
        for language, dictionary in zip(
            split_pair("--lang-pairs", pair), (args.source_dict, args.target_dict)
        ):
            path = os.path.join(folder, f"dict.{language}.txt")
            if is_decoding or dictionary or args.fixed_dictionary or os.path.isfile(path):
                continue
            raise ValueError(
                f"--lang-pairs: {pair} has no dictionary: {path} is missing. Run "
                f"fairseq-preprocess for {pair} into that folder, or take {pair} out of "
                "--lang-pairs"
            )
