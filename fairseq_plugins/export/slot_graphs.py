"""The units of SGA and of ``nat_ctc`` as modules without state, for graphs.

They hold the weights of the model's layers. Queries, keys and values are one product, the scale of
the queries is in their weights, and prompts are constants. Names of attributes are names of weights
in the exported files.

B sentences, S source tokens, T slots, P prompts, L layers, H heads of width D, C = H D, V entries.
"""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..baselines.nat_ctc import NATCTCModel
from ..masked_lm.model import PrefixSelfAttention
from ..masked_lm.prompts import Prompts, Updates, merge
from ..ops.masks import additive_key_mask, lengths_to_padding_mask
from ..sga.model import SGAModel
from ..sga.target_rows import TargetRows
from .stock_graphs import (
    Attention,
    EncoderAttention,
    StatesGraph,
    attention_step,
    cross_step,
    merge_keys_values,
    merged,
    network_step,
)


def best(logits: Tensor, lengths: Tensor, blank: int, pieces: bool) -> Tuple[Tensor, ...]:
    """Find the best token of each slot.

    Args:
        logits: (B, T, V).
        lengths: (B,).
        pieces: also find the best token other than the blank.

    Returns:
        The best tokens (B, T), with ``pieces`` the best tokens other than the blank (B, T), and the
        log-probabilities (B, T) of the best tokens. At padding tokens are the blank, and
        log-probabilities 0.
    """
    # The fastest operators of onnxruntime: TopK takes less time than ArgMax, and also returns the
    # first of equal values. Softmax takes a tenth of the time of ReduceLogSumExp.
    outside = lengths_to_padding_mask(lengths, logits.size(1))
    ids = logits.topk(2 if pieces else 1, dim=-1).indices
    tokens: List[Tensor] = [ids[..., 0]]
    if pieces:
        tokens.append(torch.where(ids[..., 0] == blank, ids[..., 1], ids[..., 0]))
    log_probs = logits.softmax(dim=-1).amax(dim=-1).log()
    padded = [part.masked_fill(outside, blank) for part in tokens]
    return (*padded, log_probs.masked_fill(outside, 0.0))


# ---- SGA. ----


class Part(NamedTuple):
    """Keys and values that the tokens of a layer attend to."""

    keys: Tensor  # (B or 1, H, D, P), transposed
    values: Tensor  # (B or 1, H, P, D)
    mask: Optional[Tensor] = None  # (B, 1, 1, P) to add to the scores; None: all may be attended


class FixedPrompts(nn.Module):
    """The trained prompts of a unit as constants, scaled and split into heads."""

    keys: Tensor
    values: Tensor

    def __init__(self, prompts: Prompts):
        super().__init__()
        with torch.no_grad():
            pairs = prompts()
        keys = torch.stack([key.transpose(-1, -2) for key, _ in pairs])  # L 1 H D P
        self.register_buffer("keys", keys.contiguous())
        self.register_buffer("values", torch.stack([value for _, value in pairs]))  # L 1 H P D

    def forward(self) -> List[List[Part]]:
        """Return the parts of each layer: one for all sentences, or none if P = 0."""
        if self.values.size(3) == 0:
            return [[] for _ in range(self.values.size(0))]
        return [[Part(*pair)] for pair in zip(self.keys.unbind(), self.values.unbind())]


class PrefixAttention(Attention):
    """Self-attention over prefixes and the sentence.

    The products are computed part by part, and only the scores are joined, for the softmax. Joining
    keys and values would copy them for every sentence, layer and pass, which took a third of the
    time in batches of 32.
    """

    def __init__(self, attention: PrefixSelfAttention, updates: Optional[Updates]):
        nn.Module.__init__(self)
        self.heads, self.width = attention.heads, attention.q_proj.out_features // attention.heads
        parts = []
        for name, factor in (("q_proj", self.width**-0.5), ("k_proj", 1.0), ("v_proj", 1.0)):
            parts.append((merge(getattr(attention, name), updates, name), factor))
        self.qkv = merged(parts)
        self.out = merge(attention.out_proj, updates, "out_proj")

    def forward(self, x: Tensor, mask: Tensor, prefixes: Sequence[Part]) -> Tensor:
        """Attend.

        Args:
            x: (B, S, C).
            mask: (B, 1, 1, S), added to the scores of the sentence.
            prefixes: what is attended to beside the sentence.

        Returns:
            (B, S, C).
        """
        query, key, value = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        parts = [*prefixes, Part(key.transpose(-1, -2), value, mask)]
        scores = []
        for part in parts:
            score = query @ part.keys
            scores.append(score if part.mask is None else score + part.mask)
        sizes = [part.values.size(2) for part in parts]
        weights = torch.softmax(torch.cat(scores, -1), -1).split(sizes, -1)
        products = [share @ part.values for share, part in zip(weights, parts)]
        return self.join(sum(products[1:], products[0]))


class MaskedLMLayers(nn.Module):
    """Embedding and layers of the frozen masked LM, with a unit's low-rank updates added."""

    def __init__(self, model: SGAModel, prompts: Prompts, target_rows: Optional[TargetRows] = None):
        super().__init__()
        encoder = model.masked_lm.sentence_encoder
        self.tokens, self.places = encoder.embed_tokens, encoder.embed_positions
        if target_rows is not None:  # what a unit reads are ids of the target dictionary
            self.tokens = nn.Embedding.from_pretrained(target_rows.weight)
        self.norm = encoder.layernorm_embedding
        layers: Any = encoder.layers
        updates: Any = prompts.updates() or [None] * len(layers)
        pairs = list(zip(layers, updates))
        self.attentions = nn.ModuleList(
            PrefixAttention(layer.self_attn, update) for layer, update in pairs
        )
        self.widen = nn.ModuleList(merge(layer.fc1, update, "fc1") for layer, update in pairs)
        self.narrow = nn.ModuleList(merge(layer.fc2, update, "fc2") for layer, update in pairs)
        self.norms = nn.ModuleList(layer.self_attn_layer_norm for layer in layers)
        self.last = nn.ModuleList(layer.final_layer_norm for layer in layers)

    def forward(
        self, tokens: Tensor, places: Tensor, padding: Tensor, prefixes: List[List[Part]]
    ) -> List[Tensor]:
        """Compute h^0 .. h^L, (B, S, C) each, undefined at padding; h^0 is the embedding's output.

        Args:
            tokens: (B, S) int64.
            places: (B or 1, S), rows of the table of positions.
            padding: (B, S) bool, True = padding.
            prefixes: of each layer, what is attended to beside the tokens.
        """
        x = self.norm(self.tokens(tokens) + self.places(places))
        mask = additive_key_mask(padding, x.dtype)
        states = [x]
        for number, parts in enumerate(prefixes):
            x = self.norms[number](x + self.attentions[number](x, mask, parts))
            x = self.last[number](x + self.narrow[number](F.gelu(self.widen[number](x))))
            states.append(x)
        return states


class SGAEncoder(nn.Module):
    """The encoder unit, and the projection of its layers to the semantic guidance."""

    def __init__(self, model: SGAModel):
        super().__init__()
        self.layers = MaskedLMLayers(model, model.encoder_prompts)
        self.prompts = FixedPrompts(model.encoder_prompts)
        self.semantic, self.lengths = model.semantic, getattr(model, "length_predictor", None)
        self.pad = model.masked_lm.sizes.padding_idx
        self.frozen_layers = model.masked_lm.sentence_encoder.layers

    def forward(self, source: Tensor) -> Tuple[Tensor, ...]:
        """Encode (B, S) int64.

        Returns:
            Keys (L, B, H, D, S), values (L, B, H, S, D) and, if the model predicts lengths, their
            log-probabilities (B, N).
        """
        padding = source.eq(self.pad)
        places = torch.cumsum(~padding, dim=1).masked_fill(padding, 0) + self.pad
        states = self.layers(source, places, padding, self.prompts())
        keys, values = zip(*self.semantic(states, self.frozen_layers))
        guidance = torch.stack([key.transpose(-1, -2) for key in keys]), torch.stack(values)
        if self.lengths is None:
            return guidance
        return (*guidance, self.lengths(states[-1], padding))


class SGAUnit(nn.Module):
    """The alignment or the denoiser unit with the output projection, and each slot's best token.

    ``bias`` (V,) is that of the projection, with CTC's addition to the blank.
    """

    bias: Optional[Tensor]

    def __init__(self, model: SGAModel, prompts: Prompts, bias: Optional[Tensor], pieces: bool):
        super().__init__()
        self.register_buffer("bias", None if bias is None else bias.detach())
        self.layers = MaskedLMLayers(model, prompts, model.target_rows)
        self.prompts, self.head = FixedPrompts(prompts), model.masked_lm.lm_head
        self.pad, self.blank = model.masked_lm.sizes.padding_idx, model.blank
        self.pieces, self.continues_positions = pieces, model.continues_positions

    def forward(
        self, tokens: Tensor, lengths: Tensor, source: Tensor, keys: Tensor, values: Tensor
    ) -> Tuple[Tensor, ...]:
        """Find the best tokens of (B, T) slots; see :func:`best`."""
        padding = lengths_to_padding_mask(lengths, tokens.size(1))
        places = torch.arange(tokens.size(1))[None] + self.pad + 1  # 1 T
        if self.continues_positions:
            last = self.layers.places.num_embeddings - 1  # only padding would lie after it
            places = (places + source.ne(self.pad).sum(1, keepdim=True)).clamp(max=last)  # B T
        mask = additive_key_mask(source.eq(self.pad), keys.dtype)
        guidance = [Part(*pair, mask) for pair in zip(keys.unbind(), values.unbind())]
        prefixes = [[part, *prompts] for part, prompts in zip(guidance, self.prompts())]
        hidden = self.head.transform(self.layers(tokens, places, padding, prefixes)[-1])
        logits = F.linear(hidden, self.layers.tokens.weight, self.bias)
        return best(logits, lengths, self.blank, self.pieces)


# ---- nat_ctc. ----


class NATEncoder(nn.Module):
    """The stock encoder."""

    def __init__(self, model: NATCTCModel):
        super().__init__()
        self.encoder = StatesGraph(model.encoder, model.positions)

    def forward(self, source: Tensor) -> Tensor:
        """Encode. (B, S) int64 -> (B, S, C)."""
        return self.encoder.states(source)


class NATDecoder(nn.Module):
    """The decoder over ``upsample`` x S slots, and the best token of each slot.

    ``bias`` (V,) is CTC's addition to the blank, or None.
    """

    places: Tensor
    bias: Optional[Tensor]

    def __init__(self, model: NATCTCModel, bias: Optional[Tensor]):
        super().__init__()
        self.register_buffer("bias", None if bias is None else bias.detach())
        decoder = model.decoder
        self.pad, self.blank, self.upsample = decoder.padding_idx, model.blank, model.upsample
        table, slots = decoder.embed_positions, model.positions * model.upsample
        sizes = slots + self.pad + 1, table.embedding_dim, table.padding_idx
        self.register_buffer("places", table.get_embedding(*sizes))
        layers = decoder.layers
        self.attentions = nn.ModuleList(attention_step(layer, EncoderAttention) for layer in layers)
        self.crosses = nn.ModuleList(cross_step(layer) for layer in layers)
        self.networks = nn.ModuleList(network_step(layer) for layer in layers)
        self.keys_values = nn.ModuleList(merge_keys_values(layer.encoder_attn) for layer in layers)
        self.norm, self.projection = decoder.layer_norm, decoder.output_projection

    def forward(self, lengths: Tensor, source: Tensor, states: Tensor) -> Tuple[Tensor, ...]:
        """Find the best tokens; see :func:`best`.

        Args:
            lengths: (B,) slots of each sentence.
            source: (B, S) ids.
            states: (B, S, C).
        """
        slots = states.repeat_interleave(self.upsample, dim=1)
        padding = lengths_to_padding_mask(lengths, slots.size(1))
        places = (torch.arange(slots.size(1)) + self.pad + 1).expand(slots.size(0), -1)
        x = slots + F.embedding(places.masked_fill(padding, self.pad), self.places)
        slot_mask = additive_key_mask(padding, x.dtype)
        source_mask = additive_key_mask(source.eq(self.pad), x.dtype)
        layers: Any = zip(self.attentions, self.crosses, self.keys_values, self.networks)
        for attention, cross, product, network in layers:
            keys, values = (cross.compute.split(part) for part in product(states).chunk(2, -1))
            x = attention(x, slot_mask)
            x = network(cross(x, source_mask, keys.transpose(-1, -2), values))
        x = x if self.norm is None else self.norm(x)
        logits = F.linear(x, self.projection.weight, self.bias)
        return best(logits, lengths, self.blank, pieces=False)
