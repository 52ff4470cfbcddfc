"""Task ``token_classification``: tags of words (parts of speech, named entities), trained in some languages, tested in others."""

import logging
from dataclasses import dataclass
from typing import Any, Dict, List

import numpy as np
from fairseq.tasks import register_task

from ..common.options import option
from ..data.tagging_dataset import UNSEEN, TaggingDataset, Tags, read_tags
from .nlu import NLUConfig, NLUTask
from .nlu.predictions import Row

logger = logging.getLogger(__name__)


@dataclass
class TokenClassificationConfig(NLUConfig):
    """The shared options, and the head's name: here and not at the criterion, which fairseq-validate is not told."""

    classification_head_name: str = option("token_classification_head", "name of the head that classifies words")


@register_task("token_classification", dataclass=TokenClassificationConfig)
class TokenClassificationTask(NLUTask):
    """POS and NER, with the criterion ``token_classification`` and the architecture ``nlu_encoder``.

    ``label`` has a symbol per piece: the word's tag where it starts, ``<pad>`` elsewhere. The class of a word is read off its first
    piece.

    A tag that training has not seen is ``<unk>`` in the label file. Outside training such words are kept and counted in a warning:
    they have no part in the loss, and are wrong in the accuracy and in F1, where neighbours of that kind are one gold entity of a
    type of its own. In training they are an error.

    Source: MT transfer section 2.2 (POS and NER of XGLUE); the first piece as in BERT (Devlin et al. 2019, section 5.3).
    """

    criterions = ("token_classification",)
    cfg: TokenClassificationConfig

    def load_language(self, name: str) -> TaggingDataset:
        """Inputs and tags of one subset; logs the share of the most frequent tag, above which a model has learned something."""
        assert self.label_dictionary is not None
        text = self.read("input0", name)
        labels = self.read("label", name, self.label_dictionary)
        tags = read_tags(labels, text.sizes - 1, self.label_dictionary, name)
        dataset = TaggingDataset([text], [text.sizes], tags=tags, **self.layout(name))
        self._check_unseen(name, dataset)
        lost = f"; {dataset.cut_words} more are cut off with their pieces" if dataset.cut_words else ""
        logger.info(f"{name}: {dataset.words} words{lost}")
        logger.info(f"{name}: {self._most_frequent(tags)}")
        return dataset

    def _check_unseen(self, name: str, dataset: TaggingDataset) -> None:
        """Tags that training has not seen: an error in training, elsewhere a warning."""
        if not dataset.unseen:
            return
        count = f"subset {name}: {dataset.unseen} of {dataset.words} words have a tag that label/dict.txt lacks"
        if self.for_training:
            raise ValueError(f"{count}; valid in --train-subset: {', '.join(self.labels)}")
        logger.warning(f"{count}: they are left out of the loss, and count as wrong in accuracy and F1")

    def _most_frequent(self, tags: Tags) -> str:
        counts = np.bincount(tags.classes[tags.classes != UNSEEN], minlength=len(self.labels))
        best = int(counts.argmax())
        return f"most frequent tag {self.labels[best]}, {100 * counts[best] / max(len(tags.classes), 1):.1f} % of all words"

    def predicted(self, sample: Dict[str, Any], logits: Any, criterion: Any) -> List[List[Row]]:
        """Row, tags, gold tags: of words that are not cut off, with spaces between; ``<unk>`` = a tag that training has not."""
        assert self.label_dictionary is not None
        names = [*self.labels, self.label_dictionary.unk_string()]  # UNSEEN is -1
        counts = sample["words"].tolist()
        sides = (logits.argmax(dim=-1).split(counts), sample["target"].split(counts))
        tags = [[" ".join(names[number] for number in words.tolist()) for words in side] for side in sides]
        return [[row] for row in zip(sample["id"].tolist(), *tags)]

    def add_head(self, model: Any) -> None:
        model.register_token_head(self.cfg.classification_head_name, num_classes=len(self.labels))
