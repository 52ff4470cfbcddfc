"""Masked sentences and masked translation pairs for MLM + TLM pre-training."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np
import torch
from fairseq.data import data_utils
from torch import Tensor

from ..common.epoch_dataset import EpochDataset
from ..ops.bert_masking import Replacements, choose_tokens, replace_tokens


class MaskingConfig(NamedTuple):
    """Settings of the noise, which is a function of (seed, stream, epoch, index).

    A predicted token becomes ``<mask>`` with probability 0.8, a random piece with 0.1, and stays as
    it is with 0.1. In a pair that is masked on one side only, the share of predicted tokens is
    drawn from U(mask_prob, 1), every predicted token becomes ``<mask>``, and the other side stays
    as it is (cross-attention MLM of ERNIE-M, carried over to a joint encoder).
    """

    mask_prob: float  # share of tokens that are predicted, in (0, 1]
    one_side_prob: float  # probability that a pair is masked on one side only, in [0, 1]
    seed: int
    stream: int = 0  # number of the dataset, so that each dataset masks its line n differently


class TLMDataset(EpochDataset):
    """Translation pairs (TLM) or single sentences (MLM), masked on the fly.

    A pair is two complete sentences ``<s> x </s>`` and ``<s> y </s>`` side by side; positions
    restart at the second one, as in XLM (Lample and Conneau 2019, section 3.3), without language
    embeddings, as in XLM-R.

    Args:
        sides: one or two sequences of N (S,) int64 tensors that end with ``</s>``.
        sizes: of each side, (N,) tokens of each item, without the ``<s>`` that is added here.
        dictionary: its last entry is ``<mask>``, never a random replacement.
        masking: settings of the noise.
    """

    def __init__(
        self,
        sides: Sequence[Any],
        sizes: Sequence[np.ndarray],
        dictionary: Any,
        masking: MaskingConfig,
    ):
        self.sides = list(sides)
        self.masking = masking
        self.seed = masking.seed
        self.epoch = 1
        self.pad = dictionary.pad()
        self.bos = dictionary.bos()
        self.eos = dictionary.eos()
        self.mask = dictionary.index("<mask>")
        # Random pieces are those before <mask>; symbols of languages may follow it.
        self.replacements = Replacements(self.mask, dictionary.nspecial, self.mask)
        self.sizes = np.sum([np.asarray(size) + 1 for size in sizes], axis=0)

    def __len__(self) -> int:
        return len(self.sides[0])

    def set_epoch(self, epoch: int) -> None:
        """Choose the noise of an epoch."""
        self.epoch = epoch

    def __getitem__(self, index: int) -> Dict[str, Any]:
        """Mask an item.

        Returns:
            ``tokens``, ``target`` (the tokens where they are predicted, else padding) and
            ``positions`` (rows of the position table), each (S,) int64, and ``id``.
        """
        seeds = (self.masking.seed, self.masking.stream, self.epoch, int(index))
        rng = np.random.default_rng(seeds)
        masked_side: Optional[int] = None  # None = all sides
        if len(self.sides) == 2 and rng.random() < self.masking.one_side_prob:
            masked_side = int(rng.integers(2))
        inputs, targets, positions = [], [], []
        for number, side in enumerate(self.sides):
            tokens = np.concatenate([[self.bos], side[index].numpy()])
            if masked_side is None:
                predicted = self._draw(tokens, self.masking.mask_prob, rng)
                noisy = replace_tokens(tokens, predicted, self.replacements, rng)
            elif masked_side == number:
                predicted = self._draw(tokens, rng.uniform(self.masking.mask_prob, 1.0), rng)
                noisy = np.where(predicted, self.mask, tokens)
            else:
                predicted = np.zeros(len(tokens), dtype=bool)
                noisy = tokens
            inputs.append(noisy)
            targets.append(np.where(predicted, tokens, self.pad))
            positions.append(np.arange(len(tokens)) + self.pad + 1)
        return {
            "id": index,
            "tokens": torch.from_numpy(np.concatenate(inputs)),
            "target": torch.from_numpy(np.concatenate(targets)),
            "positions": torch.from_numpy(np.concatenate(positions)),
        }

    def _draw(self, tokens: np.ndarray, ratio: float, rng: np.random.Generator) -> np.ndarray:
        """Draw the tokens that are predicted, (S,) bool; never ``<s>`` or ``</s>``."""
        return choose_tokens((tokens != self.bos) & (tokens != self.eos), ratio, rng)

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """Pad a batch to the right: src_tokens, positions and target (B, S), src_lengths (B,)."""
        if not samples:
            return {}

        def stack(key: str) -> Tensor:
            """Stack rows of different lengths."""
            return data_utils.collate_tokens([sample[key] for sample in samples], self.pad)

        lengths = torch.tensor([len(sample["tokens"]) for sample in samples])
        return {
            "id": torch.tensor([sample["id"] for sample in samples]),
            "nsentences": len(samples),
            "ntokens": int(lengths.sum()),
            "net_input": {
                "src_tokens": stack("tokens"),
                "src_lengths": lengths,
                "positions": stack("positions"),
            },
            "target": stack("target"),
        }

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Return True: the task joins these datasets in one order, so batches never change."""
        return True
