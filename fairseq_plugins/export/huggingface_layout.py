"""Content of a folder of ``transformers``, which each converter makes of its kind of model."""

from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from torch import Tensor

from ..checkpoints.pretrained import PretrainedFile

TEXT = ("<s>", "A", "</s>")
PAIR = ("<s>", "A", "</s>", "</s>", "B", "</s>")
"""XLM-R's input: one text ``A``, and two."""
BERT_PAIR = ("<s>", "A", "</s>", "B", "</s>")

Entries = Sequence[str]
"""Entries of the rows, as in a fairseq dictionary; empty if no file names them."""


@dataclass
class Exported:
    """A model to be written, as tensors and ``config.json`` or as ``masked_lm``.

    Attributes:
        tensors: by their names in ``transformers``.
        config: content of ``config.json``.
        masked_lm: an XLM-R, for which ``tensors`` and ``config`` stay empty.
        single: makes the input of one text ``A`` as a list of entries.
        pair: input of two texts ``A`` and ``B``.
        generation: makes the content of ``generation_config.json``; None for models that generate
            nothing.
        max_tokens: longest input.
    """

    tensors: Mapping[str, Tensor]
    config: Dict[str, Any]
    masked_lm: Optional[PretrainedFile] = None
    single: Callable[[Entries], Sequence[str]] = lambda entries: TEXT
    pair: Sequence[str] = PAIR
    generation: Optional[Callable[[Entries], Dict[str, Any]]] = None
    max_tokens: int = 0

    @classmethod
    def from_masked_lm(cls, masked_lm: PretrainedFile) -> "Exported":
        """Make the content of an XLM-R, which ``write_masked_lm`` writes."""
        return cls({}, {}, masked_lm, max_tokens=masked_lm.sizes["max_positions"])

    @property
    def rows(self) -> int:
        """Number of rows of the embedding."""
        if self.masked_lm is not None:
            return int(self.masked_lm.sizes["vocab_size"])
        return int(self.config["vocab_size"])
