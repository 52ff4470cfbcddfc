"""The encoder of a pretrained model, the vector of a sentence, and the head on tokens."""

from typing import Any, List, Optional

import torch
from fairseq.models.transformer.transformer_encoder import TransformerEncoderBase
from torch import Tensor, nn

from ..checkpoints.encoders import read_encoder
from ..checkpoints.fitting import MARKERS
from ..checkpoints.loading import load
from ..checkpoints.reading import PathLike
from ..common.stock_layout import set_epsilon, stock_config


class TextEncoder(TransformerEncoderBase):
    """Stock encoder, with the segments and the epsilon of some families.

    ``layout`` is an ``EncoderLayout`` of ``checkpoints.layouts``; ``options`` are more options of
    the stock transformer. By default there is no dropout.
    """

    def __init__(self, layout: Any, **options: Any) -> None:
        options = {"dropout": 0.0, "max_source_positions": layout.max_positions, **options}
        words = nn.Embedding(layout.vocab_size, layout.embed_dim, layout.padding_idx)
        super().__init__(stock_config(layout, "encoder", **options), None, words)
        self.layout = layout
        self.segment_embeddings: Optional[nn.Embedding] = None
        if layout.segments:
            self.segment_embeddings = nn.Embedding(layout.segments, layout.embed_dim)
        set_epsilon(self, layout.epsilon)

    def features(self, tokens: Tensor) -> Tensor:
        """Compute the output of the last layer. (B, S) int64 -> (B, S, C)."""
        states: Tensor = self._encode(tokens, every_layer=False)["encoder_out"][0]
        return states.transpose(0, 1)

    def forward(self, tokens: Tensor) -> List[Tensor]:
        """Compute the output of the embedding, then of each layer. (B, S) -> L + 1 times (B, S, C).

        Tokens are padded on the right; values at padding are arbitrary. The last output is that of
        the final layer norm, if any. In training, ``encoder_layerdrop`` leaves layers out.
        """
        outputs = self._encode(tokens, every_layer=True)
        states = [*outputs["encoder_states"][:-1], *outputs["encoder_out"]]
        return [state.transpose(0, 1) for state in states]

    def segment_types(self, tokens: Tensor) -> Tensor:
        """Number the segments of ``tokens``, (B, S) -> (B, S) int64; 0 at padding.

        A token's number is the number of ``</s>`` before it, at most that of the last segment type:
        ``<s> A </s> B </s>`` gets 0 up to the first ``</s>`` and 1 from B on.
        """
        ends = tokens.eq(self.layout.eos_idx).long()
        ends_before = (ends.cumsum(1) - ends).clamp(max=self.layout.segments - 1)
        return ends_before.masked_fill(tokens.eq(self.layout.padding_idx), 0)

    def _encode(self, tokens: Tensor, every_layer: bool) -> Any:
        """Run the stock encoder; segment embeddings, if any, are added to the tokens'."""
        embedded = None
        if self.segment_embeddings is not None:
            segments = self.segment_embeddings(self.segment_types(tokens))
            embedded = self.embed_tokens(tokens) + segments
        return self.forward_scriptable(
            tokens, return_all_hiddens=every_layer, token_embeddings=embedded
        )


def load_text_encoder(path: PathLike, heads: Optional[int] = None) -> TextEncoder:
    """Read the encoder of any family from a file, in evaluation mode; see ``read_encoder``."""
    file = read_encoder(path, heads)
    encoder = TextEncoder(file.layout)
    load(encoder, file.tensors, allow_missing=MARKERS)
    return encoder.eval()


def pool(hidden: Tensor, padding_mask: Tensor, pooling: str) -> Tensor:
    """Reduce the states of the last layer to a vector per sentence. (B, S, C) -> (B, C).

    Args:
        hidden: (B, S, C).
        padding_mask: (B, S) bool, True = padding, on the right.
        pooling: ``first``, ``last`` (before the padding) or ``mean`` (over everything but padding,
            special symbols included).
    """
    if pooling == "first":
        return hidden[:, 0]
    lengths = (~padding_mask).sum(1).clamp(min=1)
    if pooling == "last":
        return hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1]
    # Half precision cannot hold the sum of a thousand positions.
    wide = torch.promote_types(hidden.dtype, torch.float32)
    total = hidden.masked_fill(padding_mask.unsqueeze(-1), 0).sum(1, dtype=wide)  # B C
    return (total / lengths.unsqueeze(-1)).to(hidden.dtype)


class TokenHead(nn.Module):
    """Dropout and a projection."""

    def __init__(self, width: int, num_classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(width, num_classes)

    def forward(self, hidden: Tensor) -> Tensor:
        """Compute logits. (..., C) -> (..., classes)."""
        logits: Tensor = self.out_proj(self.dropout(hidden))
        return logits
