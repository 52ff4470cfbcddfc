"""What a folder of ``transformers`` will hold."""

from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from torch import Tensor

from ..checkpoints.pretrained import PretrainedFile

TEXT, PAIR = ("<s>", "A", "</s>"), ("<s>", "A", "</s>", "</s>", "B", "</s>")
BERT_PAIR = ("<s>", "A", "</s>", "B", "</s>")
"""XLM-R's input, one text ``A`` and two; BERT's."""

Entries = Sequence[str]
"""Entries of the rows, as in a fairseq dictionary; empty where nothing tells them."""


@dataclass
class Exported:
    """Tensors and ``config.json`` in the names of ``transformers``; or, with ``masked_lm``, what an XLM-R is written from.

    Attributes:
        single, pair: what stands around one text ``A`` and two.
        generation: the content of ``generation_config.json``; None where nothing is generated.
    """

    tensors: Mapping[str, Tensor]
    config: Dict[str, Any]
    masked_lm: Optional[PretrainedFile] = None
    single: Callable[[Entries], Sequence[str]] = lambda entries: TEXT
    pair: Sequence[str] = PAIR
    generation: Optional[Callable[[Entries], Dict[str, Any]]] = None
    longest: int = 0

    @property
    def rows(self) -> int:
        return int(self.config["vocab_size"] if self.masked_lm is None else self.masked_lm.sizes["vocab_size"])
