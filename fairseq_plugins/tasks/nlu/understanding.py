"""The base of the understanding tasks: one dictionary, a subset per language, languages' symbols, several languages in one run."""

import fnmatch
import logging
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
from fairseq.data import Dictionary, data_utils
from fairseq.dataclass import FairseqDataclass
from omegaconf import II, MISSING

from ...checkpoints.starting import compare_start
from ...common.options import check_range, option
from ...common.own_run import OwnRun
from ...data.language_mixture import LanguageMixture
from ...data.nlu_dataset import class_numbers, labels_of
from ...data.nlu_inputs import INPUT_FORMATS, InputFormat
from .languages import Languages
from .predictions import OPTION as PREDICTIONS
from .predictions import PredictionFiles, Row, outputs_of

logger = logging.getLogger(__name__)

MASK = "<mask>"
COMMAND = "python -m data_prep.nlu"


@dataclass
class NLUConfig(FairseqDataclass):
    """Options that all understanding tasks have."""

    data: str = option(MISSING, "folder made by data_prep/nlu.sh: input0, input1, label, …")
    input_format: INPUT_FORMATS = option(
        "xlmr",
        "xlmr: <s> A </s> </s> B </s>; bert: <s> A </s> B </s>; mbart: A </s> B </s> LANG; mbart50 (and NLLB): LANG A </s> B </s>",
    )
    max_positions: int = option(512, "tokens of an input, at most; longer ones are cut")
    langs: str = option(
        "", "languages of the model in their order, as en_XX,de_DE: their symbols follow the dictionary"
    )
    language_template: str = option("[{}]", "the symbol of a language; NLLB has __{}__")
    language_codes: str = option(
        "", "languages of subsets that --langs names otherwise, as de=deu_Latn; de is found in de_DE without"
    )
    sampling_temperature: float = option(
        1.0, "of the languages in --train-subset train.en,train.de: 1 = by size, larger = more equal; at least 1"
    )
    predictions: str = option(
        "",
        "for fairseq-validate in one process: folder for what the model predicts, a file SUBSET.tsv in the order of the data. "
        "Sentences: row (from 0), class, gold class; words: row, their tags, their gold tags; ranking: row, score, gold grade; "
        "question answering: SUBSET.json, an object of id and answer, as SQuAD's evaluation reads it",
    )
    seed: int = II("common.seed")
    finetune_from_model: Optional[str] = II("checkpoint.finetune_from_model")
    restore_file: str = II("checkpoint.restore_file")
    save_dir: str = II("checkpoint.save_dir")


class NLUTask(OwnRun):
    """Subclasses say how a subset of one language becomes a dataset, and which head the model gets.

    ``--train-subset train.en,train.de`` mixes languages; ``--valid-subset valid.en,valid.de`` are stock's several subsets, of which
    the first one chooses the best checkpoint. ``valid.*`` is all of them as one: its scores are over the rows of all languages,
    where every language has as many the mean of the languages. ``train.*`` is every language of train.
    Checkpoints keep languages and labels: validating or resuming with others is refused, since their numbers would mean something
    else.

    Attributes:
        prediction_ending: of the files that --predictions asks for.
        has_labels: whether the data has ``label/dict.txt``.
        for_training: whether the data being loaded is to be trained on.
    """

    cfg: NLUConfig
    prediction_ending = "tsv"
    has_labels = True
    for_training = False

    def __init__(self, cfg: NLUConfig, dictionary: Dictionary, label_dictionary: Optional[Dictionary] = None):
        super().__init__(cfg)
        self.dictionary, self.label_dictionary = dictionary, label_dictionary
        self.labels = labels_of(label_dictionary) if label_dictionary is not None else []
        self.input_format = InputFormat(cfg.input_format, dictionary.bos(), dictionary.eos())
        self.languages = Languages(cfg)
        self.prediction_files = PredictionFiles(cfg.predictions, self.prediction_ending) if cfg.predictions else None

    @classmethod
    def setup_task(cls, cfg: NLUConfig, **kwargs: Any) -> "NLUTask":
        check_range(cfg, "[1, inf]", "sampling_temperature", "max_positions")
        languages = Languages(cfg).symbols
        dictionary = _load_dictionary(os.path.join(cfg.data, "input0", "dict.txt"), os.path.join(cfg.data, "dict.txt"))
        for symbol in languages:
            if symbol in dictionary:
                logger.info("%s is entry %d of the dictionary already", symbol, dictionary.index(symbol))
            dictionary.add_symbol(symbol)
        dictionary.add_symbol(MASK)
        logger.info("dictionary: %d types with %s and %d languages", len(dictionary), MASK, len(languages))
        labels = _load_dictionary(os.path.join(cfg.data, "label", "dict.txt")) if cls.has_labels else None
        task = cls(cfg, dictionary, labels)
        if task.input_format.needs_language and not cfg.langs:
            raise ValueError(f"--input-format {cfg.input_format} needs --langs, the model's languages in their order")
        return task

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Load a subset, or several: names joined by commas, or a pattern as ``valid.*``.

        fairseq asks to ``combine`` those of training alone.
        """
        self.for_training = combine
        if combine and self.prediction_files is not None:  # a checkpoint would keep the option
            raise ValueError(f"{PREDICTIONS} {self.cfg.predictions}: valid with fairseq-validate, not in training")
        names = [name for part in split.split(",") if part for name in self.subsets(part)]
        parts = {name: self.load_language(name) for name in names}
        for name, part in parts.items():
            cut = f", {part.cut_rows} cut to {self.cfg.max_positions} tokens ({part.cut_tokens} pieces lost)"
            logger.info(f"{name}: {len(part)} rows{cut if part.cut_rows else ''}")
        temperature = self.cfg.sampling_temperature if combine else 1.0
        self.datasets[split] = (
            parts[names[0]] if len(parts) == 1 else LanguageMixture(parts, temperature, self.cfg.seed)
        )

    def subsets(self, pattern: str) -> List[str]:
        """The subsets that a name or a pattern as ``valid.*`` stands for. Raises ValueError: a pattern of none."""
        if "*" not in pattern:
            return [pattern]
        there = _subsets(os.path.join(self.cfg.data, "input0"))
        found = fnmatch.filter(there, pattern)
        if not found:
            raise ValueError(f"subset {pattern}: matches none; subsets there: {', '.join(there) or 'none'}")
        return found

    def load_language(self, name: str) -> Any:
        """The dataset of one subset, as ``test.de``; it counts ``cut_rows`` and ``cut_tokens``."""
        raise NotImplementedError

    def read(self, folder: str, name: str, dictionary: Optional[Dictionary] = None, numbers: bool = False) -> Any:
        """``DATA/FOLDER/NAME`` as fairseq-preprocess wrote it: entries of a dictionary, the texts' by default, or plain numbers."""
        prefix = os.path.join(self.cfg.data, folder, name)
        missing = [file for file in (f"{prefix}.bin", f"{prefix}.idx") if not os.path.isfile(file)]
        if missing or os.path.getsize(f"{prefix}.bin") == 0:
            wrong = f"{missing[0]} is missing" if missing else f"{prefix}.bin is empty"
            there = ", ".join(_subsets(os.path.join(self.cfg.data, folder))) or "none"
            raise ValueError(f"subset {name}: {wrong}; subsets there: {there}; {COMMAND} makes them")
        return data_utils.load_indexed_dataset(prefix, None if numbers else dictionary or self.dictionary)

    def inputs(self, name: str) -> Tuple[List[Any], List[Any]]:
        """Texts and sizes of a subset: input0 and, where there is data of any subset in it, input1."""
        folders = ["input0", "input1"] if _subsets(os.path.join(self.cfg.data, "input1")) else ["input0"]
        texts = [self.read(folder, name) for folder in folders]
        return texts, [text.sizes for text in texts]

    def classes(self, name: str) -> np.ndarray:
        assert self.label_dictionary is not None
        return class_numbers(self.read("label", name, self.label_dictionary), self.label_dictionary, name)

    def layout(self, name: str) -> Dict[str, Any]:
        """Arguments of :class:`NLUDataset` that follow from the options, for a subset."""
        needs_language = self.input_format.needs_language
        return {
            "input_format": self.input_format,
            "max_positions": self.cfg.max_positions,
            "pad": self.dictionary.pad(),
            "seed": self.cfg.seed,
            "language": self.dictionary.index(self.languages.symbol(name)) if needs_language else None,
        }

    def state_dict(self) -> Dict[str, Any]:
        """What the numbers of languages and labels mean."""
        labels = self.label_dictionary.symbols if self.label_dictionary is not None else []
        return {"languages": self.languages.names, "labels": list(labels)}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Compare with the checkpoint's; ValueError for other languages or labels, or another order."""
        for what, name in (("languages", "--langs"), ("labels", "label/dict.txt")):
            have = self.state_dict()[what]
            want = list(state_dict.get(what, have))
            if have != want:
                raise ValueError(f"{name}: {what} are {have}, the checkpoint was trained with {want}; valid: these")

    def get_checkpoint_dict(self) -> Dict[str, Any]:
        """What fairseq hands back when a run is resumed, which it does not do with the task's state."""
        return {type(self).__name__: self.state_dict()}

    def set_checkpoint_dict(self, state: Dict[str, Any]) -> None:
        self.load_state_dict(state)

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """The architecture, with the task's head.

        Raises ValueError: it has fewer positions than inputs may have; fairseq would leave long rows out of training. The
        checkpoint that training starts from has other languages, or another order.
        """
        if self.input_format.needs_language and not from_checkpoint:
            compare_start(self.languages.names, self.cfg, "--langs")
        model = super().build_model(cfg, from_checkpoint)
        limits = model.max_positions()  # an encoder-decoder has two
        most = min(limits) if isinstance(limits, tuple) else limits
        if most is not None and self.cfg.max_positions > most:
            raise ValueError(
                f"--max-positions {self.cfg.max_positions}: the model has {most} positions; valid: 1 to {most}"
            )
        self.add_head(model)
        return model

    def add_head(self, model: Any) -> None:
        raise NotImplementedError

    def valid_step(self, sample: Dict[str, Any], model: Any, criterion: Any) -> Tuple[Any, Any, Dict[str, Any]]:
        """Stock step; nothing for an empty batch, which fairseq-validate hands to processes that have one batch less."""
        if not sample:
            return 0.0, 0, {}
        if self.prediction_files is None:
            return super().valid_step(sample, model, criterion)
        with outputs_of(model) as outputs:
            result = super().valid_step(sample, model, criterion)
        self.prediction_files.add(sample["id"].tolist(), self.predicted(sample, outputs[-1].float(), criterion))
        return result

    def predicted(self, sample: Dict[str, Any], logits: Any, criterion: Any) -> List[List[Row]]:
        """Rows of the predictions' file for each item of a batch; logits: what the model computed of it, in float32."""
        raise NotImplementedError

    def get_batch_iterator(self, dataset: Any, max_tokens: Any = None, **more: Any) -> Any:
        """Stock iterator; ValueError for --predictions in several processes, of which each would have a part."""
        if self.prediction_files is not None:
            if more.get("num_shards", 1) > 1:
                raise ValueError(
                    f"{PREDICTIONS} {self.cfg.predictions}: valid in one process; got {more['num_shards']}"
                )
            subset = next(name for name, one in self.datasets.items() if one is dataset)
            self.prediction_files.begin(subset, len(dataset))
        return super().get_batch_iterator(dataset, max_tokens=max_tokens, **more)

    def reduce_metrics(self, logging_outputs: List[Dict[str, Any]], criterion: Any) -> None:
        """Stock metrics; fairseq-validate calls it when a subset is done, whose predictions are written then."""
        super().reduce_metrics(logging_outputs, criterion)
        if self.prediction_files is not None:
            self.prediction_files.finish()

    def max_positions(self) -> int:
        return self.cfg.max_positions

    @property
    def source_dictionary(self) -> Dictionary:
        return self.dictionary

    target_dictionary = source_dictionary


def _subsets(folder: str) -> List[str]:
    found = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(name[:-4] for name in found if name.endswith(".idx"))


def _load_dictionary(*paths: str) -> Dictionary:
    for path in paths:
        if os.path.isfile(path):
            return Dictionary.load(path)
    raise ValueError(f"no dictionary {paths[0]}: give the folder that {COMMAND} wrote")
