"""Masked texts of two segments, monolingual or parallel, for VECO's pre-training."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from ..common.epoch_dataset import StreamDataset
from ..common.sampling import Purpose, draw_texts, epoch_rng
from ..ops.bert_masking import Replacements, choose_tokens, replace_tokens
from ..ops.masks import Places
from .alternating_batches import take_turns
from .veco_segments import SegmentStream


class VECODataset(StreamDataset):
    """Streams of (x, y), drawn anew in every epoch and masked on the fly as BERT does.

    Rows are ``<s> ... </s>``; no special symbol is masked, and at least one token of a segment is. Every batch is monolingual or
    parallel. Indices from ``len(self)`` on are the same texts again, with other noise.

    Args:
        streams: languages, then pairs; their order is part of the noise.
        dictionary: its pieces stand before ``<mask>``, and what stands behind it (symbols of languages) never replaces a token.
        mask_prob: share of the tokens of a segment that are predicted, in (0, 1].
        probabilities: (K,) share of each language among the languages and of each pair among the pairs; an epoch then has as many
            texts as there are of each kind, and as many batches of each kind as the kind with more has, in turn. None = every text
            once, monolingual batches first.

    Attributes:
        sizes: (N,) int64, tokens that a text takes up in a batch, which is what ``--max-tokens`` counts and ``--tokens-per-sample``
            limits: twice the longer row. ``<s> x </s> </s> y </s>`` is never longer.
    """

    def __init__(
        self,
        streams: Sequence[SegmentStream],
        dictionary: Any,
        mask_prob: float,
        seed: int,
        probabilities: Optional[Sequence[float]] = None,
    ):
        parallel = [stream.parallel for stream in streams]
        assert parallel == sorted(parallel), "languages first, then pairs"
        self._languages = parallel.count(False)
        self.first_pair = sum(len(stream) for stream in streams[: self._languages])
        self.mask_prob = mask_prob
        self.pad, self.bos, self.eos = dictionary.pad(), dictionary.bos(), dictionary.eos()
        mask = dictionary.index("<mask>")
        self.replacements = Replacements(mask, dictionary.nspecial, mask)
        shares = None if probabilities is None else np.asarray(probabilities, dtype=float)
        super().__init__(streams, [2 * stream.lengths.max(axis=1) for stream in streams], seed, shares)

    def draw(self, rng: np.random.Generator, probabilities: np.ndarray) -> np.ndarray:
        """Texts of an epoch, monolingual ones first. (N,)."""
        counts = np.diff(self._starts)
        drawn = []
        for part in (slice(0, self._languages), slice(self._languages, len(counts))):
            if len(counts[part]):
                drawn.append(self._starts[part][0] + draw_texts(counts[part].tolist(), probabilities[part], rng))
        return np.concatenate(drawn)

    def __getitem__(self, index: int) -> Dict[str, Any]:
        number, text = self.place_of(index % len(self))
        stream = self.streams[number]
        rng = np.random.default_rng((self.seed, number, self.epoch, int(index)))
        parts = [self._mask(np.concatenate([[self.bos], tokens]), rng) for tokens in stream.read(text)]
        return {
            "id": int(index),
            "parallel": stream.parallel,
            "lengths": [len(tokens) for tokens, _ in parts],
            "tokens": np.concatenate([tokens for tokens, _ in parts]),
            "target": np.concatenate([target for _, target in parts]),
        }

    def _mask(self, tokens: np.ndarray, rng: np.random.Generator) -> Tuple[np.ndarray, np.ndarray]:
        """A masked row, and the original token where it is predicted, padding elsewhere. (S,) int64 each."""
        chosen = choose_tokens((tokens != self.bos) & (tokens != self.eos), self.mask_prob, rng)
        return replace_tokens(tokens, chosen, self.replacements, rng), np.where(chosen, tokens, self.pad)

    def collater(self, samples: List[Dict[str, Any]]) -> Dict[str, Any]:
        """A batch of one kind.

        Returns ``net_input`` with ``src_tokens`` (2B, S) int64, padded on the right, the first segments before the second ones;
        ``src_lengths`` (2B,); ``masked``, the places of (2B, S) that are predicted; ``joint_tokens`` (B, J) int64, ``<s> x </s>
        </s> y </s>`` with the same tokens masked, and ``joint_masked``, places of (B, J), both None in a monolingual batch.
        ``target`` (2B, S) and ``joint_target`` (B, J) or None: the token that is predicted, padding elsewhere.
        """
        if not samples:
            return {}
        parallel = samples[0]["parallel"]
        assert all(sample["parallel"] == parallel for sample in samples), "a batch is monolingual or parallel"
        flat = [np.concatenate([sample[key] for sample in samples]) for key in ("tokens", "target")]
        lengths = np.array([sample["lengths"] for sample in samples])
        tokens, target = (self._rows(values, lengths) for values in flat)
        joint, joint_target = (
            self._rows(values, lengths.sum(axis=1, keepdims=True)) if parallel else None for values in flat
        )
        if joint is not None:
            joint[torch.arange(len(samples)), torch.from_numpy(lengths[:, 0])] = self.eos
        return {
            "id": torch.tensor([sample["id"] for sample in samples]),
            "nsentences": len(samples),
            "ntokens": int(lengths.sum()),
            "net_input": {
                "src_tokens": tokens,
                "src_lengths": torch.from_numpy(lengths.T.reshape(-1)),
                "masked": Places.where(target.ne(self.pad)),
                "joint_tokens": joint,
                "joint_masked": None if joint_target is None else Places.where(joint_target.ne(self.pad)),
            },
            "target": target,
            "joint_target": joint_target,
        }

    def _rows(self, flat: np.ndarray, lengths: np.ndarray) -> Tensor:
        """x y x y ... one behind another -> (2B, S), every x before every y; (B, K) lengths of K rows of each text."""
        rows = np.full((*lengths.shape, int(lengths.max())), self.pad, dtype=np.int64)
        rows[np.arange(rows.shape[2]) < lengths[:, :, None]] = flat
        return torch.from_numpy(rows.transpose(1, 0, 2).reshape(-1, rows.shape[2]))

    @property
    def kinds(self) -> int:
        """Kinds of batches that take turns: 2 where both are sampled, otherwise 1."""
        return 2 if self.probabilities is not None and 0 < self.first_pair < len(self) else 1

    def filter_indices_by_size(self, indices: np.ndarray, max_sizes: Any) -> Tuple[np.ndarray, List[int]]:
        """Leave out texts that are longer than the limit, or the smallest of several limits; returns what stays and what goes."""
        limits = max_sizes if isinstance(max_sizes, (list, tuple)) else [max_sizes]
        fits = self.sizes[indices] <= min((limit for limit in limits if limit is not None), default=np.inf)
        return indices[fits], indices[~fits].tolist()

    def batch_by_size(self, indices: np.ndarray, *limits: Any, **options: Any) -> List[np.ndarray]:
        """Batches of one kind each: in turn where both kinds are sampled, monolingual ones first otherwise.

        Raises ValueError: all texts of a kind are too long.
        """
        is_pair = indices >= self.first_pair
        batch = super().batch_by_size
        kinds = [batch(indices[part], *limits, **options) if part.any() else [] for part in (~is_pair, is_pair)]
        if self.kinds == 1:
            return [batch for batches in kinds for batch in batches]
        for option, batches in zip(("--monolingual", "--pairs"), kinds):
            if not len(batches):
                raise ValueError(
                    f"{option}: no text fits into --tokens-per-sample, --max-tokens and the positions of the model; raise them or "
                    f"leave {option} empty"
                )
        return take_turns(kinds, len(self), epoch_rng(self.seed, self.epoch, Purpose.BATCHES))
