"""The base of the understanding tasks: one dictionary, a subset a language, languages' symbols, several languages in one run."""

import logging
import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from fairseq.data import Dictionary, data_utils
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import FairseqTask
from omegaconf import II, MISSING

from ...checkpoints.starting import compare_start
from ...data.language_mixture import LanguageMixture
from ...data.nlu_inputs import INPUT_FORMATS, InputFormat
from .predictions import OPTION as PREDICTIONS
from .predictions import PredictionFiles, Row, outputs_of

logger = logging.getLogger(__name__)

MASK = "<mask>"
COMMAND = "python -m data_prep.nlu"


@dataclass
class NLUConfig(FairseqDataclass):
    """Options that all understanding tasks have."""

    data: str = field(default=MISSING, metadata={"help": "folder made by data_prep/nlu.sh: input0, input1, label, …"})
    input_format: INPUT_FORMATS = field(
        default="xlmr",
        metadata={
            "help": "xlmr: <s> A </s> </s> B </s>; bert: <s> A </s> B </s>; mbart: A </s> B </s> LANG; mbart50 (and NLLB): "
            "LANG A </s> B </s>"
        },
    )
    max_positions: int = field(default=512, metadata={"help": "tokens of an input, at most; longer ones are cut"})
    langs: str = field(
        default="",
        metadata={"help": "languages of the model in their order, as en_XX,de_DE: their symbols follow the dictionary"},
    )
    language_template: str = field(default="[{}]", metadata={"help": "the symbol of a language; NLLB has __{}__"})
    language_codes: str = field(
        default="",
        metadata={
            "help": "languages of subsets that --langs names otherwise, as de=deu_Latn; de is found in de_DE without"
        },
    )
    sampling_temperature: float = field(
        default=1.0,
        metadata={
            "help": "of the languages in --train-subset train.en,train.de: 1 = by size, larger = more equal; at least 1"
        },
    )
    predictions: str = field(
        default="",
        metadata={
            "help": "for fairseq-validate in one process: folder for what the model predicts, a file SUBSET.tsv in the order of "
            "the data. Sentences: row (from 0), class, gold class; words: row, their tags, their gold tags; ranking: row, score, "
            "gold grade; question answering: SUBSET.json, an object of id and answer, as SQuAD's evaluation reads it"
        },
    )
    seed: int = II("common.seed")
    finetune_from_model: Optional[str] = II("checkpoint.finetune_from_model")
    restore_file: str = II("checkpoint.restore_file")
    save_dir: str = II("checkpoint.save_dir")


class NLUTask(FairseqTask):
    """Subclasses say how a subset of one language becomes a dataset, and which head the model gets.

    ``--train-subset train.en,train.de`` mixes languages; ``--valid-subset valid.en,valid.de`` are stock's several subsets.
    Checkpoints keep languages and labels: validating or resuming with others is refused, since their numbers would mean something
    else.
    """

    cfg: NLUConfig
    prediction_ending = "tsv"
    """Of the files that --predictions asks for."""

    def __init__(self, cfg: NLUConfig, dictionary: Dictionary, label_dictionary: Optional[Dictionary] = None):
        super().__init__(cfg)
        self.dictionary, self._label_dictionary = dictionary, label_dictionary
        self.input_format = InputFormat(cfg.input_format, dictionary.bos(), dictionary.eos())
        self.codes = _read_codes(cfg.language_codes)
        self.prediction_files = PredictionFiles(cfg.predictions, self.prediction_ending) if cfg.predictions else None

    @classmethod
    def setup_task(cls, cfg: NLUConfig, **kwargs: Any) -> "NLUTask":
        """Check the options and read the dictionaries.

        Raises:
            ValueError: an option out of range, a missing dictionary, a format that needs languages without --langs, languages that
                would share a symbol.
        """
        if not cfg.sampling_temperature >= 1.0:
            raise ValueError(f"--sampling-temperature must be at least 1; got {cfg.sampling_temperature}")
        if cfg.max_positions < 1:
            raise ValueError(f"--max-positions must be at least 1; got {cfg.max_positions}")
        _check_languages(cfg)
        dictionary = load_dictionary([os.path.join(cfg.data, "input0", "dict.txt"), os.path.join(cfg.data, "dict.txt")])
        for symbol in language_symbols(cfg):
            if symbol in dictionary:
                logger.info("%s is entry %d of the dictionary already", symbol, dictionary.index(symbol))
            dictionary.add_symbol(symbol)
        dictionary.add_symbol(MASK)
        logger.info("dictionary: %d types with %s and %d languages", len(dictionary), MASK, len(language_symbols(cfg)))
        task = cls(cfg, dictionary, cls.load_labels(cfg))
        if task.input_format.needs_language and not cfg.langs:
            raise ValueError(f"--input-format {cfg.input_format} needs --langs, the model's languages in their order")
        return task

    @classmethod
    def load_labels(cls, cfg: NLUConfig) -> Optional[Dictionary]:
        """``label/dict.txt``; tasks without labels return None."""
        return load_dictionary([os.path.join(cfg.data, "label", "dict.txt")])

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Load a subset, or several whose names are joined by commas.

        Raises:
            ValueError: a subset without data, with its path; training with --predictions, which a checkpoint would keep.
        """
        if combine and self.prediction_files is not None:
            raise ValueError(f"{PREDICTIONS} {self.cfg.predictions}: valid with fairseq-validate, not in training")
        names = [name for name in split.split(",") if name]
        parts = {name: self.load_language(name) for name in names}
        for name, part in parts.items():
            cut = f", {part.cut_rows} cut to {self.cfg.max_positions} tokens ({part.cut_tokens} pieces lost)"
            logger.info(f"{name}: {len(part)} rows{cut if part.cut_rows else ''}")
        single = len(parts) == 1
        self.datasets[split] = (
            parts[names[0]] if single else LanguageMixture(parts, self.cfg.sampling_temperature, self.cfg.seed)
        )

    def load_language(self, name: str) -> Any:
        """The dataset of one subset, as ``test.de``; it counts ``cut_rows`` and ``cut_tokens``."""
        raise NotImplementedError

    def read(self, folder: str, name: str, dictionary: Optional[Dictionary] = None, numbers: bool = False) -> Any:
        """``DATA/FOLDER/NAME`` as fairseq-preprocess wrote it: entries of a dictionary, the texts' by default, or plain numbers.

        Raises:
            ValueError: it is missing or empty.
        """
        prefix = os.path.join(self.cfg.data, folder, name)
        missing = [file for file in (f"{prefix}.bin", f"{prefix}.idx") if not os.path.isfile(file)]
        if missing or os.path.getsize(f"{prefix}.bin") == 0:
            wrong = f"{missing[0]} is missing" if missing else f"{prefix}.bin is empty"
            there = ", ".join(subsets(os.path.join(self.cfg.data, folder))) or "none"
            raise ValueError(f"subset {name}: {wrong}; subsets there: {there}; {COMMAND} makes them")
        return data_utils.load_indexed_dataset(prefix, None if numbers else dictionary or self.dictionary)

    def inputs(self, name: str) -> Tuple[List[Any], List[Any]]:
        """Texts and sizes of a subset: input0 and, where there is data of any subset in it, input1.

        Raises:
            ValueError: one is missing or empty; also where only this subset lacks input1.
        """
        folders = ["input0"]
        if subsets(os.path.join(self.cfg.data, "input1")):
            folders.append("input1")
        texts = [self.read(folder, name) for folder in folders]
        return texts, [text.sizes for text in texts]

    def layout(self, name: str) -> Dict[str, Any]:
        """Arguments of :class:`NLUDataset` that follow from the options, for a subset."""
        return {
            "input_format": self.input_format,
            "max_positions": self.cfg.max_positions,
            "pad": self.dictionary.pad(),
            "seed": self.cfg.seed,
            "language": self.language(name) if self.input_format.needs_language else None,
        }

    def language(self, name: str) -> int:
        """Id of the symbol of a subset's language.

        Raises:
            ValueError: the subset has no language, or --langs lacks it or has several of its name.
        """
        code = language_of(name)
        wanted = self.codes.get(code, code)
        known = _languages(self.cfg)
        found = [lang for lang in known if lang == wanted] or [
            lang for lang in known if lang.split("_")[0] == wanted and code not in self.codes
        ]
        if len(found) != 1:
            wrong = f"has {', '.join(found)}" if found else "does not have it"
            raise ValueError(
                f"subset {name}: language {wanted or '(none)'}, --langs {wrong}; valid: name it in --language-codes, as "
                f"{code or 'de'}=CODE with a CODE of {', '.join(known)}"
            )
        return self.dictionary.index(self.cfg.language_template.format(found[0]))

    def state_dict(self) -> Dict[str, Any]:
        """What the numbers of languages and labels mean."""
        labels = self._label_dictionary.symbols if self._label_dictionary is not None else []
        return {"languages": _languages(self.cfg), "labels": list(labels)}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Compare with the checkpoint's.

        Raises:
            ValueError: other languages or labels, or in another order.
        """
        for what, option in (("languages", "--langs"), ("labels", "label/dict.txt")):
            have, want = self.state_dict()[what], list(state_dict.get(what, self.state_dict()[what]))
            if have != want:
                raise ValueError(f"{option}: {what} are {have}, the checkpoint was trained with {want}; valid: these")

    def get_checkpoint_dict(self) -> Dict[str, Any]:
        """What fairseq hands back when a run is resumed, which it does not do with the task's state."""
        return {type(self).__name__: self.state_dict()}

    def set_checkpoint_dict(self, state: Dict[str, Any]) -> None:
        """Called when a run is resumed: compare languages and labels."""
        self.load_state_dict(state)

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """The architecture.

        Raises:
            ValueError: it has fewer positions than inputs may have; fairseq would leave long rows out of training. The checkpoint
                that training starts from has other languages, or another order.
        """
        if self.input_format.needs_language and not from_checkpoint:
            compare_start(_languages(self.cfg), self.cfg)
        model = super().build_model(cfg, from_checkpoint)
        limits = model.max_positions()  # an encoder-decoder has two
        most = min(limits) if isinstance(limits, tuple) else limits
        if most is not None and self.cfg.max_positions > most:
            raise ValueError(
                f"--max-positions {self.cfg.max_positions}: the model has {most} positions; valid: 1 to {most}"
            )
        return model

    def valid_step(self, sample: Dict[str, Any], model: Any, criterion: Any) -> Tuple[Any, Any, Dict[str, Any]]:
        """As stock; nothing for an empty batch, which fairseq-validate hands to processes that have one batch less than others."""
        if not sample:
            return 0.0, 0, {}
        if self.prediction_files is None:
            return super().valid_step(sample, model, criterion)
        with outputs_of(model) as outputs:
            result = super().valid_step(sample, model, criterion)
        self.prediction_files.add(sample["id"].tolist(), self.predicted(sample, outputs[-1].float(), criterion))
        return result

    def predicted(self, sample: Dict[str, Any], logits: Any, criterion: Any) -> List[List[Row]]:
        """What the model predicts of each item of a batch, as rows of a file.

        Args:
            sample: as the dataset collates it.
            logits: that the model computed of it, in float32.
            criterion: of the task.
        """
        raise NotImplementedError

    def get_batch_iterator(self, dataset: Any, max_tokens: Any = None, **more: Any) -> Any:
        """As stock.

        Raises:
            ValueError: --predictions in several processes, of which each would have a part.
        """
        if self.prediction_files is not None:
            if more.get("num_shards", 1) > 1:
                raise ValueError(
                    f"{PREDICTIONS} {self.cfg.predictions}: valid in one process; got {more['num_shards']}"
                )
            subset = next(name for name, one in self.datasets.items() if one is dataset)
            self.prediction_files.begin(subset, len(dataset))
        return super().get_batch_iterator(dataset, max_tokens=max_tokens, **more)

    def reduce_metrics(self, logging_outputs: List[Dict[str, Any]], criterion: Any) -> None:
        """As stock; fairseq-validate calls it when a subset is done, whose predictions are written then."""
        super().reduce_metrics(logging_outputs, criterion)
        if self.prediction_files is not None:
            self.prediction_files.finish()

    def max_positions(self) -> int:
        """Tokens of an input, at most."""
        return self.cfg.max_positions

    @property
    def source_dictionary(self) -> Dictionary:
        """Of the pieces, with languages and ``<mask>``."""
        return self.dictionary

    @property
    def target_dictionary(self) -> Dictionary:
        """The same."""
        return self.dictionary

    @property
    def label_dictionary(self) -> Optional[Dictionary]:
        """Of the labels."""
        return self._label_dictionary


def language_of(name: str) -> str:
    """``de`` of ``test.de``; empty for ``test``."""
    return name.rpartition(".")[2] if "." in name else ""


def language_symbols(cfg: NLUConfig) -> List[str]:
    """Symbols of the languages of --langs, in their order."""
    return [cfg.language_template.format(lang) for lang in _languages(cfg)]


def subsets(folder: str) -> List[str]:
    """Names of the data-bins of a folder."""
    found = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(name[:-4] for name in found if name.endswith(".idx"))


def load_dictionary(paths: Sequence[str]) -> Dictionary:
    """The first of the files that is there.

    Raises:
        ValueError: none is.
    """
    for path in paths:
        if os.path.isfile(path):
            return Dictionary.load(path)
    raise ValueError(f"no dictionary {paths[0]}: give the folder that {COMMAND} wrote")


def class_numbers(rows: Any, dictionary: Dictionary, origin: str) -> np.ndarray:
    """Classes counted from 0 of rows of one symbol each.

    Args:
        rows: indexable (1,) or (2,) int64: the symbol, and ``</s>``.
        dictionary: of the labels.
        origin: the subset, for messages.

    Raises:
        ValueError: a row with no or several symbols, or with a label that the dictionary does not have.
    """
    numbers = np.zeros(len(rows), dtype=np.int64)
    for index in range(len(rows)):
        found = [int(token) for token in rows[index] if int(token) != dictionary.eos()]
        if len(found) != 1:
            raise ValueError(f"subset {origin}: row {index + 1} of label has {len(found)} symbols; valid: one")
        numbers[index] = found[0] - dictionary.nspecial
    unknown = int((numbers < 0).sum())
    if unknown:
        raise ValueError(
            f"subset {origin}: {unknown} rows have a label that training has not; valid: {', '.join(labels_of(dictionary))}"
        )
    return numbers


def labels_of(dictionary: Dictionary) -> List[str]:
    """The labels without fairseq's own symbols."""
    return [symbol for symbol in dictionary.symbols[dictionary.nspecial :] if not symbol.startswith("madeupword")]


def _check_languages(cfg: NLUConfig) -> None:
    """Each language has a symbol of its own."""
    if "{}" not in cfg.language_template:
        raise ValueError(f"--language-template must hold {{}}, where the language goes; got {cfg.language_template!r}")
    twice = sorted({lang for lang in _languages(cfg) if _languages(cfg).count(lang) > 1})
    if twice:
        raise ValueError(
            f"--langs names {', '.join(twice)} more than once; valid: every language once, in the model's order"
        )


def _languages(cfg: NLUConfig) -> List[str]:
    return [lang for lang in cfg.langs.split(",") if lang]


def _read_codes(text: str) -> Dict[str, str]:
    codes = {}
    for part in (part for part in text.split(",") if part):
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise ValueError(f"--language-codes must look like de=deu_Latn,fr=fra_Latn; got {part!r}")
        codes[key] = value
    return codes
