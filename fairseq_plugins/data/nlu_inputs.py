"""How one or two texts become the input of an encoder: special symbols, the language's symbol, and what is cut."""

from typing import List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq.dataclass.constants import ChoiceEnum
from torch import Tensor

INPUT_FORMATS = ChoiceEnum(["xlmr", "bert", "mbart", "mbart50"])
"""xlmr ``<s> A </s> </s> B </s>``; bert ``<s> A </s> B </s>``; mbart ``A </s> B </s> LANG``; mbart50 (and NLLB)
``LANG A </s> B </s>``."""


class Assembled(NamedTuple):
    """The tokens of an input, (S,) int64; where each text starts in it, and how many of its pieces were kept."""

    tokens: Tensor
    starts: Tuple[int, ...]
    kept: Tuple[int, ...]


class InputFormat:
    """One of :data:`INPUT_FORMATS`; ``bos`` and ``eos`` are ids.

    Source: XLM-R and BERT as released; mBART (Liu et al. 2020) puts the language last, mBART-50 (Tang et al. 2020) first.
    """

    def __init__(self, name: str, bos: int, eos: int):
        self.name, self.bos, self.eos = str(name), bos, eos
        if self.name not in set(INPUT_FORMATS):
            raise ValueError(f"--input-format must be one of {', '.join(map(str, INPUT_FORMATS))}; got {name!r}")

    @property
    def needs_language(self) -> bool:
        return self.name in ("mbart", "mbart50")

    def added(self, texts: int) -> int:
        """Symbols beside the pieces of so many texts."""
        between = 2 if self.name == "xlmr" else 1
        return 2 + between * (texts - 1)

    def assemble(self, texts: Sequence[Tensor], room: int, language: Optional[int] = None) -> Assembled:
        """Put one or two texts (S,) without ``</s>`` together, cut to ``room`` tokens with all symbols.

        ``language`` is the id of its symbol, only where ``needs_language``.
        """
        assert (language is not None) == self.needs_language
        kept = cut_lengths([len(text) for text in texts], room - self.added(len(texts)))
        mark = self.bos if language is None else language
        tokens = [] if self.name == "mbart" else [mark]
        starts: List[int] = []
        for number, (text, count) in enumerate(zip(texts, kept)):
            if number and self.name == "xlmr":
                tokens.append(self.eos)
            starts.append(len(tokens))
            tokens += [*text[:count].tolist(), self.eos]
        if self.name == "mbart":
            tokens.append(mark)
        return Assembled(torch.tensor(tokens, dtype=torch.long), tuple(starts), tuple(kept))


def cut_lengths(lengths: Sequence[int], room: int) -> List[int]:
    """Pieces to keep of one or two texts such that they fit into ``room``: the longer one gives until both are equal."""
    if room < len(lengths):
        raise ValueError(
            f"--max-positions leaves room for {room} pieces of {len(lengths)} texts; valid: one each at least"
        )
    if sum(lengths) <= room:
        return list(lengths)
    if len(lengths) == 1:
        return [room]
    shorter = min(min(lengths), room // 2)
    longer = room - shorter
    first, second = lengths
    return [longer, shorter] if first > second else [shorter, longer]
