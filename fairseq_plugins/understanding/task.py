"""Base of the understanding tasks: options, data-bin, checkpoints, several languages in one run."""

import fnmatch
import logging
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from fairseq.data import Dictionary, data_utils
from fairseq.dataclass import FairseqDataclass
from omegaconf import II, MISSING

from ..checkpoints.starting import compare_start
from ..common.data_bins import split_names
from ..common.options import check_range, option
from ..common.shards import refuse_folders
from .inputs import INPUT_FORMATS, InputFormat, InputOptions
from .languages import LanguageMixture, Languages
from .predicting import PredictingTask
from .predictions import OPTION as PREDICTIONS
from .predictions import PREDICTION_FORMATS, ROWS

logger = logging.getLogger(__name__)

MASK = "<mask>"
COMMAND = "python -m data_prep.nlu"


@dataclass
class NLUConfig(FairseqDataclass):
    """Options of all understanding tasks."""

    data: str = option(MISSING, "folder made by data_prep/nlu.sh: input0, input1, label, …")
    input_format: INPUT_FORMATS = option(
        "xlmr",
        "xlmr: <s> A </s> </s> B </s>; bert: <s> A </s> B </s>; mbart: A </s> B </s> LANG; "
        "mbart50 (and NLLB): LANG A </s> B </s>",
    )
    max_positions: int = option(512, "longest input in tokens; longer ones are cut")
    langs: str = option(
        "",
        "languages of the model in their order, as en_XX,de_DE: their symbols follow the "
        "dictionary",
    )
    language_template: str = option("[{}]", "symbol of a language; NLLB has __{}__")
    language_codes: str = option(
        "",
        "languages of subsets that --langs names otherwise, as de=deu_Latn; without it de matches "
        "de_DE",
    )
    sampling_temperature: float = option(
        1.0,
        "temperature of the languages in --train-subset train.en,train.de, at least 1: 1 = by "
        "size, larger = more equal",
    )
    predictions: str = option(
        "",
        "for fairseq-validate in one process: folder for predictions, a file SUBSET.tsv in the "
        "order of the data. Sentences: row (from 0), class, gold class; words: row, their tags, "
        "their gold tags; ranking: row, score, gold grade; question answering: SUBSET.json, an "
        "object of id and answer, as SQuAD's evaluation reads it. Subsets without labels are "
        "predicted and not scored",
    )
    predictions_format: PREDICTION_FORMATS = option(
        ROWS,
        "rows: files as --predictions says; xtreme: files of a task as XTREME's evaluation reads "
        "them, test-LANG.tsv (a class per line, or a tag per line and an empty line after each "
        "sentence) or test-LANG.json",
    )
    seed: int = II("common.seed")
    finetune_from_model: Optional[str] = II("checkpoint.finetune_from_model")
    restore_file: str = II("checkpoint.restore_file")
    save_dir: str = II("checkpoint.save_dir")


class NLUTask(PredictingTask):
    """Fine-tuning in some languages, validation in others.

    ``--train-subset train.en,train.de`` mixes languages, ``train.*`` all of them. fairseq validates
    on each of ``--valid-subset valid.en,valid.de`` and chooses the best checkpoint by the first.
    ``valid.*`` is one subset of the rows of all languages. If all have equally many rows, its
    scores are the means of the languages.

    A checkpoint holds the languages and the labels, whose order gives the numbers a meaning.
    Validating or resuming with others is refused.

    Subclasses make the dataset of a subset and add a head to the model.

    Attributes:
        has_labels: True if the data has ``label/dict.txt``.
        for_training: True while training data are loaded.
        labels: names of the classes.
    """

    cfg: NLUConfig
    has_labels = True
    for_training = False

    def __init__(
        self, cfg: NLUConfig, dictionary: Dictionary, label_dictionary: Optional[Dictionary] = None
    ):
        super().__init__(cfg)
        self.dictionary, self.label_dictionary = dictionary, label_dictionary
        self.labels = label_names(label_dictionary) if label_dictionary is not None else []
        self.input_format = InputFormat(cfg.input_format, dictionary.bos(), dictionary.eos())
        self.languages = Languages(cfg)
        self.open_predictions()

    @classmethod
    def setup_task(cls, cfg: NLUConfig, **kwargs: Any) -> "NLUTask":
        """Read the dictionaries; languages and ``<mask>`` follow the pieces.

        Raises:
            ValueError: a dictionary is missing, or an option is out of range.
        """
        check_range(cfg, "[1, inf]", "sampling_temperature", "max_positions")
        refuse_folders(
            cfg.data,
            "valid: one; put the parts beside one another as subsets, as --train-subset "
            "train.en,train.de",
        )
        symbols = Languages(cfg).symbols
        dictionary = _load_dictionary(
            os.path.join(cfg.data, "input0", "dict.txt"), os.path.join(cfg.data, "dict.txt")
        )
        for symbol in symbols:
            if symbol in dictionary:
                place = dictionary.index(symbol)
                logger.info("%s is entry %d of the dictionary already", symbol, place)
            dictionary.add_symbol(symbol)
        dictionary.add_symbol(MASK)
        entries, languages = len(dictionary), len(symbols)
        logger.info("dictionary: %d types with %s and %d languages", entries, MASK, languages)
        labels = None
        if cls.has_labels:
            labels = _load_dictionary(os.path.join(cfg.data, "label", "dict.txt"))
        task = cls(cfg, dictionary, labels)
        if task.input_format.needs_language and not cfg.langs:
            raise ValueError(
                f"--input-format {cfg.input_format} needs --langs, the model's languages in their "
                "order"
            )
        return task

    # ---- Data. ----

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """Load a subset, or several: names with commas between them, or a pattern as ``valid.*``.

        ``combine`` is True for training data.
        """
        self.for_training = combine
        if combine and self.prediction_files is not None:  # a checkpoint would keep the option
            raise ValueError(
                f"{PREDICTIONS} {self.cfg.predictions}: valid with fairseq-validate, not in "
                "training"
            )
        names = [name for pattern in split_names(split) for name in self.subsets(pattern)]
        parts = {name: self.load_language(name) for name in names}
        for name, part in parts.items():
            note = ""
            if part.cut_rows:
                limit = f"{self.cfg.max_positions} tokens ({part.cut_tokens} pieces lost)"
                note = f", {part.cut_rows} cut to {limit}"
            logger.info(f"{name}: {len(part)} rows{note}")
        self.check_labels(parts)
        if len(parts) == 1:
            self.datasets[split] = parts[names[0]]
        else:
            temperature = self.cfg.sampling_temperature if combine else 1.0
            self.datasets[split] = LanguageMixture(parts, temperature, self.cfg.seed)

    def subsets(self, pattern: str) -> List[str]:
        """List the subsets that match a name or a pattern as ``valid.*``, at least one."""
        if "*" not in pattern:
            return [pattern]
        existing = _list_subsets(os.path.join(self.cfg.data, "input0"))
        matches = fnmatch.filter(existing, pattern)
        if not matches:
            raise ValueError(
                f"subset {pattern}: matches none; subsets there: {', '.join(existing) or 'none'}"
            )
        return matches

    def load_language(self, name: str) -> Any:
        """Load one subset, as ``test.de``; the dataset counts ``cut_rows`` and ``cut_tokens``."""
        raise NotImplementedError

    def refuse_in_training(self, fault: str, valid: str, consequence: str) -> None:
        """Raise ValueError for faulty training data; warn of the consequence elsewhere."""
        if self.for_training:
            raise ValueError(f"{fault}; valid: {valid}")
        logger.warning(f"{fault}; {consequence}")

    def read(self, folder: str, name: str, dictionary: Optional[Dictionary]) -> Any:
        """Open ``DATA/FOLDER/NAME`` of fairseq-preprocess; without a dictionary, plain numbers."""
        prefix = os.path.join(self.cfg.data, folder, name)
        files = (f"{prefix}.bin", f"{prefix}.idx")
        missing = [file for file in files if not os.path.isfile(file)]
        if missing or os.path.getsize(f"{prefix}.bin") == 0:
            fault = f"{missing[0]} is missing" if missing else f"{prefix}.bin is empty"
            existing = ", ".join(_list_subsets(os.path.join(self.cfg.data, folder))) or "none"
            raise ValueError(
                f"subset {name}: {fault}; subsets there: {existing}; {COMMAND} makes them"
            )
        return data_utils.load_indexed_dataset(prefix, dictionary)

    def inputs(self, name: str) -> List[Any]:
        """Read input0 of a subset, and input1 if any subset has it."""
        has_second = bool(_list_subsets(os.path.join(self.cfg.data, "input1")))
        folders = ["input0", "input1"] if has_second else ["input0"]
        return [self.read(folder, name, self.dictionary) for folder in folders]

    def input_options(self, name: str) -> InputOptions:
        """Return the options for making inputs of a subset, with the id of its language."""
        language = None
        if self.input_format.needs_language:
            language = self.dictionary.index(self.languages.symbol(name))
        limit, pad = self.cfg.max_positions, self.dictionary.pad()
        return InputOptions(self.input_format, limit, pad, self.cfg.seed, language)

    # ---- Checkpoints. ----

    def state_dict(self) -> Dict[str, Any]:
        """Return the languages and labels, in order."""
        labels = self.label_dictionary.symbols if self.label_dictionary is not None else []
        return {"languages": self.languages.names, "labels": list(labels)}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Raise ValueError if the checkpoint has other languages or labels, or another order."""
        for entry, origin in (("languages", "--langs"), ("labels", "label/dict.txt")):
            names = self.state_dict()[entry]
            trained = list(state_dict.get(entry, names))
            if names != trained:
                raise ValueError(
                    f"{origin}: {entry} are {names}, the checkpoint was trained with {trained}; "
                    "valid: these"
                )

    def get_checkpoint_dict(self) -> Dict[str, Any]:
        """Return the state that fairseq restores on resume, unlike :meth:`state_dict`."""
        return {type(self).__name__: self.state_dict()}

    def set_checkpoint_dict(self, state: Dict[str, Any]) -> None:
        """Compare as :meth:`load_state_dict`."""
        self.load_state_dict(state)

    # ---- Model. ----

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build the architecture with the head of the task.

        Raises:
            ValueError: the model has fewer positions than ``--max-positions`` (fairseq would leave
                long rows out of training), or training starts from a checkpoint with other
                languages.
        """
        if self.input_format.needs_language and not from_checkpoint:
            compare_start(self.languages.names, self.cfg, "--langs")
        model = super().build_model(cfg, from_checkpoint)
        limits = model.max_positions()  # an encoder-decoder has two
        limit = min(limits) if isinstance(limits, tuple) else limits
        if limit is not None and self.cfg.max_positions > limit:
            raise ValueError(
                f"--max-positions {self.cfg.max_positions}: the model has {limit} positions; "
                f"valid: 1 to {limit}"
            )
        self.add_head(model)
        return model

    def add_head(self, model: Any) -> None:
        """Register the head of the task."""
        raise NotImplementedError

    def max_positions(self) -> int:
        """Return the longest input in tokens."""
        return self.cfg.max_positions

    @property
    def source_dictionary(self) -> Dictionary:
        """Dictionary of the pieces."""
        return self.dictionary

    target_dictionary = source_dictionary


def label_names(dictionary: Dictionary) -> List[str]:
    """List the labels of a dictionary without its special symbols."""
    symbols = dictionary.symbols[dictionary.nspecial :]
    return [symbol for symbol in symbols if not symbol.startswith("madeupword")]


def _list_subsets(folder: str) -> List[str]:
    files = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(name[:-4] for name in files if name.endswith(".idx"))


def _load_dictionary(*paths: str) -> Dictionary:
    """Read the first of these files that exists."""
    for path in paths:
        if os.path.isfile(path):
            return Dictionary.load(path)
    raise ValueError(f"no dictionary {paths[0]}: give the folder that {COMMAND} wrote")
