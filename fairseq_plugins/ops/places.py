"""Places of (B, T), and lengths, known on the host before the device has them: nobody waits for the device."""

from typing import Any, Dict, NamedTuple, Sequence

import torch
from torch import Tensor

from .masks import lengths_to_padding_mask, move

SOURCE_LENGTHS, TARGET_LENGTHS = "host_src_lengths", "host_tgt_lengths"
"""In a batch: lengths (B,) as arrays, which fairseq leaves on the host."""


class Places(NamedTuple):
    """N places of (B, T), row by row. As an index, ``values[places]`` (N, ...) are those of ``values`` (B, T, ...)."""

    rows: Tensor  # (N,) int64
    columns: Tensor  # (N,) int64

    @classmethod
    def where(cls, mask: Tensor) -> "Places":
        """The places where ``mask`` (B, T) bool is True; waits for the device, if the mask lies there."""
        return cls(*mask.nonzero(as_tuple=True))

    @classmethod
    def inside(cls, lengths: Tensor, size: int, device: torch.device) -> "Places":
        """The first ``lengths`` (B,) of ``size`` places of each row."""
        return cls(*(move(part, device) for part in cls.where(~lengths_to_padding_mask(lengths, size))))


def spread(values: Tensor, places: Places, shape: Sequence[int], filler: float = 0) -> Tensor:
    """(B, T, ...) with ``values`` (N, ...) at the places, and ``filler`` elsewhere; ``shape`` is (B, T)."""
    out = values.new_full((*shape, *values.shape[1:]), filler)
    return out.index_put_(tuple(places), values)


def source_lengths(sample: Dict[str, Any]) -> Tensor:
    """Of fairseq's translation batch, on the host; waits for the device where the collater has not put them there."""
    if SOURCE_LENGTHS in sample:
        return torch.from_numpy(sample[SOURCE_LENGTHS])
    return sample["net_input"]["src_lengths"].cpu()


def target_lengths(sample: Dict[str, Any], pad: int, eos: int) -> Tensor:
    """As above, ``</s>`` not counted."""
    if TARGET_LENGTHS in sample:
        return torch.from_numpy(sample[TARGET_LENGTHS])
    target: Tensor = sample["target"]
    return (target.ne(pad) & target.ne(eos)).sum(dim=1).cpu()
