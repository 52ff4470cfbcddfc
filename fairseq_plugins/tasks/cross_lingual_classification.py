"""Task ``cross_lingual_classification``: classes of sentences and sentence pairs, trained in some languages, tested in others."""

import logging
from dataclasses import dataclass
from typing import Any, Dict, List

import numpy as np
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks import register_task
from omegaconf import II

from ..common.options import option
from ..data.nlu_dataset import LabelledDataset
from .nlu import NLUConfig, NLUTask
from .nlu.predictions import Row

logger = logging.getLogger(__name__)


@dataclass
class CrossLingualClassificationConfig(NLUConfig):
    """The shared options; the head's name is the criterion's."""

    classification_head_name: str = II("criterion.classification_head_name")
    regression_target: bool = II("criterion.regression_target")
    add_prev_output_tokens: bool = option(
        False,
        "for stock encoder-decoders (--arch mbart_large): also feed the decoder, whose output at the last </s> is classified",
    )


@register_task("cross_lingual_classification", dataclass=CrossLingualClassificationConfig)
class CrossLingualClassificationTask(NLUTask):
    """XNLI, PAWS-X, news, QADSM, QAM: with the stock criterion ``sentence_prediction`` and the architecture ``nlu_encoder``.

    ``--add-prev-output-tokens`` is for stock BART and mBART (``--arch mbart_large --finetune-from-model FILE``): encoder and
    decoder read the input, and the decoder's state that predicts the last ``</s>`` is classified.

    It does what stock ``sentence_prediction`` does, and puts the language's symbol where mBART and NLLB want it, cuts long inputs
    and counts them, mixes languages, and refuses labels that mean something else than in training.

    Source: MT transfer section 2.2 (XGLUE's classification tasks); BART section 3.1 and CSR section IV-E for the decoder.
    """

    criterions = ("sentence_prediction",)
    cfg: CrossLingualClassificationConfig

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> "NLUTask":
        """The base's checks; ValueError also with --regression-target, which needs stock ``sentence_prediction``."""
        if cfg.regression_target:
            raise ValueError("--regression-target: classes only; valid: --task sentence_prediction for regression")
        return super().setup_task(cfg, **kwargs)

    def load_language(self, name: str) -> LabelledDataset:
        """Inputs and classes of one subset; logs the majority class's share, below which a model has learned nothing."""
        texts, sizes = self.inputs(name)
        labels, decoder_inputs = self.classes(name), self.cfg.add_prev_output_tokens
        dataset = LabelledDataset(texts, sizes, labels=labels, decoder_inputs=decoder_inputs, **self.layout(name))
        shares = 100 * np.bincount(labels, minlength=len(self.labels)) / max(len(labels), 1)
        logger.info(f"{name}: {', '.join(f'{label} {share:.1f} %' for label, share in zip(self.labels, shares))}")
        return dataset

    def predicted(self, sample: Dict[str, Any], logits: Any, criterion: Any) -> List[List[Row]]:
        found = zip(sample["id"].tolist(), logits.argmax(dim=-1).tolist(), sample["target"].tolist())
        return [[(row, self.labels[best], self.labels[gold])] for row, best, gold in found]

    def add_head(self, model: Any) -> None:
        """A sentence head with a class per label; ValueError where --add-prev-output-tokens does not fit the architecture."""
        has_decoder = isinstance(model, FairseqEncoderDecoderModel)
        if has_decoder != self.cfg.add_prev_output_tokens:
            raise ValueError(
                f"--add-prev-output-tokens is for architectures with a decoder; {type(model).__name__} has "
                f"{'one: give the option' if has_decoder else 'none: leave it out'}"
            )
        model.register_classification_head(self.cfg.classification_head_name, num_classes=len(self.labels))
