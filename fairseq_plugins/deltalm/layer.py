"""The interleaved decoder layer: a feed-forward network (FFN) after each attention."""

from typing import Any, Dict, List, Optional, Tuple

from fairseq.modules import LayerNorm
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn

from ..common.options import flag

IncrementalState = Dict[str, Dict[str, Optional[Tensor]]]

UNSUPPORTED = ("cross_self_attention", "scale_attn", "scale_heads", "scale_fc", "scale_resids")
"""Options of the stock decoder layer that this layer refuses."""


class InterleavedDecoderLayer(TransformerDecoderLayerBase):
    """DeltaLM's decoder block, for states x and the encoder's output s.

    ::

        x = LN(x + SelfAttention(x))        self_attn, self_attn_layer_norm
        x = LN(x + FFN(x))                  bottom FFN: fc3, fc4, ffn_layer_norm
        x = LN(x + CrossAttention(x, s))    encoder_attn, encoder_attn_layer_norm
        x = LN(x + FFN(x))                  top FFN: fc1, fc2, final_layer_norm

    The bottom FFN is new; the rest is the stock layer with its names. The first two lines have the
    shape of one encoder layer, the last two that of the next, so that a masked LM can fill them:
    see ``pretrained.py``. The names are those of the authors' checkpoints.

    Raises:
        ValueError: one of the :data:`UNSUPPORTED` options is set.

    Source: DeltaLM section 2.2, Figure 2b.
    """

    def __init__(
        self,
        cfg: Any,
        no_encoder_attn: bool = False,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
    ) -> None:
        for name in UNSUPPORTED:
            if getattr(cfg, name, False):
                raise ValueError(
                    f"{flag(name)} is not part of DeltaLM's decoder block; leave it out"
                )
        super().__init__(cfg, no_encoder_attn, add_bias_kv, add_zero_attn)
        width, inner = self.embed_dim, cfg.decoder.ffn_embed_dim
        quant_noise = (self.quant_noise, self.quant_noise_block_size)
        self.fc3 = self.build_fc1(width, inner, *quant_noise)
        self.fc4 = self.build_fc2(inner, width, *quant_noise)
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
        """Run the block, with arguments and results of the stock layer.

        Args:
            x: (T, B, C).
            encoder_out: (S, B, C).
            encoder_padding_mask: (B, S) bool, True = padding.
            self_attn_mask: (T, T) float, -inf = may not be attended.
            self_attn_padding_mask: (B, T) bool, True = padding.
            need_attn, need_head_weights: return the cross-attention, averaged or by head.

        Returns:
            (T, B, C), cross-attention weights or None, and None (the stock layer's third result).
        """
        cache = {"incremental_state": incremental_state}
        masks = {"key_padding_mask": self_attn_padding_mask, "attn_mask": self_attn_mask}
        query = self._before(self.self_attn_layer_norm, x)
        attended, _ = self.self_attn(query, query, query, need_weights=False, **masks, **cache)
        x = self._after(self.self_attn_layer_norm, attended, x)
        x = self._feed_forward(x, self.fc3, self.fc4, self.ffn_layer_norm)
        weights = None
        if self.encoder_attn is not None and encoder_out is not None:
            needs = self._weight_options(need_attn, need_head_weights)
            options = {"key_padding_mask": encoder_padding_mask, "static_kv": True, **needs}
            query = self._before(self.encoder_attn_layer_norm, x)
            attended, weights = self.encoder_attn(
                query, encoder_out, encoder_out, **options, **cache
            )
            x = self._after(self.encoder_attn_layer_norm, attended, x)
        return self._feed_forward(x, self.fc1, self.fc2, self.final_layer_norm), weights, None

    def _weight_options(self, need_attn: bool, need_head_weights: bool) -> Dict[str, bool]:
        """Let cross-attention return its weights if asked to and, as in stock, in evaluation."""
        need_weights = need_attn or need_head_weights or (not self.training and self.need_attn)
        return {"need_weights": need_weights, "need_head_weights": need_head_weights}

    def _feed_forward(
        self, x: Tensor, widen: nn.Module, narrow: nn.Module, norm: nn.Module
    ) -> Tensor:
        inner = self.activation_fn(widen(self._before(norm, x)))
        return self._after(norm, narrow(self.activation_dropout_module(inner)), x)

    def _before(self, norm: nn.Module, x: Tensor) -> Tensor:
        """Apply the layer norm before a sublayer, with ``--decoder-normalize-before`` only."""
        return norm(x) if self.normalize_before else x

    def _after(self, norm: nn.Module, x: Tensor, residual: Tensor) -> Tensor:
        """Add the residual to the output of a sublayer, then apply the layer norm."""
        x = self.residual_connection(self.dropout_module(x), residual)
        return x if self.normalize_before else norm(x)
