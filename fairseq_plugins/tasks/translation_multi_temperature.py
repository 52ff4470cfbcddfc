"""Task ``translation_multi_temperature``: multilingual translation whose sampling temperature changes from epoch to epoch."""

import logging
import os
from argparse import Namespace
from collections import OrderedDict
from typing import Any, Dict, List, Optional

from fairseq import utils
from fairseq.data import Dictionary
from fairseq.data.multilingual.multilingual_utils import augment_dictionary
from fairseq.tasks import register_task
from fairseq.tasks.translation_multi_simple_epoch import TranslationMultiSimpleEpochTask

from ..checkpoints import read_checkpoint
from ..checkpoints.starting import started_from
from ..common.data_bins import both_orders, split_pair
from ..common.own_run import OwnRun
from ..common.sampling import TemperatureDataset, TemperatureSchedule

logger = logging.getLogger(__name__)

OPTION = "--sampling-temperature-schedule"
STOCK_SAMPLING = {"sampling_method": "concat", "sampling_temperature": 1.5}
WEIGHTS = ("sampling_weights", "sampling_weights_from_file")
LANGUAGES = "languages"  # in the state of the task, which checkpoints keep
SHOWN_AS = {
    "langs": "--langs (or --lang-dict)",
    "tags": "--lang-tok-style, --langtoks-specs, --extra-data (rows of the language tags)",
    "tags_used": "--encoder-langtok, --decoder-langtok (or --langtoks)",
    "replacing_bos_eos": "--lang-tok-replacing-bos-eos",
}


@register_task("translation_multi_temperature")
class TranslationMultiTemperatureTask(OwnRun, TranslationMultiSimpleEpochTask):
    """fairseq's ``translation_multi_simple_epoch`` with one option more; without it the data are those of the stock task.

    Checkpoints keep the languages in their order and how their tags are used: the rows of the tags follow from them, so that with
    another order the model would write another language. Decoding, resuming (fairseq-fixed, not 0.12.2) and --finetune-from-model
    compare them.

    Source: DeltaLM section 3.2 (multilingual machine translation).
    """

    criterions = ("cross_entropy", "label_smoothed_cross_entropy", "adaptive_loss")

    @staticmethod
    def add_args(parser: Any) -> None:
        TranslationMultiSimpleEpochTask.add_args(parser)
        parser.add_argument(
            OPTION,
            default=None,
            metavar="START:END:EPOCHS",
            help="sampling temperature of the language pairs: START in epoch 1, END from epoch EPOCHS + 1 on, linear between, as "
            "1:5:10; at least 1 each. Every epoch is drawn anew, with --virtual-epoch-size (or --virtual-data-size) sentences. "
            "Implies --sampling-method temperature",
        )
        # None tells what was not given: the schedule must not overrule in silence what was.
        parser.set_defaults(**dict.fromkeys(STOCK_SAMPLING))

    @classmethod
    def setup_task(cls, args: Namespace, **kwargs: Any) -> "TranslationMultiTemperatureTask":
        """Check options, pairs, dictionaries and the languages of a model to start from; then the stock way."""
        _set_sampling(args)
        for name in ("left_pad_source", "left_pad_target"):  # stock reads a bool, as checkpoints have it, as False
            setattr(args, name, str(getattr(args, name)))
        _check_pairs(args)
        task = super().setup_task(args, **kwargs)
        path = started_from(args)
        if path and task.training and not kwargs.get("from_checkpoint"):
            task.compare_languages(read_checkpoint(path).get("task_state") or {}, path)
        return task

    def __init__(self, args: Namespace, langs: List[str], dicts: Dict[str, Dictionary], training: bool):
        super().__init__(args, langs, dicts, training)
        text = getattr(args, "sampling_temperature_schedule", None)
        self.schedule = TemperatureSchedule.parse(text) if text else None
        self.state.add_factory(LANGUAGES, self._languages)
        logger.info("language tags, in the order of their rows: %s", " ".join(self.state.languages["tags"]))

    # ---- Data. ----

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Read a split; with a schedule, the training set is drawn by it. Refuses a pair without data."""
        self._check_data(split)
        if self.schedule is None or not self.training or split != self.args.train_subset:
            super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
            return
        manager = self.data_manager
        shard_epoch = manager.estimate_global_pass_epoch(epoch)
        datasets, params = manager.load_split_datasets(split, True, epoch, combine, shard_epoch=shard_epoch)
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
        """Sizes of all folders of data: stock guesses those not read yet, so that a resumed run would draw other sentences."""
        manager = self.data_manager
        counts = manager.get_split_num_data_shards(split)
        for shard in range(1, max(counts.values()) + 1):
            for param in manager.get_split_data_param_list(split, shard, shard):
                known = manager._training_data_sizes[param["key"]]
                index = manager.get_shard_id(counts[param["key"]], shard, shard)
                if index not in known:
                    known[index] = len(manager.load_a_dataset(combine=combine, **param))

    def _check_data(self, split: str) -> None:
        """Name the first pair without data, where stock fails with a KeyError."""
        paths, pairs = self.data_manager.get_data_paths_and_lang_pairs(split)
        folders = utils.split_paths(paths["main"])
        if split != getattr(self.args, "train_subset", None):
            folders = folders[:1]  # as stock does
        for pair in pairs["main"]:
            missing = [_missing_file(folder, split, pair, self.training) for folder in folders]
            # Stock goes through as many folders as have the pair, from the first one on.
            first = next((name for name in missing[: max(missing.count(None), 1)] if name), None)
            if first:
                raise ValueError(
                    f"--lang-pairs: {pair} has no data for the split {split!r}: {first} is missing or empty. Run "
                    f"fairseq-preprocess for {pair} into that folder, or take {pair} out of --lang-pairs"
                )

    # ---- Languages. ----

    def _languages(self) -> Dict[str, Any]:
        """What the rows of the language tags follow from: plain lists and strings, which checkpoints may hold."""
        rows = Dictionary()
        special = len(rows)
        args = self.args
        augment_dictionary(rows, self.langs, args.lang_tok_style, args.langtoks_specs, args.extra_data)
        return {
            "langs": [str(language) for language in self.langs],
            "tags": list(rows.symbols[special:]),
            "tags_used": [str(spec) for spec in args.langtoks["main"]],
            "replacing_bos_eos": bool(args.lang_tok_replacing_bos_eos),
        }

    def compare_languages(self, state: Dict[str, Any], origin: str) -> None:
        """Refuse a checkpoint (``origin``) whose state of the task has other languages, another order, or tags used otherwise."""
        trained = state.get(LANGUAGES)
        if trained is None:
            logger.warning(
                "%s does not tell its languages: make sure that --langs has them in the order of its training", origin
            )
            return
        for key, own in self.state.languages.items():
            if trained.get(key, own) != own:
                there, here = (",".join(value) if isinstance(value, list) else value for value in (trained[key], own))
                raise ValueError(
                    f"{origin} was trained with other language tags than this command line gives. {SHOWN_AS[key]}: "
                    f"{there} there, {here} here. Every tag has a row of the embedding by its place in that "
                    "list, so give the options of the training, in its order"
                )

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        self.compare_languages(state_dict, "the checkpoint")
        super().load_state_dict(state_dict)

    def get_checkpoint_dict(self) -> Dict[str, Any]:
        """What fairseq hands back when a run is resumed, which it does not do with the task's state."""
        return {type(self).__name__: self.state_dict()}

    def set_checkpoint_dict(self, state: Dict[str, Any]) -> None:
        self.compare_languages(state, "the checkpoint to continue")


def _set_sampling(args: Namespace) -> None:
    """Fill what was not given, and refuse a schedule beside another way of sampling."""
    text = getattr(args, "sampling_temperature_schedule", None)
    given = {name: getattr(args, name, None) for name in (*STOCK_SAMPLING, *WEIGHTS)}
    if not text:
        for name, value in STOCK_SAMPLING.items():
            setattr(args, name, value if given[name] is None else given[name])
        return
    TemperatureSchedule.parse(text)
    if given["sampling_method"] == "temperature":
        del given["sampling_method"]
    conflicts = [f"--{name.replace('_', '-')} {value}" for name, value in given.items() if value is not None]
    if conflicts:
        raise ValueError(
            f"{OPTION} {text} and {', '.join(conflicts)} exclude each other; valid: the schedule alone (it implies "
            "--sampling-method temperature), or none"
        )
    args.sampling_method = "temperature"


def _check_pairs(args: Namespace) -> None:
    """Form of the pairs, and a dictionary for each language."""
    decoding = args.source_lang is not None or args.target_lang is not None
    pairs = args.lang_pairs or []
    for pair in pairs.split(",") if isinstance(pairs, str) else pairs:
        for language, given in zip(split_pair("--lang-pairs", pair), (args.source_dict, args.target_dict)):
            path = os.path.join(utils.split_paths(args.data)[0], f"dict.{language}.txt")
            if not (decoding or given or args.fixed_dictionary or os.path.isfile(path)):
                raise ValueError(
                    f"--lang-pairs: {pair} has no dictionary: {path} is missing. Run fairseq-preprocess for {pair} into that "
                    f"folder, or take {pair} out of --lang-pairs"
                )


def _missing_file(folder: str, split: str, pair: str, training: bool) -> Optional[str]:
    """The first file that a pair lacks in a folder, None if it is all there; the reverse direction's files count, as in stock."""
    sides = pair.split("-")[: 2 if training else 1]  # decoding needs no references
    missing = None
    for name in reversed(both_orders(pair)):
        paths = [os.path.join(folder, f"{split}.{name}.{side}.{kind}") for side in sides for kind in ("idx", "bin")]
        missing = next((path for path in paths if not os.path.isfile(path) or not os.path.getsize(path)), None)
        if missing is None:
            return None
    return missing
