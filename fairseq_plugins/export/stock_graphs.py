"""Encoder and decoding step of a stock-shaped transformer as modules without state, for graphs.

They hold the weights of the model's layers. Queries, keys and values of a self-attention are one
product, the scale of the queries is in their weights, and the cross-attention's keys and values are
computed once per sentence, by the encoder's graph. Names of attributes are names of weights in the
exported files.

B sentences, K beams, S source tokens, T tokens in the caches, H heads of width D, C = H D, V
entries, L decoder layers.
"""

from typing import Any, List, Optional, Sequence, Tuple

import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor, nn

from ..deltalm.layer import InterleavedDecoderLayer

NEGATIVE = float("-inf")


# ---- Parts of a layer. ----


def merged(parts: Sequence[Tuple[nn.Linear, float]]) -> nn.Linear:
    """Merge linear layers into one that concatenates their outputs, each times its factor."""
    weight = torch.cat([part.weight.detach() * factor for part, factor in parts])
    linear = nn.Linear(weight.size(1), weight.size(0), bias=parts[0][0].bias is not None)
    linear.weight = nn.Parameter(weight, requires_grad=False)
    if linear.bias is not None:
        bias = torch.cat([part.bias.detach() * factor for part, factor in parts])
        linear.bias = nn.Parameter(bias, requires_grad=False)
    return linear


def merge_keys_values(attention: Any) -> nn.Linear:
    """Merge the projections of keys and values."""
    return merged([(attention.k_proj, 1.0), (attention.v_proj, 1.0)])


def merge_queries_keys_values(attention: Any) -> nn.Linear:
    """Merge the projections of queries, keys and values; queries are scaled."""
    keys_values = [(attention.k_proj, 1.0), (attention.v_proj, 1.0)]
    return merged([(attention.q_proj, attention.scaling), *keys_values])


def attend(query: Tensor, keys: Tensor, values: Tensor, mask: Optional[Tensor] = None) -> Tensor:
    """Compute attention.

    Args:
        query: (..., Q, D), scaled.
        keys: (..., D, S).
        values: (..., S, D).
        mask: added to the scores.

    Returns:
        (..., Q, D).
    """
    scores = query @ keys
    return torch.softmax(scores if mask is None else scores + mask, -1) @ values


class Words(nn.Module):
    """Embedding of tokens and positions of a side of the stock transformer.

    Args:
        side: encoder or decoder.
        positions: number of positions, for sinusoidal ones.
    """

    def __init__(self, side: Any, positions: int):
        super().__init__()
        self.tokens, self.scale = side.embed_tokens, float(side.embed_scale)
        self.norm = side.layernorm_embedding
        self.pad = int(side.padding_idx)
        self.first = self.pad + 1
        table = side.embed_positions
        if isinstance(table, SinusoidalPositionalEmbedding):
            sizes = self.first + positions, table.embedding_dim, table.padding_idx
            table = nn.Embedding.from_pretrained(table.get_embedding(*sizes))
        self.positions = table

    def forward(self, tokens: Tensor, places: Tensor) -> Tensor:
        """Embed (B, S) ids; ``places`` are rows of the table of positions. Returns (B, S, C)."""
        x = self.tokens(tokens) * self.scale if self.scale != 1.0 else self.tokens(tokens)
        if self.positions is not None:
            x = x + nn.functional.embedding(places, self.positions.weight)
        return x if self.norm is None else self.norm(x)


class FeedForward(nn.Module):
    """The two products of a layer."""

    def __init__(self, layer: Any, widen: nn.Module, narrow: nn.Module):
        super().__init__()
        self.widen, self.narrow, self.activation = widen, narrow, layer.activation_fn

    def forward(self, x: Tensor) -> Tensor:
        """Compute the block without its residual. (..., C) -> (..., C)."""
        return self.narrow(self.activation(self.widen(x)))


class Attention(nn.Module):
    """Heads, and the output projection after them."""

    def __init__(self, stock: Any):
        super().__init__()
        self.heads, self.width, self.out = stock.num_heads, stock.head_dim, stock.out_proj

    def split(self, x: Tensor) -> Tensor:
        """Split into heads. (B, S, C) -> (B, H, S, D)."""
        return x.view(x.size(0), x.size(1), self.heads, self.width).transpose(1, 2)

    def join(self, x: Tensor) -> Tensor:
        """Join heads and apply the output projection. (B, H, S, D) -> (B, S, C)."""
        return self.out(x.transpose(1, 2).reshape(x.size(0), x.size(2), self.heads * self.width))


class EncoderAttention(Attention):
    """Self-attention over the whole sentence."""

    def __init__(self, stock: Any):
        super().__init__(stock)
        self.qkv = merge_queries_keys_values(stock)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Attend. (B, S, C), and (B, 1, 1, S) to add to the scores -> (B, S, C)."""
        query, keys, values = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        return self.join(attend(query, keys.transpose(-1, -2), values, mask))


class CachedAttention(Attention):
    """Self-attention of one new token over the tokens before it."""

    def __init__(self, stock: Any):
        super().__init__(stock)
        self.qkv = merge_queries_keys_values(stock)

    def forward(
        self, x: Tensor, order: Tensor, keys: Tensor, values: Tensor
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """Attend, and extend the caches.

        Args:
            x: (B, K, C).
            order: (B K,) int64, rows of the caches.
            keys, values: caches (R, H, T, D).

        Returns:
            (B, K, C), and both caches (B K, H, T + 1, D).
        """
        rows = order.size(0)
        parts = self.qkv(x).chunk(3, -1)
        query, key, value = (part.reshape(rows, self.heads, 1, self.width) for part in parts)
        keys = torch.cat([keys.index_select(0, order), key], 2)
        values = torch.cat([values.index_select(0, order), value], 2)
        context = attend(query, keys.transpose(-1, -2), values)
        joined = context.reshape(x.size(0), x.size(1), self.heads * self.width)
        return self.out(joined), keys, values


class CrossAttention(Attention):
    """Cross-attention over keys and values that the beams of a sentence share."""

    def __init__(self, stock: Any):
        super().__init__(stock)
        self.query = merged([(stock.q_proj, stock.scaling)])

    def forward(self, x: Tensor, mask: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attend.

        Args:
            x: (B, K, C).
            mask: (B, 1, 1, S), added to the scores.
            keys: (B, H, D, S).
            values: (B, H, S, D).

        Returns:
            (B, K, C).
        """
        return self.join(attend(self.split(self.query(x)), keys, values, mask))


class Step(nn.Module):
    """A block with its residual connection, and its norm before the block or after the sum."""

    def __init__(self, layer: Any, norm: nn.Module, compute: nn.Module):
        super().__init__()
        self.before, self.norm, self.compute = bool(layer.normalize_before), norm, compute

    def ready(self, x: Tensor) -> Tensor:
        """Return the input of the block, normalised if its norm comes first."""
        return self.norm(x) if self.before else x

    def close(self, x: Tensor, output: Tensor) -> Tensor:
        """Add the output of the block to its input."""
        return x + output if self.before else self.norm(x + output)

    def forward(self, x: Tensor, *inputs: Tensor) -> Tensor:
        """Run the block, with further ``inputs``. (B, S, C) -> (B, S, C)."""
        return self.close(x, self.compute(self.ready(x), *inputs))


def attention_step(layer: Any, kind: Any) -> Step:
    """Make the self-attention of a layer; ``kind``: the class of attention."""
    return Step(layer, layer.self_attn_layer_norm, kind(layer.self_attn))


def cross_step(layer: Any) -> Step:
    """Make the cross-attention of a decoder layer."""
    return Step(layer, layer.encoder_attn_layer_norm, CrossAttention(layer.encoder_attn))


def network_step(layer: Any) -> Step:
    """Make the feed-forward block of a layer."""
    return Step(layer, layer.final_layer_norm, FeedForward(layer, layer.fc1, layer.fc2))


# ---- Graphs. ----


class StatesGraph(nn.Module):
    """Source -> states.

    Args:
        encoder: stock-shaped.
        positions: longest source.
    """

    def __init__(self, encoder: Any, positions: int):
        super().__init__()
        self.words, self.norm = Words(encoder, positions), encoder.layer_norm
        layers = encoder.layers
        self.attentions = nn.ModuleList(attention_step(layer, EncoderAttention) for layer in layers)
        self.networks = nn.ModuleList(network_step(layer) for layer in layers)

    def states(self, source: Tensor) -> Tensor:
        """Compute the stock encoder's output, undefined at padding. (B, S) ids -> (B, S, C)."""
        inside = source.ne(self.words.pad)
        places = inside.long().cumsum(1) * inside + self.words.pad
        mask = padding(source, self.words.pad)
        x = self.words(source, places)
        for attention, network in zip(self.attentions, self.networks):
            x = network(attention(x, mask))
        return x if self.norm is None else self.norm(x)


class EncoderGraph(StatesGraph):
    """Source -> keys and values of the cross-attention of every decoder layer.

    Args:
        model: a stock-shaped transformer; see :func:`.encoder_decoder.check`.
        positions: longest source.
    """

    def __init__(self, model: Any, positions: int):
        super().__init__(model.encoder, positions)
        crosses = [layer.encoder_attn for layer in model.decoder.layers]
        self.cross = nn.ModuleList(Attention(stock) for stock in crosses)
        self.keys_values = nn.ModuleList(merge_keys_values(stock) for stock in crosses)
        for attention in self.cross:
            del attention.out

    def forward(self, source: Tensor) -> Tuple[Tensor, ...]:
        """Encode (B, S) ids: L keys (B, H, D, S), then L values (B, H, S, D)."""
        states = self.states(source)
        keys: List[Tensor] = []
        values: List[Tensor] = []
        attention: Any
        for attention, product in zip(self.cross, self.keys_values):
            key, value = product(states).chunk(2, -1)
            keys.append(attention.split(key).permute(0, 1, 3, 2))
            values.append(attention.split(value))
        return (*keys, *values)


class StepGraph(nn.Module):
    """A decoding step: best candidates of each beam, score of a forced token, and new caches.

    Args:
        model: a stock-shaped transformer.
        positions: longest target, with the token that it starts with.
    """

    def __init__(self, model: Any, positions: int):
        super().__init__()
        decoder, layers = model.decoder, model.decoder.layers
        self.words, self.norm = Words(decoder, positions), decoder.layer_norm
        self.narrow = decoder.project_out_dim
        self.projection, self.source_pad = decoder.output_projection, int(model.encoder.padding_idx)
        self.attentions = nn.ModuleList(attention_step(layer, CachedAttention) for layer in layers)
        self.bottoms = nn.ModuleList()
        self.crosses = nn.ModuleList(cross_step(layer) for layer in layers)
        self.networks = nn.ModuleList(network_step(layer) for layer in layers)
        for layer in layers:
            if isinstance(layer, InterleavedDecoderLayer):
                network = FeedForward(layer, layer.fc3, layer.fc4)
                self.bottoms.append(Step(layer, layer.ffn_layer_norm, network))

    def states(
        self,
        tokens: Tensor,
        order: Tensor,
        source: Tensor,
        cross: Sequence[Tensor],
        caches: Sequence[Tensor],
    ) -> Tuple[Tensor, List[Tensor]]:
        """Compute the input (B, K, C) of the output projection, and the caches; see forward."""
        layers, mask = len(self.crosses), padding(source, self.source_pad)
        rows = order.reshape(-1)
        place = torch.full_like(tokens[:1, :1], self.words.first) + caches[0].size(2)
        x = self.words(tokens, place)
        new = list(caches)
        for key in range(layers):
            value = key + layers
            attention: Any = self.attentions[key]
            ready = attention.ready(x)
            output, new[key], new[value] = attention.compute(
                ready, rows, caches[key], caches[value]
            )
            x = attention.close(x, output)
            if len(self.bottoms):
                x = self.bottoms[key](x)
            x = self.networks[key](self.crosses[key](x, mask, cross[key], cross[value]))
        x = x if self.norm is None else self.norm(x)
        return x if self.narrow is None else self.narrow(x), new

    def forward(
        self,
        tokens: Tensor,
        order: Tensor,
        forced: Tensor,
        penalty: Tensor,
        width: Tensor,
        source: Tensor,
        cross_keys: List[Tensor],
        cross_values: List[Tensor],
        self_keys: List[Tensor],
        self_values: List[Tensor],
    ) -> Tuple[Tensor, ...]:
        """Compute one step.

        Args:
            tokens: (B, K) int64, the last token of every beam.
            order: (B, K) int64, row of each beam in the caches, whose R rows are the beams of the
                step before.
            forced: (B, K) int64, the token whose score is returned beside the best ones.
            penalty: (V,), added to the log-probabilities; minus infinity keeps a token out.
            width: (W,), whose length is the number of candidates per beam; its values are not read.
            source: (B, S) int64, of which only the padding is read.
            cross_keys, cross_values: L each, outputs of :class:`EncoderGraph`.
            self_keys, self_values: L each, the caches, (R, H, T, D); T = 0 in the first step.

        Returns:
            Scores (B, K, W), the best first, and their tokens; scores of ``forced``, (B, K); the
            caches, (B K, H, T + 1, D).
        """
        cross, caches = [*cross_keys, *cross_values], [*self_keys, *self_values]
        x, new = self.states(tokens, order, source, cross, caches)
        scores = torch.log_softmax(self.projection(x), -1) + penalty
        best, ids = torch.topk(scores, width.size(0))
        return (best, ids, scores.gather(2, forced.unsqueeze(2)).squeeze(2), *new)


def padding(tokens: Tensor, pad: int) -> Tensor:
    """Make a bias of attention scores from ids: (B, S) -> (B, 1, 1, S), -inf at padding, else 0."""
    zeros = torch.zeros_like(tokens, dtype=torch.float32)
    return zeros.masked_fill(tokens.eq(pad), NEGATIVE)[:, None, None, :]
