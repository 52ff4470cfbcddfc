"""The units of SGA and of ``nat_ctc`` as modules without state, for graphs.

They hold the weights of the model's own layers. Queries, keys and values are one product, the scale of the queries is in their
weights, and prompts are constants.

B sentences, S source tokens, T slots, P prompts, L layers, H heads of width D, C = H D, V entries.
"""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..masked_lm.model import PrefixSelfAttention
from ..masked_lm.prompts import Prompts, Updates, merge
from ..baselines.nat_ctc import NATCTCModel
from ..ops.masks import additive_key_mask, lengths_to_padding_mask
from ..sga.model import SGAModel
from .stock_graphs import Attention, CrossAttention, EncoderAttention, EncoderGraph, FeedForward, Step, merged


def best(logits: Tensor, lengths: Tensor, blank: int, pieces: bool) -> Tuple[Tensor, ...]:
    """The best token of each slot, with ``pieces`` also the best beside the blank, and the log-probability of the best.

    (B, T, V) logits and (B,) lengths -> (B, T) each; in padding they are the blank and 0.
    """
    # Operators that onnxruntime has fast: its TopK takes less time than its ArgMax, and of equal values also the first; its Softmax
    # a tenth of its ReduceLogSumExp.
    outside = lengths_to_padding_mask(lengths, logits.size(1))
    ids = logits.topk(2 if pieces else 1, dim=-1).indices
    found: List[Tensor] = [ids[..., 0]]
    if pieces:
        found.append(torch.where(ids[..., 0] == blank, ids[..., 1], ids[..., 0]))
    log_probs = logits.softmax(dim=-1).amax(dim=-1).log()
    return (*(one.masked_fill(outside, blank) for one in found), log_probs.masked_fill(outside, 0.0))


# ---- SGA. ----


class Part(NamedTuple):
    """Keys and values of a layer that sentences attend to beside their own."""

    keys: Tensor  # (B or 1, H, D, P), transposed
    values: Tensor  # (B or 1, H, P, D)
    mask: Optional[Tensor] = None  # (B, 1, 1, P) to add to the scores; None: all may be attended


class FixedPrompts(nn.Module):
    """The prompts of a unit as they are after training, scaled and split into heads."""

    keys: Tensor
    values: Tensor

    def __init__(self, prompts: Prompts):
        super().__init__()
        with torch.no_grad():
            pairs = prompts()
        self.register_buffer("keys", torch.stack([key.transpose(-1, -2) for key, _ in pairs]).contiguous())  # L 1 H D P
        self.register_buffer("values", torch.stack([value for _, value in pairs]))  # L 1 H P D

    def forward(self) -> List[List[Part]]:
        """Of each layer one part, the same for every sentence, or none where there are no prompts."""
        some = self.values.size(3) > 0
        return [[Part(*pair)] * some for pair in zip(self.keys.unbind(), self.values.unbind())]


class PrefixAttention(Attention):
    """Self-attention over prefixes and the sentence.

    Each part has products of its own, and only the scores are joined for the softmax: joined keys and values would be copied for
    every sentence, layer and pass, a third of the time in batches of 32.
    """

    def __init__(self, own: PrefixSelfAttention, updates: Optional[Updates]):
        nn.Module.__init__(self)
        self.heads, self.width = own.heads, own.q_proj.out_features // own.heads
        factors = {"q_proj": self.width**-0.5, "k_proj": 1.0, "v_proj": 1.0}
        self.qkv = merged([(merge(getattr(own, name), updates, name), factor) for name, factor in factors.items()])
        self.out = merge(own.out_proj, updates, "out_proj")

    def forward(self, x: Tensor, mask: Tensor, prefixes: Sequence[Part]) -> Tensor:
        """(B, S, C), (B, 1, 1, S) to add to the scores of the sentence itself -> (B, S, C)."""
        query, key, value = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        parts = [*prefixes, Part(key.transpose(-1, -2), value, mask)]
        scores = [query @ keys if more is None else query @ keys + more for keys, _, more in parts]
        weights = torch.softmax(torch.cat(scores, -1), -1).split([part.values.size(2) for part in parts], -1)
        products = [share @ part.values for share, part in zip(weights, parts)]
        return self.join(sum(products[1:], products[0]))


class MaskedLMLayers(nn.Module):
    """Embedding and layers of the frozen masked LM, the low-rank updates of a unit added to the matrices."""

    def __init__(self, model: SGAModel, prompts: Prompts):
        super().__init__()
        encoder = model.masked_lm.sentence_encoder
        self.tokens, self.places, self.norm = encoder.embed_tokens, encoder.embed_positions, encoder.layernorm_embedding
        layers: Any = encoder.layers
        updates: Any = prompts.updates() or [None] * len(layers)
        pairs = list(zip(layers, updates))
        self.attentions = nn.ModuleList(PrefixAttention(layer.self_attn, own) for layer, own in pairs)
        self.widen = nn.ModuleList(merge(layer.fc1, own, "fc1") for layer, own in pairs)
        self.narrow = nn.ModuleList(merge(layer.fc2, own, "fc2") for layer, own in pairs)
        self.norms = nn.ModuleList(layer.self_attn_layer_norm for layer in layers)
        self.last = nn.ModuleList(layer.final_layer_norm for layer in layers)

    def forward(self, tokens: Tensor, places: Tensor, padding: Tensor, prefixes: List[List[Part]]) -> List[Tensor]:
        """The outputs of the layers, (B, S, C) each; those at padding are arbitrary.

        Args:
            tokens: (B, S) int64; ``places`` (B or 1, S), rows of the table of positions.
            padding: (B, S) bool, True = padding.
            prefixes: of each layer.
        """
        x = self.norm(self.tokens(tokens) + self.places(places))
        mask = additive_key_mask(padding, x.dtype)
        outputs = []
        for number, parts in enumerate(prefixes):
            x = self.norms[number](x + self.attentions[number](x, mask, parts))
            x = self.last[number](x + self.narrow[number](F.gelu(self.widen[number](x))))
            outputs.append(x)
        return outputs


class SGAEncoder(nn.Module):
    """The encoder unit and the projection of its layers to the semantic guidance."""

    def __init__(self, model: SGAModel):
        super().__init__()
        self.layers = MaskedLMLayers(model, model.encoder_prompts)
        self.prompts = FixedPrompts(model.encoder_prompts)
        self.semantic, self.lengths = model.semantic, getattr(model, "length_predictor", None)
        self.pad = model.masked_lm.sizes.padding_idx

    def forward(self, source: Tensor) -> Tuple[Tensor, ...]:
        """(B, S) int64 -> keys (L, B, H, D, S), values (L, B, H, S, D) and, if predicted, log-probabilities of lengths (B, N)."""
        padding = source.eq(self.pad)
        places = torch.cumsum(~padding, dim=1).masked_fill(padding, 0) + self.pad
        outputs = self.layers(source, places, padding, self.prompts())
        keys, values = zip(*(self.semantic(hidden) for hidden in outputs))
        found = (torch.stack([key.transpose(-1, -2) for key in keys]), torch.stack(values))
        return found if self.lengths is None else (*found, self.lengths(outputs[-1], padding))


class SGAUnit(nn.Module):
    """The alignment or the denoiser unit with the output projection, and the best token of each slot.

    ``bias`` (V,) is the one of the projection with what CTC adds to the blank.
    """

    bias: Optional[Tensor]

    def __init__(self, model: SGAModel, prompts: Prompts, bias: Optional[Tensor], pieces: bool):
        super().__init__()
        self.register_buffer("bias", None if bias is None else bias.detach())
        self.layers, self.prompts = MaskedLMLayers(model, prompts), FixedPrompts(prompts)
        self.head = model.masked_lm.lm_head
        self.pad, self.blank, self.pieces = model.masked_lm.sizes.padding_idx, model.blank, pieces

    def forward(
        self, tokens: Tensor, lengths: Tensor, source: Tensor, keys: Tensor, values: Tensor
    ) -> Tuple[Tensor, ...]:
        """Best tokens (B, T), with ``pieces`` also the best ones beside the blank (B, T), and log-probabilities (B, T)."""
        padding = lengths_to_padding_mask(lengths, tokens.size(1))
        places = torch.arange(tokens.size(1))[None] + self.pad + 1
        mask = additive_key_mask(source.eq(self.pad), keys.dtype)
        guidance = [Part(*pair, mask) for pair in zip(keys.unbind(), values.unbind())]
        prefixes = [[part, *prompts] for part, prompts in zip(guidance, self.prompts())]
        hidden = self.head.transform(self.layers(tokens, places, padding, prefixes)[-1])
        return best(F.linear(hidden, self.head.weight, self.bias), lengths, self.blank, self.pieces)


# ---- nat_ctc. ----


class NATEncoder(nn.Module):
    """The stock encoder."""

    def __init__(self, model: NATCTCModel):
        super().__init__()
        self.encoder = EncoderGraph(model, model.positions)
        del self.encoder.cross, self.encoder.keys_values

    def forward(self, source: Tensor) -> Tensor:
        """(B, S) int64 -> (B, S, C)."""
        return self.encoder.states(source)


class NATDecoder(nn.Module):
    """The slots of every sentence, upsample x S of them, and the best token of each; ``bias`` as in :class:`SGAUnit`, or none."""

    places: Tensor
    bias: Optional[Tensor]

    def __init__(self, model: NATCTCModel, bias: Optional[Tensor]):
        super().__init__()
        self.register_buffer("bias", None if bias is None else bias.detach())
        decoder = model.decoder
        self.pad, self.blank, self.upsample = decoder.padding_idx, model.blank, model.upsample
        table, rows = decoder.embed_positions, model.positions * model.upsample
        made = table.get_embedding(rows + self.pad + 1, table.embedding_dim, table.padding_idx)
        self.register_buffer("places", made)
        self.attentions, self.crosses, self.networks = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        self.keys_values = nn.ModuleList()
        for layer in decoder.layers:
            cross = layer.encoder_attn
            self.attentions.append(Step(layer, layer.self_attn_layer_norm, EncoderAttention(layer.self_attn)))
            self.crosses.append(Step(layer, layer.encoder_attn_layer_norm, CrossAttention(cross)))
            self.keys_values.append(merged([(cross.k_proj, 1.0), (cross.v_proj, 1.0)]))
            self.networks.append(Step(layer, layer.final_layer_norm, FeedForward(layer, layer.fc1, layer.fc2)))
        self.norm, self.projection = decoder.layer_norm, decoder.output_projection

    def forward(self, lengths: Tensor, source: Tensor, states: Tensor) -> Tuple[Tensor, ...]:
        """(B,) slots of each sentence, (B, S) ids, (B, S, C) -> best tokens and their log-probabilities, (B, T)."""
        slots = states.repeat_interleave(self.upsample, dim=1)
        padding = lengths_to_padding_mask(lengths, slots.size(1))
        places = (torch.arange(slots.size(1)) + self.pad + 1).expand(slots.size(0), -1).masked_fill(padding, self.pad)
        x = slots + F.embedding(places, self.places)
        own, other = additive_key_mask(padding, x.dtype), additive_key_mask(source.eq(self.pad), x.dtype)
        layers: Any = zip(self.attentions, self.crosses, self.keys_values, self.networks)
        for attention, cross, product, network in layers:
            keys, values = (cross.compute.split(part) for part in product(states).chunk(2, -1))
            x = network(cross(attention(x, own), other, keys.transpose(-1, -2), values))
        x = x if self.norm is None else self.norm(x)
        return best(F.linear(x, self.projection.weight, self.bias), lengths, self.blank, False)
