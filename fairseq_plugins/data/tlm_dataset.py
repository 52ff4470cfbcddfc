"""Masked sentences and masked translation pairs for MLM + TLM pre-training."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import FairseqDataset, data_utils
from torch import Tensor

from ..ops.bert_masking import Replacements, choose_tokens, replace_tokens


class MaskingConfig(NamedTuple):
    """How tokens are masked.

    Attributes:
        mask_prob: share of tokens that are predicted, in (0, 1]; of these 80 % become ``<mask>``, 10 % a random piece, 10 %
            stay (BERT).
        one_side_prob: probability, in [0, 1], that in a pair only one side is masked, at a ratio drawn from
            U(mask_prob, 1) and always with ``<mask>``, while the other side stays whole (ERNIE-M's cross-attention MLM
            carried over to a joint encoder).
        seed: noise is a function of (seed, stream, epoch, index).
        stream: number of the dataset in a run, so that two pairs do not mask the same line in the same way.
    """

    mask_prob: float
    one_side_prob: float
    seed: int
    stream: int = 0


class TLMDataset(FairseqDataset):
    """Translation pairs (TLM) or single sentences (MLM), masked on the fly.

    A pair is two complete sentences ``<s> x </s>`` and ``<s> y </s>`` side by side; positions restart at the second one, as in
    XLM (Lample and Conneau 2019, section 3.3), without language embeddings, as in XLM-R.

    Args:
        sides: one or two indexable sequences of (S,) int64 tensors that end with ``</s>``; equal lengths.
        sizes: tokens per item of each side, without the ``<s>`` that is added here; (N,) each.
        dictionary: gives the ids of the special symbols and of ``<mask>``.
        masking: see :class:`MaskingConfig`.
    """

    def __init__(self, sides: Sequence[Any], sizes: Sequence[np.ndarray], dictionary: Any, masking: MaskingConfig):
        if len({len(side) for side in sides}) != 1:
            raise ValueError(f"the sides of a pair need equal lengths; got {[len(side) for side in sides]}")
        self.sides = list(sides)
        self.masking = masking
        self.pad, self.bos, self.eos = dictionary.pad(), dictionary.bos(), dictionary.eos()
        self.mask = dictionary.index("<mask>")
        # <mask> is the dictionary's last entry: never a random replacement.
        self.replacements = Replacements(self.mask, dictionary.nspecial, len(dictionary) - 1)
        self.sizes = np.sum([np.asarray(size) + 1 for size in sizes], axis=0)
        self.epoch = 1

    def __len__(self) -> int:
        return len(self.sides[0])

    def set_epoch(self, epoch: int) -> None:
        """Noise differs from epoch to epoch."""
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
                parts.append(self._corrupt(tokens, self.masking.mask_prob, rng))
            elif one_side == number:
                parts.append(self._blank(tokens, rng.uniform(self.masking.mask_prob, 1.0), rng))
            else:
                parts.append((tokens, np.full_like(tokens, self.pad)))
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

    def _blank(self, tokens: np.ndarray, ratio: float, rng: np.random.Generator) -> Tuple[np.ndarray, np.ndarray]:
        """Replace the chosen tokens by ``<mask>``; returns (tokens, target)."""
        chosen = self._choose(tokens, ratio, rng)
        return np.where(chosen, self.mask, tokens), np.where(chosen, tokens, self.pad)

    def _corrupt(self, tokens: np.ndarray, ratio: float, rng: np.random.Generator) -> Tuple[np.ndarray, np.ndarray]:
        """BERT's 80 / 10 / 10 corruption of the chosen tokens; returns (tokens, target)."""
        chosen = self._choose(tokens, ratio, rng)
        return replace_tokens(tokens, chosen, self.replacements, rng), np.where(chosen, tokens, self.pad)

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

    def num_tokens(self, index: int) -> int:
        """Tokens of the item, both sides and their ``<s>``."""
        return int(self.sizes[index])

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        """Tokens of several items."""
        return self.sizes[indices]

    def size(self, index: int) -> int:
        """Tokens of the item: what ``--tokens-per-sample`` limits."""
        return int(self.sizes[index])

    def ordered_indices(self) -> np.ndarray:
        """Shuffled, then sorted by size, so that batches hold similar lengths."""
        with data_utils.numpy_seed(self.masking.seed, self.epoch):
            order = np.random.permutation(len(self))
        return order[np.argsort(self.sizes[order], kind="mergesort")]

    @property
    def supports_prefetch(self) -> bool:
        """Memory-mapped data needs none."""
        return False
