"""A pretrained encoder of any family: fairseq's stock transformer encoder, which gives every layer."""

from typing import Any, List, Optional

from fairseq.models.transformer.transformer_encoder import TransformerEncoderBase
from torch import Tensor, nn

from ..common.stock_layout import set_epsilon, stock_config


class TextEncoder(TransformerEncoderBase):
    """Stock encoder with the segments and the epsilon that some families have; names as in a stock encoder.

    ``layout`` is a ``checkpoints.layouts.EncoderLayout``, or anything with its fields; ``options`` are more of the stock
    transformer's. Without them there is no dropout.
    """

    def __init__(self, layout: Any, **options: Any) -> None:
        config = stock_config(
            layout, "encoder", max_source_positions=layout.max_positions, **{"dropout": 0.0, **options}
        )
        super().__init__(config, None, nn.Embedding(layout.vocab_size, layout.embed_dim, layout.padding_idx))
        self.layout = layout
        self.segment_embeddings: Optional[nn.Embedding] = None
        if layout.segments:
            self.segment_embeddings = nn.Embedding(layout.segments, layout.embed_dim)
        set_epsilon(self, layout.epsilon)

    def segment_types(self, tokens: Tensor) -> Tensor:
        """(B, S) -> (B, S) int64: how many ``</s>`` stand before each token, at most the last type the layout has; 0 at padding.

        ``<s> A </s> B </s>`` gets 0 up to the first ``</s>``, and 1 from B on.
        """
        ends = tokens.eq(self.layout.eos_idx).long()
        before = (ends.cumsum(1) - ends).clamp(max=self.layout.segments - 1)
        return before.masked_fill(tokens.eq(self.layout.padding_idx), 0)

    def _encode(self, tokens: Tensor, every_layer: bool) -> Any:
        embedded = None
        if self.segment_embeddings is not None:
            embedded = self.embed_tokens(tokens) + self.segment_embeddings(self.segment_types(tokens))
        return self.forward_scriptable(tokens, return_all_hiddens=every_layer, token_embeddings=embedded)

    def features(self, tokens: Tensor) -> Tensor:
        """(B, S) int64 -> (B, S, C): the output of the last layer alone, as in :meth:`forward`."""
        states: Tensor = self._encode(tokens, every_layer=False)["encoder_out"][0]
        return states.transpose(0, 1)

    def forward(self, tokens: Tensor) -> List[Tensor]:
        """Encode (B, S) int64, padded on the right.

        Returns L + 1 tensors (B, S, C): the embedding's output, then each layer's; the last one after the final layer norm where
        the layout has one. What stands at padding means nothing. In training with ``encoder_layerdrop`` there are only the
        layers that are left.
        """
        found = self._encode(tokens, every_layer=True)
        states = [*found["encoder_states"][:-1], *found["encoder_out"]]
        return [state.transpose(0, 1) for state in states]
