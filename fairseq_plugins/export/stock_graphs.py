"""Encoder and one decoding step of a stock-shaped transformer as modules without state, for a graph.

They hold the weights of the model's own layers. Queries, keys and values of a self-attention are one product, the scale of the
queries is in their weights, and the cross-attention's keys and values are computed once a sentence, by the encoder's graph.

B sentences, K beams, S source tokens, T tokens in the caches, H heads of width D, C = H D, V entries, L decoder layers.
"""

from typing import Any, List, Sequence, Tuple

import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor, nn

from ..deltalm.layer import InterleavedDecoderLayer

NEGATIVE = float("-inf")


def merged(parts: Sequence[Tuple[nn.Linear, float]]) -> nn.Linear:
    """One ``nn.Linear`` whose outputs are those of several, each times a factor, one behind the other."""
    weight = torch.cat([part.weight.detach() * factor for part, factor in parts])
    found = nn.Linear(weight.size(1), weight.size(0), bias=parts[0][0].bias is not None)
    found.weight = nn.Parameter(weight, requires_grad=False)
    if found.bias is not None:
        bias = torch.cat([part.bias.detach() * factor for part, factor in parts])
        found.bias = nn.Parameter(bias, requires_grad=False)
    return found


def attend(query: Tensor, keys: Tensor, values: Tensor, mask: Any = None) -> Tensor:
    """(..., Q, D) queries, scaled already, (..., D, S) keys, (..., S, D) values, mask to add -> (..., Q, D)."""
    scores = query @ keys
    return torch.softmax(scores if mask is None else scores + mask, -1) @ values


class Words(nn.Module):
    """Embedding of tokens and positions, as both sides of the stock transformer have it."""

    def __init__(self, side: Any, positions: int):
        super().__init__()
        self.tokens, self.scale = side.embed_tokens, float(side.embed_scale)
        self.norm = side.layernorm_embedding
        self.pad = int(side.padding_idx)
        self.first = self.pad + 1
        table = side.embed_positions
        if isinstance(table, SinusoidalPositionalEmbedding):
            rows = table.get_embedding(self.first + positions, table.embedding_dim, table.padding_idx)
            table = nn.Embedding.from_pretrained(rows)
        self.positions = table

    def forward(self, tokens: Tensor, places: Tensor) -> Tensor:
        """(B, S) ids and rows of the table of positions -> (B, S, C)."""
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
        """(..., C) -> (..., C)."""
        return self.narrow(self.activation(self.widen(x)))


class Attention(nn.Module):
    """What the attentions below share: heads, and the product behind them."""

    def __init__(self, stock: Any):
        super().__init__()
        self.heads, self.width, self.out = stock.num_heads, stock.head_dim, stock.out_proj

    def split(self, x: Tensor) -> Tensor:
        """(B, S, C) -> (B, H, S, D)."""
        return x.view(x.size(0), x.size(1), self.heads, self.width).transpose(1, 2)

    def join(self, x: Tensor) -> Tensor:
        """(B, H, S, D) -> (B, S, C), and the product behind the heads."""
        return self.out(x.transpose(1, 2).reshape(x.size(0), x.size(2), self.heads * self.width))


class EncoderAttention(Attention):
    """Self-attention over the whole sentence."""

    def __init__(self, stock: Any):
        super().__init__(stock)
        self.qkv = merged([(stock.q_proj, stock.scaling), (stock.k_proj, 1.0), (stock.v_proj, 1.0)])

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, S, C), (B, 1, 1, S) to add to the weights -> (B, S, C)."""
        query, keys, values = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        return self.join(attend(query, keys.transpose(-1, -2), values, mask))


class CachedAttention(Attention):
    """Self-attention of one new token over those before it."""

    def __init__(self, stock: Any):
        super().__init__(stock)
        self.qkv = merged([(stock.q_proj, stock.scaling), (stock.k_proj, 1.0), (stock.v_proj, 1.0)])

    def forward(self, x: Tensor, order: Tensor, keys: Tensor, values: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """(B, K, C), (B K,) rows of the caches, caches (R, H, T, D) -> (B, K, C), caches (B K, H, T + 1, D)."""
        rows = order.size(0)
        query, key, value = (part.reshape(rows, self.heads, 1, self.width) for part in self.qkv(x).chunk(3, -1))
        keys = torch.cat([keys.index_select(0, order), key], 2)
        values = torch.cat([values.index_select(0, order), value], 2)
        found = attend(query, keys.transpose(-1, -2), values)
        return self.out(found.reshape(x.size(0), x.size(1), self.heads * self.width)), keys, values


class CrossAttention(Attention):
    """Cross-attention over keys and values that are there already; its beams share them."""

    def __init__(self, stock: Any):
        super().__init__(stock)
        self.query = merged([(stock.q_proj, stock.scaling)])

    def forward(self, x: Tensor, mask: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """(B, K, C), (B, 1, 1, S) to add, keys (B, H, D, S), values (B, H, S, D) -> (B, K, C)."""
        return self.join(attend(self.split(self.query(x)), keys, values, mask))


class Step(nn.Module):
    """A norm before what is computed, or behind the residual connection."""

    def __init__(self, layer: Any, norm: nn.Module, compute: nn.Module):
        super().__init__()
        self.before, self.norm, self.compute = bool(layer.normalize_before), norm, compute

    def ready(self, x: Tensor) -> Tensor:
        """What is computed with."""
        return self.norm(x) if self.before else x

    def close(self, x: Tensor, found: Tensor) -> Tensor:
        """The residual connection."""
        return x + found if self.before else self.norm(x + found)

    def forward(self, x: Tensor, *rest: Tensor) -> Tensor:
        """(B, S, C) -> (B, S, C)."""
        return self.close(x, self.compute(self.ready(x), *rest))


class StatesGraph(nn.Module):
    """Source -> states.

    Args:
        encoder: stock-shaped.
        positions: longest source.
    """

    def __init__(self, encoder: Any, positions: int):
        super().__init__()
        self.words, self.norm = Words(encoder, positions), encoder.layer_norm
        self.attentions, self.networks = nn.ModuleList(), nn.ModuleList()
        for layer in encoder.layers:
            self.attentions.append(Step(layer, layer.self_attn_layer_norm, EncoderAttention(layer.self_attn)))
            self.networks.append(Step(layer, layer.final_layer_norm, FeedForward(layer, layer.fc1, layer.fc2)))

    def states(self, source: Tensor) -> Tensor:
        """(B, S) ids -> (B, S, C), what the stock encoder computes; at padding it means nothing."""
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
        self.keys_values = nn.ModuleList(merged([(stock.k_proj, 1.0), (stock.v_proj, 1.0)]) for stock in crosses)
        for attention in self.cross:
            del attention.out

    def forward(self, source: Tensor) -> Tuple[Tensor, ...]:
        """(B, S) ids -> L keys (B, H, D, S), then L values (B, H, S, D)."""
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
    """The next token of every beam: the best candidates, the score of a given token, and the caches one token longer.

    Args:
        model: a stock-shaped transformer.
        positions: longest target, with the token that it starts with.
    """

    def __init__(self, model: Any, positions: int):
        super().__init__()
        decoder = model.decoder
        self.words, self.norm, self.narrow = Words(decoder, positions), decoder.layer_norm, decoder.project_out_dim
        self.projection, self.source_pad = decoder.output_projection, int(model.encoder.padding_idx)
        self.attentions, self.bottoms = nn.ModuleList(), nn.ModuleList()
        self.crosses, self.networks = nn.ModuleList(), nn.ModuleList()
        for layer in decoder.layers:
            self.attentions.append(Step(layer, layer.self_attn_layer_norm, CachedAttention(layer.self_attn)))
            if isinstance(layer, InterleavedDecoderLayer):
                self.bottoms.append(Step(layer, layer.ffn_layer_norm, FeedForward(layer, layer.fc3, layer.fc4)))
            self.crosses.append(Step(layer, layer.encoder_attn_layer_norm, CrossAttention(layer.encoder_attn)))
            self.networks.append(Step(layer, layer.final_layer_norm, FeedForward(layer, layer.fc1, layer.fc2)))

    def states(
        self, tokens: Tensor, order: Tensor, source: Tensor, cross: Sequence[Tensor], caches: Sequence[Tensor]
    ) -> Tuple[Tensor, List[Tensor]]:
        """See :meth:`forward`. Returns (B, K, C), what the stock decoder projects, and the caches."""
        layers, mask, rows = len(self.crosses), padding(source, self.source_pad), order.reshape(-1)
        place = torch.full_like(tokens[:1, :1], self.words.first) + caches[0].size(2)
        x = self.words(tokens, place)
        new = list(caches)
        for number in range(layers):
            attention: Any = self.attentions[number]
            keys = number + layers
            found, new[number], new[keys] = attention.compute(attention.ready(x), rows, caches[number], caches[keys])
            x = attention.close(x, found)
            if len(self.bottoms):
                x = self.bottoms[number](x)
            x = self.networks[number](self.crosses[number](x, mask, cross[number], cross[keys]))
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
        """One step.

        Args:
            tokens: (B, K) int64, the last token of every beam.
            order: (B, K) int64, which row of the caches is the beam's: they have rows of any number, as of the step before.
            forced: (B, K) int64, the token whose score is returned beside the best ones.
            penalty: (V,), added to the log-probabilities; minus infinity keeps a token out.
            width: (W,), of which the length alone counts: so many candidates a beam.
            source: (B, S) int64, of which the padding alone counts.
            cross_keys, cross_values: L each, what :class:`EncoderGraph` gives.
            self_keys, self_values: L each, the caches, (R, H, T, D); T = 0 in the first step.

        Returns:
            Scores (B, K, W), the best first, and their tokens; scores of ``forced``, (B, K); the caches, (B K, H, T + 1, D).
        """
        cross, caches = [*cross_keys, *cross_values], [*self_keys, *self_values]
        x, new = self.states(tokens, order, source, cross, caches)
        scores = torch.log_softmax(self.projection(x), -1) + penalty
        best, ids = torch.topk(scores, width.size(0))
        return (best, ids, scores.gather(2, forced.unsqueeze(2)).squeeze(2), *new)


def padding(tokens: Tensor, pad: int) -> Tensor:
    """(B, S) ids -> (B, 1, 1, S) float, minus infinity at padding, else 0."""
    zeros = torch.zeros_like(tokens, dtype=torch.float32)
    return zeros.masked_fill(tokens.eq(pad), NEGATIVE)[:, None, None, :]
