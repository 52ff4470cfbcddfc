"""Sentences with a tag per word (parts of speech, named entities), carried by its first piece."""

import logging
from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.tasks import register_task
from omegaconf import II
from torch import Tensor

from ..common.options import option
from ..common.summed_criterion import SummedCriterion, log_loss, total
from ..ops.masks import Places
from .entities import sequence_starts, span_counts, tag_scheme, tags_of_spans
from .inputs import InputOptions, NLUDataset, check_rows, count_pieces
from .predictions import Cells
from .task import NLUConfig, NLUTask

logger = logging.getLogger(__name__)

UNSEEN = -1
"""Class of a tag that the label dictionary lacks."""


class Tags(NamedTuple):
    """Words of all N rows of a subset, W in total."""

    places: np.ndarray  # (W,) int32, number of the word's first piece in its row
    classes: np.ndarray  # (W,) int64 from 0, or UNSEEN
    ends: np.ndarray  # (N + 1,) int64, row n has the words ends[n] : ends[n + 1]


def read_tags(labels: Any, pieces: np.ndarray, dictionary: Dictionary, subset: str) -> Tags:
    """Find words and classes in rows with a symbol per piece.

    Args:
        labels: N rows (S,) of integers, with or without ``</s>``: the tag where a word starts
            (``<unk>`` for an unseen one), ``<pad>`` elsewhere.
        pieces: (N,) pieces of each row of input0, without ``</s>``.
        dictionary: dictionary of the labels.
        subset: name, for messages.
    """
    check_rows({f"label/{subset}": len(labels), f"input0/{subset}": len(pieces)})
    places: List[np.ndarray] = [np.zeros(0, dtype=np.int32)]  # no words before the first row
    symbols: List[np.ndarray] = [np.zeros(0, dtype=np.int64)]
    for index in range(len(labels)):
        row = np.asarray(labels[index])
        if len(row) and row[-1] == dictionary.eos():
            row = row[:-1]
        if len(row) != pieces[index]:
            raise ValueError(
                f"subset {subset}: row {index + 1} has {len(row)} tags in label and "
                f"{pieces[index]} pieces in input0; valid: one symbol per piece, the tag where a "
                "word starts and <pad> elsewhere"
            )
        row_places = np.flatnonzero(row != dictionary.pad())
        places.append(row_places.astype(np.int32))
        symbols.append(row[row_places])
    ends = np.cumsum([len(row_places) for row_places in places], dtype=np.int64)
    tokens = np.concatenate(symbols).astype(np.int64)
    is_unseen = tokens == dictionary.unk()
    wrong = np.flatnonzero((tokens < dictionary.nspecial) & ~is_unseen)
    if len(wrong):
        number = int(np.searchsorted(ends, wrong[0], side="right"))  # of the row, from 1
        symbol = dictionary[tokens[wrong[0]]]
        raise ValueError(f"subset {subset}: row {number} of label has {symbol}, which is no tag")
    classes = np.where(is_unseen, UNSEEN, tokens - dictionary.nspecial)
    return Tags(np.concatenate(places), classes, ends)


class TaggingDataset(NLUDataset):
    """Inputs with a class per word.

    Attributes:
        words: number of words in the inputs.
        unseen: number of these words whose class is UNSEEN.
        cut_words: number of words whose first piece is cut off, so that they are left out.
    """

    def __init__(self, text: Any, options: InputOptions, tags: Tags):
        super().__init__([text], options)
        assert len(tags.ends) == len(self) + 1
        self.tags = tags
        room = self.sizes - options.input_format.added(1)  # pieces of each row
        is_cut = tags.places >= np.repeat(room, np.diff(tags.ends))
        self.cut_words = int(is_cut.sum())
        self.words = len(is_cut) - self.cut_words
        self.unseen = int((tags.classes[~is_cut] == UNSEEN).sum())
        # data_prep writes <unk> for each word of a file without tags.
        self.is_labelled = not len(tags.classes) or bool((tags.classes != UNSEEN).any())

    def __getitem__(self, index: int) -> Dict[str, Any]:
        assembled = self.assemble(int(index))
        row = slice(self.tags.ends[index], self.tags.ends[index + 1])
        places, classes = self.tags.places[row], self.tags.classes[row]
        is_inside = places < assembled.lengths[0]
        return {
            "id": int(index),
            "tokens": assembled.tokens,
            "places": places[is_inside] + assembled.starts[0],
            "target": classes[is_inside],
        }

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """Collate inputs, and the N words in them.

        Adds ``net_input.select``, the places in (B, S) of the words' first pieces; ``target`` (N,)
        int64, the words' classes; ``words`` (B,) int64, the number of words of each row.
        """
        batch = super().collater(samples)
        if batch:
            words = np.array([len(sample["target"]) for sample in samples], dtype=np.int64)
            rows = np.repeat(np.arange(len(samples)), words)
            columns = np.concatenate([sample["places"] for sample in samples])
            target = np.concatenate([sample["target"] for sample in samples])
            select = Places(torch.from_numpy(rows), torch.from_numpy(columns))
            batch["net_input"]["select"] = select
            batch["target"] = torch.from_numpy(target)
            batch["words"] = torch.from_numpy(words)
        return batch


@dataclass
class TokenClassificationConfig(NLUConfig):
    """The shared options, and the head's name, which fairseq-validate passes to no criterion."""

    classification_head_name: str = option(
        "token_classification_head", "name of the head that classifies words"
    )


@register_task("token_classification", dataclass=TokenClassificationConfig)
class TokenClassificationTask(NLUTask):
    """POS and NER with the criterion ``token_classification``.

    The head classifies the state of the first piece of each word. ``label`` has a symbol per piece:
    the word's tag where it starts, ``<pad>`` elsewhere.

    A tag that training does not have is ``<unk>`` in the label file, and an error in training.
    Outside training such words have no part in the loss and are wrong in accuracy and F1, where
    neighbours among them are one gold entity of a type of its own.

    Source: MT transfer section 2.2 (POS and NER of XGLUE); the first piece as in BERT (Devlin et
    al. 2019, section 5.3).
    """

    criterions = ("token_classification",)
    cfg: TokenClassificationConfig

    def load_language(self, name: str) -> TaggingDataset:
        """Load inputs and tags of a subset; log the share of the most frequent tag.

        A model is no better than chance until its accuracy exceeds that share.
        """
        assert self.label_dictionary is not None
        text = self.read("input0", name, self.dictionary)
        labels = self.read("label", name, self.label_dictionary)
        tags = read_tags(labels, count_pieces(text), self.label_dictionary, name)
        dataset = TaggingDataset(text, self.input_options(name), tags)
        if dataset.unseen and dataset.is_labelled:
            count = f"{dataset.unseen} of {dataset.words} words"
            self.refuse_in_training(
                f"subset {name}: {count} have a tag that label/dict.txt lacks",
                valid=f"in --train-subset {', '.join(self.labels)}",
                consequence="they have no loss, and count as wrong in accuracy and F1",
            )
        note = ""
        if dataset.cut_words:
            note = f"; {dataset.cut_words} more are cut off with their pieces"
        logger.info(f"{name}: {dataset.words} words{note}")
        if not dataset.is_labelled:
            return dataset
        counts = np.bincount(tags.classes[tags.classes != UNSEEN], minlength=len(self.labels))
        best = int(counts.argmax())
        share = 100 * counts[best] / max(len(tags.classes), 1)
        logger.info(f"{name}: most frequent tag {self.labels[best]}, {share:.1f} % of all words")
        return dataset

    def add_head(self, model: Any) -> None:
        """Register a token head with a class per tag."""
        name = self.cfg.classification_head_name
        model.register_token_head(name, num_classes=len(self.labels))

    def predicted(self, sample: Dict[str, Any], logits: Any, criterion: Any) -> List[List[Cells]]:
        """Return a row per sentence: its number, tags and gold tags of the words not cut off."""
        assert self.label_dictionary is not None
        names = [*self.labels, self.label_dictionary.unk_string()]  # the last for UNSEEN, -1

        def join(classes: Tensor) -> List[str]:
            """Join the names of (N,) classes to a text per sentence."""
            rows = classes.split(sample["words"].tolist())
            return [" ".join(names[number] for number in row.tolist()) for row in rows]

        columns = zip(sample["id"].tolist(), join(logits.argmax(dim=-1)), join(sample["target"]))
        return [[row] for row in columns]

    def submission_lines(self, item: int, rows: List[Cells]) -> List[str]:
        """Return a tag per word and an empty line; words that were cut off have the usual tag.

        That is ``O``, or without it the most frequent tag of training.
        """
        assert self.prediction_files is not None and self.label_dictionary is not None
        ends = self.dataset(self.prediction_files.subset).tags.ends
        tags = str(rows[0][1]).split()
        counts = self.label_dictionary.count[self.label_dictionary.nspecial :][: len(self.labels)]
        usual = "O" if "O" in self.labels else self.labels[int(np.argmax(counts))]
        return [*tags, *[usual] * (int(ends[item + 1] - ends[item]) - len(tags)), ""]


@dataclass
class TokenClassificationCriterionConfig(FairseqDataclass):
    """The head's name, which is the task's."""

    classification_head_name: str = II("task.classification_head_name")


@register_criterion("token_classification", dataclass=TokenClassificationCriterionConfig)
class TokenClassificationCriterion(SummedCriterion):
    """Cross-entropy of words, a sum in nats over the words whose tag is known.

    Logged in percent, from counts over the whole set: accuracy of words; and precision, recall and
    F1 of entities (all types together) if every label is ``O`` or has a prefix B-, I-, E- or S-;
    see :func:`.entities.span_ends`. An unseen tag has no loss, no prediction equals it, and as gold
    it is an entity that is never found. Words cut off with their pieces are not counted.

    Source: XGLUE and XTREME, accuracy for POS and span F1 for NER.
    """

    tasks = ("token_classification",)

    def __init__(self, cfg: TokenClassificationCriterionConfig, task: Any):
        super().__init__(task)
        self.head = cfg.classification_head_name
        self.scheme = tag_scheme(task.labels)
        marks = tags_of_spans(task.labels)
        if marks and self.scheme is None:
            without_prefix = [label for label in task.labels if label not in marks and label != "O"]
            logger.warning(
                f"no F1 of entities: labels like {marks[0]} beside {', '.join(without_prefix)}, "
                "which have no prefix"
            )

    def forward(
        self, model: Any, sample: Dict[str, Any], reduce: bool = True
    ) -> Tuple[Tensor, Tensor, Dict[str, Any]]:
        """Compute the loss of a batch, and the counts of its words and entities."""
        logits, _ = model(
            **sample["net_input"], features_only=True, classification_head_name=self.head
        )
        target, best = sample["target"], logits.argmax(dim=-1)  # N
        loss = F.cross_entropy(logits.float(), target, ignore_index=UNSEEN, reduction="sum")
        sums: Dict[str, Any] = {"words": target.numel(), "words_right": (best == target).sum()}
        if self.scheme is not None:
            starts = sequence_starts(sample["words"], len(target))
            counts = span_counts(self.scheme, best, target, starts)
            sums["spans_right"], sums["spans_predicted"] = counts.correct, counts.predicted
            sums["spans_gold"] = counts.gold
        return self.result(loss, (target != UNSEEN).sum(), sample, **sums)

    @classmethod
    def log_sums(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Log the loss in bits per word, and ratios of counts over all batches and processes."""
        log_loss(logging_outputs)
        _log_counts(logging_outputs, "words", "words_right")
        _log_ratio("accuracy", "words_right", "words")
        if any("spans_right" in log for log in logging_outputs):
            _log_counts(logging_outputs, "spans_right", "spans_predicted", "spans_gold")
            _log_ratio("precision", "spans_right", "spans_predicted")
            _log_ratio("recall", "spans_right", "spans_gold")
            _log_ratio("f1", "spans_right", "spans_predicted", "spans_gold")


def _log_counts(logging_outputs: List[Dict[str, Any]], *keys: str) -> None:
    """Log counts under names with an underscore, which fairseq does not show."""
    for key in keys:
        metrics.log_scalar_sum(f"_{key}", int(total(logging_outputs, key)))


def _log_ratio(name: str, part: str, *units: str) -> None:
    """Log ``part`` over the mean of ``units`` in percent, from the sums so far.

    F1 = 2 right / (predicted + gold) is "right" over the mean of "predicted" and "gold".
    """

    def ratio(meters: Any) -> float:
        unit = sum(meters[f"_{key}"].sum for key in units) / len(units)
        return round(100.0 * meters[f"_{part}"].sum / unit, 2) if unit else 0.0

    metrics.log_derived(name, ratio)
