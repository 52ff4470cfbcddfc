"""Padding masks, and places inside the padding.

Polarity everywhere: True = padding, may not be attended. If the lengths lie on the host and all
else on a device, nothing here waits for the device.
"""

from typing import Any, Dict, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

SOURCE_LENGTHS, TARGET_LENGTHS = "host_src_lengths", "host_tgt_lengths"
"""Keys of a batch: lengths (B,) as numpy arrays, which fairseq leaves on the host."""


def move(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to a device; the host does not wait for its own copies."""
    return tensor.to(device, non_blocking=tensor.device.type == "cpu")


def lengths_to_padding_mask(
    lengths: Tensor, size: Optional[int] = None, device: Optional[torch.device] = None
) -> Tensor:
    """Mask the right padding of rows.

    Args:
        lengths: (B,) int64.
        size: columns of the mask; the longest length when None.
        device: of the mask; that of the lengths when None.

    Returns:
        (B, size) bool, True = padding.
    """
    columns = int(lengths.max()) if size is None else size
    lengths = lengths if device is None else move(lengths, device)
    return torch.arange(columns, device=lengths.device)[None, :] >= lengths[:, None]


def additive_key_mask(padding_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn a padding mask (B, K) bool, True = may not be attended, into a bias of attention logits.

    The bias (B, 1, 1, K) is finite, because some attention kernels return NaN for a row in which
    every key is masked with -inf. Here such a row attends uniformly, and the caller ignores its
    output.
    """
    # Half of the smallest finite value: adding any realistic logit to it cannot overflow to -inf.
    bias = torch.zeros_like(padding_mask, dtype=dtype).masked_fill(
        padding_mask, torch.finfo(dtype).min / 2
    )
    return bias[:, None, None, :]


class Places(NamedTuple):
    """N places of (B, T), row by row, known on the host before the device has them.

    As an index, ``values[places]`` (N, ...) selects from ``values`` (B, T, ...).
    """

    rows: Tensor  # (N,) int64
    columns: Tensor  # (N,) int64

    @classmethod
    def where(cls, mask: Tensor) -> "Places":
        """List the places where ``mask`` (B, T) bool is True.

        Waits for the device if the mask lies there.
        """
        return cls(*mask.nonzero(as_tuple=True))

    @classmethod
    def inside(cls, lengths: Tensor, size: int, device: torch.device) -> "Places":
        """List the first ``lengths`` (B,) of ``size`` places of each row."""
        return cls(
            *(move(part, device) for part in cls.where(~lengths_to_padding_mask(lengths, size)))
        )


def spread(values: Tensor, places: Places, shape: Sequence[int], filler: float = 0) -> Tensor:
    """Write ``values`` (N, ...) to their places in a tensor (B, T, ...) filled with ``filler``.

    ``shape`` is (B, T).
    """
    table = values.new_full((*shape, *values.shape[1:]), filler)
    return table.index_put_(tuple(places), values)


def source_lengths(sample: Dict[str, Any]) -> Tensor:
    """Return the source lengths of fairseq's translation batch on the host, (B,) int64.

    Waits for the device unless the collater has put them on the host.
    """
    if SOURCE_LENGTHS in sample:
        return torch.from_numpy(sample[SOURCE_LENGTHS])
    return sample["net_input"]["src_lengths"].cpu()


def target_lengths(sample: Dict[str, Any], pad: int, eos: int) -> Tensor:
    """Return the target lengths on the host, (B,) int64, ``</s>`` not counted.

    See :func:`source_lengths`.
    """
    if TARGET_LENGTHS in sample:
        return torch.from_numpy(sample[TARGET_LENGTHS])
    target: Tensor = sample["target"]
    return (target.ne(pad) & target.ne(eos)).sum(dim=1).cpu()
