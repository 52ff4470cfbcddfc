"""How one or two texts become the input of an encoder: special symbols, the language's symbol, and what is cut."""

from typing import List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq.dataclass.constants import ChoiceEnum
from torch import Tensor

INPUT_FORMATS = ChoiceEnum(["xlmr", "bert", "mbart", "mbart50"])
"""xlmr ``<s> A </s> </s> B </s>``; bert ``<s> A </s> B </s>``; mbart ``A </s> B </s> LANG``; mbart50 (and NLLB) ``LANG A </s> B
</s>``."""


class Assembled(NamedTuple):
    """An input.

    Attributes:
        tokens: (S,) int64.
        starts: place of the first piece of each text.
        kept: pieces of each text that were kept, from its beginning.
    """

    tokens: Tensor
    starts: Tuple[int, ...]
    kept: Tuple[int, ...]


class InputFormat:
    """One of :data:`INPUT_FORMATS`.

    Args:
        name: of the format.
        bos, eos: ids of ``<s>`` and ``</s>``.

    Source: XLM-R and BERT as released; mBART (Liu et al. 2020) puts the language last, mBART-50 (Tang et al. 2020) first.
    """

    def __init__(self, name: str, bos: int, eos: int):
        self.name, self.bos, self.eos = str(name), bos, eos
        if self.name not in set(INPUT_FORMATS):
            raise ValueError(f"--input-format must be one of {', '.join(map(str, INPUT_FORMATS))}; got {name!r}")

    @property
    def needs_language(self) -> bool:
        """Whether the language has a symbol in the input."""
        return self.name in ("mbart", "mbart50")

    def added(self, texts: int) -> int:
        """Symbols beside the pieces of so many texts."""
        between = 2 if self.name == "xlmr" else 1
        return 2 + between * (texts - 1)

    def assemble(self, texts: Sequence[Tensor], room: int, language: Optional[int] = None) -> Assembled:
        """Put the texts together, cut to ``room`` tokens.

        Args:
            texts: one or two rows of pieces (S,), int64, without ``</s>``.
            room: tokens at most, all symbols counted.
            language: id of its symbol; only where ``needs_language``.

        Raises:
            ValueError: there is no room for one piece of each text.
        """
        assert (language is not None) == self.needs_language
        kept = cut_lengths([len(text) for text in texts], room - self.added(len(texts)))
        parts: List[Tensor] = []
        starts: List[int] = []
        length = 0

        def add(part: Tensor) -> None:
            nonlocal length
            parts.append(part)
            length += len(part)

        def symbols(*ids: int) -> Tensor:
            return torch.tensor(ids, dtype=torch.long)

        if self.name != "mbart":
            add(symbols(self.bos if language is None else language))
        for number, (text, count) in enumerate(zip(texts, kept)):
            if number and self.name == "xlmr":
                add(symbols(self.eos))
            starts.append(length)
            add(text[:count].long())
            add(symbols(self.eos))
        if self.name == "mbart":
            assert language is not None
            add(symbols(language))
        return Assembled(torch.cat(parts), tuple(starts), tuple(kept))


def cut_lengths(lengths: Sequence[int], room: int) -> List[int]:
    """Pieces to keep of each text such that they fit: the longest gives first, as long as it is the longest.

    Args:
        lengths: of the texts, in pieces; one or two.
        room: pieces in all.

    Raises:
        ValueError: no room for a piece of each.
    """
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
