"""A causal language model whose layers accept keys and values ("prefix") that every token may attend to."""

from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq.models.transformer.transformer_decoder import TransformerDecoderBase
from torch import Tensor, nn

from ..common.stock_layout import set_epsilon, stock_config
from ..masked_lm.model import Prefix
from ..ops.linear import use_faster_linears

State = Dict[str, Dict[str, Optional[Tensor]]]
"""fairseq's incremental state: what the attention modules keep between steps."""


class PrefixDecoder(TransformerDecoderBase):
    """fairseq's decoder without cross-attention; a prefix enters where fairseq keeps the keys and values of earlier steps.

    Without a prefix the logits are those of stock ``transformer_lm`` on the same weights. ``layout`` is a
    ``checkpoints.layouts.CausalLMLayout``, or anything with its fields.
    """

    def __init__(self, layout: Any, dictionary: Any, dropout: float = 0.0) -> None:
        config = stock_config(
            layout,
            "decoder",
            decoder_input_dim=layout.embed_dim,
            decoder_output_dim=layout.embed_dim,
            no_decoder_final_norm=not layout.final_norm,
            max_target_positions=layout.max_positions,
            share_decoder_input_output_embed=layout.tied,
            dropout=dropout,
            attention_dropout=dropout,
        )
        words = nn.Embedding(layout.vocab_size, layout.embed_dim, dictionary.pad())
        super().__init__(config, dictionary, words, no_encoder_attn=True)
        self.layout = layout
        use_faster_linears(self)
        set_epsilon(self, layout.epsilon)

    def upgrade_state_dict_named(self, state_dict: Dict[str, Tensor], name: str) -> Dict[str, Tensor]:
        """Leave a state dict without these weights as it is: fairseq would take it for an old one, and drop the last layer norm."""
        return state_dict

    def run(
        self,
        tokens: Tensor,
        prefix: Optional[Prefix] = None,
        prefix_padding_mask: Optional[Tensor] = None,
        state: Optional[State] = None,
        step: bool = False,
    ) -> Tensor:
        """Hidden states of a batch, (B, T, C), ready for the output projection.

        Args:
            tokens: (B, T) int64; padding on either side. Positions are counted from the first token, whatever the prefix.
            prefix: one (keys, values) pair per layer, each (B or 1, H, P, C / H); ``state`` must not hold anything yet.
            prefix_padding_mask: (B, P) bool, True = that prefix entry may not be attended.
            state: receives the keys and values of prefix and tokens.
            step: only the last token is new, ``state`` has all before it: (B, 1, C) is returned.

        Raises:
            ValueError: more tokens than positions.
        """
        state = {} if state is None else state
        if tokens.size(1) > self.max_positions():
            raise ValueError(
                f"input of {tokens.size(1)} tokens is longer than the language model's {self.max_positions()} positions"
            )
        x = self._embed(tokens, step)  # T B C
        padding = None if step else tokens.eq(self.padding_idx)
        length = 0 if prefix is None else prefix[0][0].size(2)
        causal = None if step else self._causal_mask(x, length)
        for number, layer in enumerate(self.layers):
            before = None if prefix is None else self._before(prefix[number], prefix_padding_mask, tokens.size(0))
            masks = {"self_attn_mask": causal, "self_attn_padding_mask": padding}
            x = layer(x, incremental_state=state, prev_self_attn_state=before, **masks)[0]
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return x.transpose(0, 1)

    def _embed(self, tokens: Tensor, step: bool) -> Tensor:
        """(B, T) -> (T, B, C), with ``step`` (1, B, C)."""
        positions = self.embed_positions(tokens, incremental_state={} if step else None)
        x = self.embed_scale * self.embed_tokens(tokens[:, -1:] if step else tokens) + positions
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        return self.dropout_module(x).transpose(0, 1)

    def _causal_mask(self, x: Tensor, length: int) -> Tensor:
        """(T, P + T): every token sees the prefix, itself and what is before it; additive, finite."""
        size = x.size(0)
        # Finite, so that padding on the left, which sees nothing else without a prefix, gives no NaN.
        blocked = x.new_full((size, size), torch.finfo(x.dtype).min / 2).triu(1)
        return torch.cat([blocked.new_zeros(size, length), blocked], dim=1)

    @staticmethod
    def _before(pair: Tuple[Tensor, Tensor], mask: Optional[Tensor], batch: int) -> List[Tensor]:
        """What a stock layer takes as earlier keys, values and padding."""
        key, value = (part.expand(batch, -1, -1, -1).contiguous() for part in pair)
        if mask is None:
            mask = key.new_zeros(batch, key.size(2), dtype=torch.bool)
        return [key, value, mask]

    def kept(self, state: State, skip: int) -> Prefix:
        """Keys and values (B, H, T, C / H) per layer that :meth:`run` left in ``state``, behind ``skip`` of its prefix."""
        found = []
        for layer in self.layers:
            buffer = layer.self_attn._get_input_buffer(state)
            found.append((buffer["prev_key"][:, :, skip:], buffer["prev_value"][:, :, skip:]))
        return found
