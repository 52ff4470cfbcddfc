"""Sentences and pairs with a class (XNLI, PAWS-X, NC, QADSM, QAM); the criterion is stock."""

import logging
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import torch
from fairseq.data import Dictionary, data_utils
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks import register_task
from omegaconf import II

from ..common.options import option
from .inputs import InputOptions, NLUDataset, check_rows
from .predictions import Cells
from .task import NLUConfig, NLUTask, label_names

logger = logging.getLogger(__name__)


class LabelledDataset(NLUDataset):
    """Inputs with a class each.

    Args:
        labels: (N,) int64, classes from 0; None: unknown, and items have no ``target``.
        decoder_inputs: batches also hold the input of a decoder, which is the input with its last
            token in front, as in stock ``sentence_prediction``. In mBART's format that is
            ``LANG A </s> B </s>``, mBART's own order.
    """

    def __init__(
        self,
        texts: Sequence[Any],
        options: InputOptions,
        labels: Optional[np.ndarray],
        decoder_inputs: bool = False,
    ):
        super().__init__(texts, options)
        self.is_labelled = labels is not None
        if labels is not None:
            check_rows({"label": len(labels), "input0": len(self)})
        self.labels, self.decoder_inputs = labels, decoder_inputs

    def __getitem__(self, index: int) -> Dict[str, Any]:
        item = super().__getitem__(index)
        return item if self.labels is None else {**item, "target": int(self.labels[index])}

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """Add ``target`` (B,) int64, and ``net_input.prev_output_tokens`` (B, S) of a decoder."""
        batch = super().collater(samples)
        if batch and self.is_labelled:
            batch["target"] = torch.tensor([sample["target"] for sample in samples])
        if batch and self.decoder_inputs:
            rolled = [sample["tokens"].roll(1) for sample in samples]
            rows = data_utils.collate_tokens(rolled, self.options.pad)
            batch["net_input"]["prev_output_tokens"] = rows
        return batch


def class_numbers(rows: Any, dictionary: Dictionary, subset: str) -> np.ndarray:
    """Convert N rows of a label and ``</s>`` to classes from 0, (N,) int64."""
    classes = np.zeros(len(rows), dtype=np.int64)
    for index in range(len(rows)):
        symbols = [int(token) for token in rows[index] if int(token) != dictionary.eos()]
        if len(symbols) != 1:
            raise ValueError(
                f"subset {subset}: row {index + 1} of label has {len(symbols)} symbols; valid: one"
            )
        classes[index] = symbols[0] - dictionary.nspecial
    unknown = int((classes < 0).sum())
    if unknown:
        raise ValueError(
            f"subset {subset}: {unknown} rows have a label that training has not; valid: "
            f"{', '.join(label_names(dictionary))}"
        )
    return classes


def read_classes(task: NLUTask, subset: str) -> Optional[np.ndarray]:
    """Read the classes of a subset, (N,) int64; None if it is to be predicted and has none."""
    if not task.has_label_file(subset):
        return None
    dictionary = task.label_dictionary
    assert dictionary is not None
    return class_numbers(task.read("label", subset, dictionary), dictionary, subset)


@dataclass
class CrossLingualClassificationConfig(NLUConfig):
    """The shared options; the head's name is the criterion's."""

    classification_head_name: str = II("criterion.classification_head_name")
    regression_target: bool = II("criterion.regression_target")
    add_prev_output_tokens: bool = option(
        False,
        "for stock encoder-decoders (--arch mbart_large): also feed the decoder, whose output at "
        "the last </s> is classified",
    )


@register_task("cross_lingual_classification", dataclass=CrossLingualClassificationConfig)
class CrossLingualClassificationTask(NLUTask):
    """Classification with the stock criterion ``sentence_prediction``, which logs the accuracy.

    ``nlu_encoder`` classifies the pooled state of its last layer. ``--add-prev-output-tokens`` is
    for stock BART and mBART (``--arch mbart_large --finetune-from-model FILE``): encoder and
    decoder read the input, and the decoder's state that predicts the last ``</s>`` is classified.

    Unlike stock ``sentence_prediction`` the task adds the symbol of the language, cuts long inputs
    and counts them, mixes languages, and refuses labels other than those of the training.

    Source: MT transfer section 2.2 (XGLUE's classification tasks); BART section 3.1 and CSR section
    IV-E for the decoder.
    """

    criterions = ("sentence_prediction",)
    cfg: CrossLingualClassificationConfig

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> "NLUTask":
        """Set up the task; raise ValueError for --regression-target."""
        if cfg.regression_target:
            raise ValueError(
                "--regression-target: classes only; valid: --task sentence_prediction for "
                "regression"
            )
        return super().setup_task(cfg, **kwargs)

    def load_language(self, name: str) -> LabelledDataset:
        """Load inputs and classes of a subset; log the shares of the classes.

        A model is no better than chance until it exceeds the largest share.
        """
        texts, options = self.inputs(name), self.input_options(name)
        labels = read_classes(self, name)
        decoder_inputs = self.cfg.add_prev_output_tokens
        dataset = LabelledDataset(texts, options, labels, decoder_inputs)
        if labels is None:
            return dataset
        counts = np.bincount(labels, minlength=len(self.labels))
        shares = 100 * counts / max(len(labels), 1)
        listed = [f"{label} {share:.1f} %" for label, share in zip(self.labels, shares)]
        logger.info(f"{name}: {', '.join(listed)}")
        return dataset

    def add_head(self, model: Any) -> None:
        """Register a sentence head.

        Raises:
            ValueError: ``--add-prev-output-tokens`` for a model without a decoder, or a model with
                a decoder without this option.
        """
        has_decoder = isinstance(model, FairseqEncoderDecoderModel)
        if has_decoder != self.cfg.add_prev_output_tokens:
            remedy = "one: give the option" if has_decoder else "none: leave it out"
            raise ValueError(
                "--add-prev-output-tokens is for architectures with a decoder; "
                f"{type(model).__name__} has {remedy}"
            )
        name = self.cfg.classification_head_name
        model.register_classification_head(name, num_classes=len(self.labels))

    def predicted(self, sample: Dict[str, Any], logits: Any, criterion: Any) -> List[List[Cells]]:
        """Return a row per sentence: its number, class and, where there is one, gold class."""
        columns = [sample["id"].tolist(), [self.labels[best] for best in logits.argmax(dim=-1)]]
        if "target" in sample:
            columns.append([self.labels[gold] for gold in sample["target"]])
        return [[cells] for cells in zip(*columns)]
