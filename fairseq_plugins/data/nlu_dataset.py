"""Rows of a data-bin as inputs of an encoder, in batches padded to the right; with classes, and several inputs an item."""

from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import torch
from fairseq.data import Dictionary, data_utils

from ..common.epoch_dataset import EpochDataset
from .nlu_inputs import Assembled, InputFormat, cut_lengths


class NLUDataset(EpochDataset):
    """One language of one split.

    Args:
        texts: one or two indexable sequences of N rows (S,) int64 that end with ``</s>``, as fairseq-preprocess writes them.
        sizes: pieces of each row and text, ``</s>`` counted; (N,) each.
        max_positions: tokens of an input, at most; ``cut_rows`` longer ones are cut by ``cut_tokens`` pieces in all. Refused where
            there is no room for a piece of each text.
        seed: of the order of the rows, with the epoch.
        language: id of the language's symbol, where the format needs one.
    """

    def __init__(
        self,
        texts: Sequence[Any],
        sizes: Sequence[Any],
        input_format: InputFormat,
        max_positions: int,
        pad: int,
        seed: int,
        language: Optional[int] = None,
    ):
        if len({len(text) for text in texts}) != 1:
            raise ValueError(f"input0 and input1 need equal numbers of rows; got {[len(text) for text in texts]}")
        self.texts, self.input_format, self.max_positions = list(texts), input_format, max_positions
        self.pad, self.seed, self.language, self.epoch = pad, seed, language, 1
        whole = np.sum([np.asarray(size, dtype=np.int64) - 1 for size in sizes], axis=0)
        whole += input_format.added(len(texts))
        cut_lengths([1] * len(texts), max_positions - input_format.added(len(texts)))  # refuses what has no room
        self.cut_rows = int((whole > max_positions).sum())
        self.cut_tokens = int((whole - max_positions).clip(min=0).sum())
        self.sizes = np.minimum(whole, max_positions)

    def __len__(self) -> int:
        return len(self.sizes)

    def assemble(self, index: int) -> Assembled:
        rows = [text[index][:-1] for text in self.texts]  # without </s>, which the format places
        return self.input_format.assemble(rows, self.max_positions, self.language)

    def __getitem__(self, index: int) -> Dict[str, Any]:
        return {"id": int(index), "tokens": self.assemble(int(index)).tokens}

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """net_input with src_tokens (B, S) and src_lengths (B,); id (B,); the numbers of sentences and tokens."""
        if not samples:
            return {}
        lengths = torch.tensor([len(sample["tokens"]) for sample in samples])
        return {
            "id": torch.tensor([sample["id"] for sample in samples]),
            "nsentences": len(samples),
            "ntokens": int(lengths.sum()),
            "net_input": {
                "src_tokens": data_utils.collate_tokens([sample["tokens"] for sample in samples], self.pad),
                "src_lengths": lengths,
            },
        }

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


class LabelledDataset(NLUDataset):
    """Inputs with one class each.

    Args:
        labels: (N,) int64, classes counted from 0.
        decoder_inputs: batches also hold what a decoder reads: the input with its last token in front, as in stock
            ``sentence_prediction``. In mBART's format that is LANG A </s> B </s>, mBART's own order.
    """

    def __init__(self, *others: Any, labels: np.ndarray, decoder_inputs: bool = False, **more: Any):
        super().__init__(*others, **more)
        if len(labels) != len(self):
            raise ValueError(f"label has {len(labels)} rows, input0 {len(self)}; valid: as many")
        self.labels, self.decoder_inputs = labels, decoder_inputs

    def __getitem__(self, index: int) -> Dict[str, Any]:
        return {**super().__getitem__(index), "target": int(self.labels[index])}

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """Like :class:`NLUDataset`, with target (B,) int64; with ``decoder_inputs`` prev_output_tokens (B, S) in net_input."""
        batch = super().collater(samples)
        if batch:
            batch["target"] = torch.tensor([sample["target"] for sample in samples])
        if batch and self.decoder_inputs:
            rolled = [sample["tokens"].roll(1) for sample in samples]
            batch["net_input"]["prev_output_tokens"] = data_utils.collate_tokens(rolled, self.pad)
        return batch


class RowGroups(NLUDataset):
    """A dataset whose items hold ``rows``; the collater puts the rows of all items of a batch below each other.

    What is computed of a whole item, as a question's answer or a query's nDCG, is then found in one batch of one process, and the
    sums over items add up over batches and processes.
    """

    longest = 0
    """Tokens of the longest input."""

    def set_rows(self, counts: np.ndarray, lengths: np.ndarray) -> None:
        """Set the sizes by ``counts`` (N,), rows of each item, at least 1, and ``lengths`` (N,), tokens of its longest row."""
        self.sizes = counts * lengths  # what the item needs in a padded batch
        self.longest = int(lengths.max(initial=0))

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """Like the class below, over all rows (R,); and group (R,) int64, the number of the row's item.

        id is (items,), row (R,) int64 what the class below calls id.
        """
        if not samples:
            return {}
        batch = super().collater([row for sample in samples for row in sample["rows"]])
        batch["row"] = batch["id"]
        counts = torch.tensor([len(sample["rows"]) for sample in samples])
        batch["group"] = torch.repeat_interleave(torch.arange(len(samples)), counts)
        batch["id"] = torch.tensor([sample["id"] for sample in samples])
        batch["nsentences"] = len(samples)
        return batch


def labels_of(dictionary: Dictionary) -> List[str]:
    return [symbol for symbol in dictionary.symbols[dictionary.nspecial :] if not symbol.startswith("madeupword")]


def class_numbers(rows: Any, dictionary: Dictionary, origin: str) -> np.ndarray:
    """Classes counted from 0, (N,) int64, of rows of a symbol and ``</s>``; ValueError: no or several symbols, or an unknown one.

    ``dictionary`` is that of the labels, ``origin`` the subset, for messages.
    """
    numbers = np.zeros(len(rows), dtype=np.int64)
    for index in range(len(rows)):
        found = [int(token) for token in rows[index] if int(token) != dictionary.eos()]
        if len(found) != 1:
            raise ValueError(f"subset {origin}: row {index + 1} of label has {len(found)} symbols; valid: one")
        numbers[index] = found[0] - dictionary.nspecial
    unknown = int((numbers < 0).sum())
    if unknown:
        raise ValueError(
            f"subset {origin}: {unknown} rows have a label that training has not; valid: {', '.join(labels_of(dictionary))}"
        )
    return numbers
