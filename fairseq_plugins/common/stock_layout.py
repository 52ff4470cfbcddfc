"""Parts of fairseq's transformer: options for a pretrained file's layout, wrapping of layers."""

from argparse import Namespace
from typing import Any

from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from torch import nn

from .options import sizes_of


def stock_config(layout: Any, side: str, **options: Any) -> Any:
    """Build the ``TransformerConfig`` of one side.

    Args:
        layout: sizes and wiring of a pretrained file, as ``checkpoints.layouts.EncoderLayout``.
        side: ``encoder`` or ``decoder``.
        options: more options of the stock transformer.
    """
    stock = Namespace(
        **sizes_of(side, layout.layers, layout.embed_dim, layout.ffn_dim, layout.heads),
        **{
            f"{side}_normalize_before": layout.normalize_before,
            f"{side}_learned_pos": layout.learned_positions,
        },
        layernorm_embedding=layout.layernorm_embedding,
        no_scale_embedding=not layout.scale_embedding,
        activation_fn=layout.activation,
        **options,
    )
    return TransformerConfig.from_namespace(stock)


def wrapped(layer: nn.Module, cfg: Any) -> nn.Module:
    """Wrap a layer for ``--checkpoint-activations`` and FSDP, as the stock transformer does."""
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    min_params = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
    return fsdp_wrap(layer, min_num_params=min_params)


def set_epsilon(module: nn.Module, epsilon: float) -> None:
    """Set the epsilon of every layer norm."""
    child: Any
    for child in module.modules():
        if hasattr(child, "normalized_shape"):
            child.eps = epsilon
