"""The operators that a device would choose: dropout and attention keep other tensors for the backward pass on CPU and GPU."""

import contextlib
from functools import partial
from typing import Any, Callable, Dict, Iterator, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from ..masked_lm import model as attention

aten = torch.ops.aten
ATTENTION, DROPOUT = "scaled_dot_product_attention", "dropout"
"""Functions of ``torch.nn.functional``, which modules look up there when they compute."""


@contextlib.contextmanager
def kernels(gpu: bool) -> Iterator[None]:
    """Let tensors without values go the ways of a CPU or of a GPU.

    On a GPU dropout keeps a mask of one byte for each number, on CPU of the numbers' own width, as for device ``meta``.
    Attention is fused on a GPU, and on CPU where it has no dropout and our own does not write it out.
    """
    stock = {name: getattr(F, name) for name in (ATTENTION, DROPOUT)}
    written_out = attention.is_written_out
    try:
        for name, function in _chosen(stock, gpu).items():
            setattr(F, name, function)
        if gpu:
            attention.is_written_out = lambda *_: False
        yield
    finally:
        attention.is_written_out = written_out
        for name, function in stock.items():
            setattr(F, name, function)


def _chosen(stock: Dict[str, Callable[..., Tensor]], gpu: bool) -> Dict[str, Callable[..., Tensor]]:
    attention = {ATTENTION: partial(_attention, stock[ATTENTION], gpu)}
    return {**attention, DROPOUT: partial(_dropout, stock[DROPOUT])} if gpu else {**attention}


def _dropout(
    stock: Callable[..., Tensor], input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    if not training or not 0 < p < 1 or not input.is_meta:
        return stock(input, p, training, inplace)
    return torch.native_dropout(input, p, True)[0]


def _attention(
    stock: Callable[..., Tensor],
    gpu: bool,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Optional[Tensor] = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **more: Any,
) -> Tensor:
    if not query.is_meta or more or query.dim() != 4 or (dropout_p > 0 and not gpu):
        return stock(query, key, value, attn_mask, dropout_p, is_causal, **more)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(~attn_mask, float("-inf"))
    if not gpu:
        chosen = aten._scaled_dot_product_flash_attention_for_cpu
        return chosen(query, key, value, dropout_p, is_causal, attn_mask=attn_mask)[0]
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*query.shape[:3], key.size(2))
    chosen, for_backward = aten._scaled_dot_product_efficient_attention, torch.is_grad_enabled()
    return chosen(query, key, value, attn_mask, for_backward, dropout_p, is_causal)[0]
