"""Masked sentences and masked translation pairs for MLM + TLM pre-training."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np
import torch
from fairseq.data import data_utils
from torch import Tensor

from ..common.epoch_dataset import EpochDataset
from ..ops.bert_masking import Replacements, choose_tokens, replace_tokens


class MaskingConfig(NamedTuple):
    """How tokens are masked."""

    mask_prob: float  # share of tokens that are predicted, in (0, 1]; of these 80 % become <mask>, 10 % a random piece
    # probability, in [0, 1], that in a pair only one side is masked, at a ratio drawn from U(mask_prob, 1) and always
    # with ``<mask>``, while the other side stays whole (ERNIE-M's cross-attention MLM carried over to a joint encoder)
    one_side_prob: float
    seed: int  # noise is a function of (seed, stream, epoch, index)
    stream: int = 0  # number of the dataset in a run, so that two pairs do not mask the same line in the same way


class TLMDataset(EpochDataset):
    """Translation pairs (TLM) or single sentences (MLM), masked on the fly.

    A pair is two complete sentences ``<s> x </s>`` and ``<s> y </s>`` side by side; positions restart at the second one, as in
    XLM (Lample and Conneau 2019, section 3.3), without language embeddings, as in XLM-R.

    ``sides`` are one or two sequences of (S,) int64 tensors that end with ``</s>``, of equal lengths; ``sizes``: (N,) tokens of
    each item, without the ``<s>`` that is added here. The dictionary's last entry is ``<mask>``, never a random replacement.
    """

    def __init__(self, sides: Sequence[Any], sizes: Sequence[np.ndarray], dictionary: Any, masking: MaskingConfig):
        self.sides, self.masking, self.seed, self.epoch = list(sides), masking, masking.seed, 1
        self.pad, self.bos, self.eos = dictionary.pad(), dictionary.bos(), dictionary.eos()
        self.mask = dictionary.index("<mask>")
        self.replacements = Replacements(self.mask, dictionary.nspecial, len(dictionary) - 1)
        self.sizes = np.sum([np.asarray(size) + 1 for size in sizes], axis=0)

    def __len__(self) -> int:
        return len(self.sides[0])

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __getitem__(self, index: int) -> Dict[str, Any]:
        rng = np.random.default_rng((self.masking.seed, self.masking.stream, self.epoch, int(index)))
        one_side: Optional[int] = None
        if len(self.sides) == 2 and rng.random() < self.masking.one_side_prob:
            one_side = int(rng.integers(2))
        parts = []
        for number, side in enumerate(self.sides):
            tokens = np.concatenate([[self.bos], side[index].numpy()])
            if one_side is None:
                chosen = self._choose(tokens, self.masking.mask_prob, rng)
                noisy = replace_tokens(tokens, chosen, self.replacements, rng)
            elif one_side == number:
                chosen = self._choose(tokens, rng.uniform(self.masking.mask_prob, 1.0), rng)
                noisy = np.where(chosen, self.mask, tokens)
            else:
                chosen, noisy = np.zeros(len(tokens), dtype=bool), tokens
            parts.append((noisy, np.where(chosen, tokens, self.pad)))
        positions = [np.arange(len(tokens)) + self.pad + 1 for tokens, _ in parts]
        return {
            "id": index,
            "tokens": torch.from_numpy(np.concatenate([tokens for tokens, _ in parts])),
            "target": torch.from_numpy(np.concatenate([target for _, target in parts])),
            "positions": torch.from_numpy(np.concatenate(positions)),
        }

    def _choose(self, tokens: np.ndarray, ratio: float, rng: np.random.Generator) -> np.ndarray:
        """(S,) bool: which tokens are predicted; never ``<s>`` or ``</s>``, at least one where there is any."""
        return choose_tokens((tokens != self.bos) & (tokens != self.eos), ratio, rng)

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """Pad to the right: net_input with src_tokens, src_lengths and positions (B, S), target (B, S)."""
        if not samples:
            return {}

        def pad(key: str) -> Tensor:
            return data_utils.collate_tokens([sample[key] for sample in samples], self.pad)

        lengths = torch.tensor([len(sample["tokens"]) for sample in samples])
        return {
            "id": torch.tensor([sample["id"] for sample in samples]),
            "nsentences": len(samples),
            "ntokens": int(lengths.sum()),
            "net_input": {"src_tokens": pad("tokens"), "src_lengths": lengths, "positions": pad("positions")},
            "target": pad("target"),
        }

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Stock's answer: the task joins several of these in an order that is the same in every epoch."""
        return True
