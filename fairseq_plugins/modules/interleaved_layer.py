"""The decoder block of DeltaLM: every attention is followed by a feed-forward network, as in an encoder."""

from typing import Any, Dict, List, Optional, Tuple

from fairseq.modules import LayerNorm
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn

from ..common.options import flag

IncrementalState = Dict[str, Dict[str, Optional[Tensor]]]

NOT_IN_THE_BLOCK = ("cross_self_attention", "scale_attn", "scale_heads", "scale_fc", "scale_resids")
"""Options of the stock decoder layer that have no meaning here."""


class InterleavedDecoderLayer(TransformerDecoderLayerBase):
    """Self-attention, feed-forward, cross-attention, feed-forward; residual and layer norm at each.

    Two layers of an encoder make one block: the first gives self-attention and the bottom network (``fc3``, ``fc4``,
    ``ffn_layer_norm``: the names of the authors' checkpoints), the second cross-attention and the top one (``fc1``, ``fc2``,
    ``final_layer_norm``). With ``fc4`` and the effect of its norm removed it is the stock layer. Options of the stock layer
    that this block does not have raise ValueError.

    Source: DeltaLM section 2.2, Figure 2b.
    """

    def __init__(
        self, cfg: Any, no_encoder_attn: bool = False, add_bias_kv: bool = False, add_zero_attn: bool = False
    ) -> None:
        for name in NOT_IN_THE_BLOCK:
            if getattr(cfg, name, False):
                raise ValueError(f"{flag(name)} is not part of DeltaLM's decoder block; leave it out")
        super().__init__(cfg, no_encoder_attn, add_bias_kv, add_zero_attn)
        width, inner, noise = self.embed_dim, cfg.decoder.ffn_embed_dim, (self.quant_noise, self.quant_noise_block_size)
        self.fc3 = self.build_fc1(width, inner, *noise)
        self.fc4 = self.build_fc2(inner, width, *noise)
        self.ffn_layer_norm = LayerNorm(width, export=cfg.export)

    def forward(  # without the stock layer's arguments for ONNX
        self,
        x: Tensor,
        encoder_out: Optional[Tensor] = None,
        encoder_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[IncrementalState] = None,
        self_attn_mask: Optional[Tensor] = None,
        self_attn_padding_mask: Optional[Tensor] = None,
        need_attn: bool = False,
        need_head_weights: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor], Optional[List[Tensor]]]:
        """One block; arguments and results as those of the stock layer, whose third result serves ONNX.

        (T, B, C) and ``encoder_out`` (S, B, C) -> (T, B, C), cross-attention weights or None, None. Padding masks: (B, T) and
        (B, S) bool, True = padding; ``self_attn_mask``: (T, T) float, -inf = may not be attended.
        """
        query = self._before(self.self_attn_layer_norm, x)
        masks = {"key_padding_mask": self_attn_padding_mask, "attn_mask": self_attn_mask}
        found, _ = self.self_attn(query, query, query, incremental_state=incremental_state, need_weights=False, **masks)
        x = self._after(self.self_attn_layer_norm, found, x)
        x = self._feed_forward(x, self.fc3, self.fc4, self.ffn_layer_norm)
        weights = None
        if self.encoder_attn is not None and encoder_out is not None:
            found, weights = self.encoder_attn(
                self._before(self.encoder_attn_layer_norm, x),
                encoder_out,
                encoder_out,
                key_padding_mask=encoder_padding_mask,
                incremental_state=incremental_state,
                static_kv=True,
                need_weights=need_attn or need_head_weights or (not self.training and self.need_attn),
                need_head_weights=need_head_weights,
            )
            x = self._after(self.encoder_attn_layer_norm, found, x)
        return self._feed_forward(x, self.fc1, self.fc2, self.final_layer_norm), weights, None

    def _before(self, norm: nn.Module, x: Tensor) -> Tensor:
        return norm(x) if self.normalize_before else x

    def _after(self, norm: nn.Module, x: Tensor, residual: Tensor) -> Tensor:
        x = self.residual_connection(self.dropout_module(x), residual)
        return x if self.normalize_before else norm(x)

    def _feed_forward(self, x: Tensor, widen: nn.Module, narrow: nn.Module, norm: nn.Module) -> Tensor:
        inner = self.activation_fn(widen(self._before(norm, x)))
        return self._after(norm, narrow(self.activation_dropout_module(inner)), x)
