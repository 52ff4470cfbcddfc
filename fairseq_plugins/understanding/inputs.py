"""Inputs of an encoder: symbols around one or two texts, cutting, batches."""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import data_utils
from fairseq.dataclass.constants import ChoiceEnum
from torch import Tensor

from ..common.epoch_dataset import EpochDataset

INPUT_FORMATS = ChoiceEnum(["xlmr", "bert", "mbart", "mbart50"])
"""xlmr ``<s> A </s> </s> B </s>``; bert ``<s> A </s> B </s>``; mbart ``A </s> B </s> LANG``;
mbart50 (and NLLB) ``LANG A </s> B </s>``."""


class Assembled(NamedTuple):
    """Tokens of an input, and the places of its texts."""

    tokens: Tensor  # (S,) int64
    starts: Tuple[int, ...]  # place of the first piece of each text
    lengths: Tuple[int, ...]  # pieces of each text after cutting


class InputFormat:
    """Special symbols around one or two texts: one of :data:`INPUT_FORMATS`.

    Source: XLM-R and BERT as released; mBART (Liu et al. 2020) puts the language last, mBART-50
    (Tang et al. 2020) first.
    """

    def __init__(self, name: str, bos: int, eos: int):
        self.name, self.bos, self.eos = str(name), bos, eos
        if self.name not in set(INPUT_FORMATS):
            valid = ", ".join(map(str, INPUT_FORMATS))
            raise ValueError(f"--input-format must be one of {valid}; got {name!r}")

    @property
    def needs_language(self) -> bool:
        """True if the symbol of the language is part of the input."""
        return self.name in ("mbart", "mbart50")

    def added(self, texts: int) -> int:
        """Count the symbols beside the pieces of one or two texts."""
        symbols_between = 2 if self.name == "xlmr" else 1
        return 2 + symbols_between * (texts - 1)

    def assemble(
        self, texts: Sequence[Tensor], room: int, language: Optional[int] = None
    ) -> Assembled:
        """Join one or two texts, cut to ``room`` tokens in all, symbols included.

        Args:
            texts: (S,) int64 each, without ``</s>``.
            room: largest number of tokens.
            language: id of the language's symbol if ``needs_language``, else None.
        """
        assert (language is not None) == self.needs_language
        lengths = cut_lengths([len(text) for text in texts], room - self.added(len(texts)))
        symbol = self.bos if language is None else language
        tokens = [] if self.name == "mbart" else [symbol]
        starts: List[int] = []
        for text, length in zip(texts, lengths):
            if starts and self.name == "xlmr":
                tokens.append(self.eos)
            starts.append(len(tokens))
            tokens += [*text[:length].tolist(), self.eos]
        if self.name == "mbart":
            tokens.append(symbol)
        return Assembled(torch.tensor(tokens, dtype=torch.long), tuple(starts), tuple(lengths))


def cut_lengths(lengths: Sequence[int], room: int) -> List[int]:
    """Return the lengths of one or two texts after a cut to ``room`` pieces in all.

    The longer text is cut first, until both are equally long.

    Raises:
        ValueError: there is no room for a piece of each text.
    """
    if room < len(lengths):
        raise ValueError(
            f"--max-positions leaves room for {room} pieces of {len(lengths)} texts; valid: one "
            "each at least"
        )
    if sum(lengths) <= room:
        return list(lengths)
    if len(lengths) == 1:
        return [room]
    shorter = min(min(lengths), room // 2)
    longer = room - shorter
    return [longer, shorter] if lengths[0] > lengths[1] else [shorter, longer]


class InputOptions(NamedTuple):
    """Options for making inputs of the rows of a subset."""

    input_format: InputFormat
    max_positions: int  # longest input in tokens; longer ones are cut
    pad: int  # id of <pad>
    seed: int  # of the order of the rows, with the epoch
    language: Optional[int] = None  # id of the language's symbol, if the format needs it

    def assemble(self, texts: Sequence[Tensor]) -> Assembled:
        """Join one or two texts (S,) without ``</s>``, and cut them."""
        return self.input_format.assemble(texts, self.max_positions, self.language)


def check_rows(rows: Mapping[str, int]) -> None:
    """Raise ValueError unless the files of a subset (name -> rows) have equal numbers of rows."""
    if len(set(rows.values())) > 1:
        listed = ", ".join(f"{name} has {count} rows" for name, count in rows.items())
        raise ValueError(f"{listed}; valid: equal numbers")


def count_pieces(text: Any) -> np.ndarray:
    """Count the pieces of the rows of an indexed dataset, without ``</s>``. (N,) int64."""
    return np.asarray(text.sizes, dtype=np.int64) - 1


class NLUDataset(EpochDataset):
    """Subset of a language.

    Args:
        texts: one or two indexed datasets of N rows (S,) int64 that end with ``</s>``, as
            fairseq-preprocess writes them.

    Attributes:
        cut_rows: number of rows that are longer than ``max_positions`` and cut.
        cut_tokens: number of tokens cut from them.
        is_labelled: False for rows without labels, which can be predicted but not scored.
    """

    is_labelled = True

    def __init__(self, texts: Sequence[Any], options: InputOptions):
        check_rows({f"input{number}": len(text) for number, text in enumerate(texts)})
        self.texts, self.options, self.seed, self.epoch = list(texts), options, options.seed, 1
        limit, symbols = options.max_positions, options.input_format.added(len(texts))
        cut_lengths([1] * len(texts), limit - symbols)  # raises ValueError if there is no room
        uncut = np.sum([count_pieces(text) for text in texts], axis=0) + symbols
        self.cut_rows = int((uncut > limit).sum())
        self.cut_tokens = int((uncut - limit).clip(min=0).sum())
        self.sizes = np.minimum(uncut, limit)

    def __len__(self) -> int:
        return len(self.sizes)

    def assemble(self, index: int) -> Assembled:
        """Join the texts of a row."""
        return self.options.assemble([text[index][:-1] for text in self.texts])

    def __getitem__(self, index: int) -> Dict[str, Any]:
        return {"id": int(index), "tokens": self.assemble(int(index)).tokens}

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """Pad inputs on the right, ``net_input.src_tokens`` (B, S). Empty for no samples."""
        if not samples:
            return {}
        rows = [sample["tokens"] for sample in samples]
        lengths = torch.tensor([len(row) for row in rows])
        return {
            "id": torch.tensor([sample["id"] for sample in samples]),
            "nsentences": len(samples),
            "ntokens": int(lengths.sum()),
            "net_input": {
                "src_tokens": data_utils.collate_tokens(rows, self.options.pad),
                "src_lengths": lengths,
            },
        }

    def set_epoch(self, epoch: int) -> None:
        """Note the epoch, of which the order of the batches is a function."""
        self.epoch = epoch
