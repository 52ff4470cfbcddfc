"""Sizes and wiring of transformer stacks, and the shapes that follow from them, in fairseq's names."""

from dataclasses import dataclass
from typing import Any, Dict, Tuple

Shapes = Dict[str, Tuple[int, ...]]


@dataclass(frozen=True)
class EncoderLayout:
    """A transformer encoder.

    Attributes:
        family: one of :data:`FAMILIES`.
        vocab_size: rows of the token embedding.
        layers: number of layers L.
        embed_dim: width C.
        ffn_dim: inner width of the feed-forward blocks.
        heads: attention heads H.
        max_positions: usable positions, i.e. the longest input in tokens.
        padding_idx: row of ``<pad>``; positions are counted from the row after it.
        eos_idx: row of ``</s>``.
        normalize_before: layer norms before the blocks and one after the last layer (pre-norm), else after each block.
        layernorm_embedding: a layer norm after the embedding.
        learned_positions: a table of positions, else sinusoids.
        scale_embedding: token embeddings are multiplied by the square root of C.
        activation: of the feed-forward blocks, a name fairseq knows.
        epsilon: of every layer norm.
        segments: rows of the segment (token type) embedding; 0 = there is none.
    """

    family: str
    vocab_size: int
    layers: int
    embed_dim: int
    ffn_dim: int
    heads: int
    max_positions: int
    padding_idx: int = 1
    eos_idx: int = 2
    normalize_before: bool = False
    layernorm_embedding: bool = True
    learned_positions: bool = True
    scale_embedding: bool = False
    activation: str = "gelu"
    epsilon: float = 1e-5
    segments: int = 0


FAMILIES: Dict[str, Dict[str, Any]] = {
    "xlmr": {},
    "bert": {"epsilon": 1e-12, "segments": 2},
    "mbart": {"normalize_before": True, "scale_embedding": True},
    "nllb": {
        "normalize_before": True,
        "layernorm_embedding": False,
        "learned_positions": False,
        "scale_embedding": True,
        "activation": "relu",
    },
    "deltalm": {},
}
"""Family -> what its encoders have other than the defaults of :class:`EncoderLayout`."""

SIZES = ("vocab_size", "layers", "embed_dim", "ffn_dim", "heads", "max_positions")


def family_layout(family: str, **sizes: Any) -> EncoderLayout:
    """The usual layout of a family, at these sizes (and, where named, otherwise wired); ValueError for an unknown family."""
    if family not in FAMILIES:
        raise ValueError(f"encoder family {family!r} is unknown; valid: {', '.join(FAMILIES)}")
    return EncoderLayout(family=family, **{**FAMILIES[family], **sizes})


def attention_shapes(name: str, width: int) -> Shapes:
    """Shapes of an attention block and of the norm behind it."""
    shapes: Shapes = {f"{name}_layer_norm.weight": (width,), f"{name}_layer_norm.bias": (width,)}
    for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
        shapes[f"{name}.{projection}.weight"] = (width, width)
        shapes[f"{name}.{projection}.bias"] = (width,)
    return shapes


def expected_shapes(layout: Any) -> Shapes:
    """Name -> shape of every tensor of a stack (an :class:`EncoderLayout`, or ``causal_lm.CausalLMLayout``), in fairseq's names."""
    width, inner = layout.embed_dim, layout.ffn_dim
    shapes: Shapes = {"embed_tokens.weight": (layout.vocab_size, width)}
    if layout.learned_positions:
        shapes["embed_positions.weight"] = (layout.max_positions + layout.padding_idx + 1, width)
    if getattr(layout, "segments", 0):
        shapes["segment_embeddings.weight"] = (layout.segments, width)
    if not getattr(layout, "tied", True):
        shapes["output_projection.weight"] = (layout.vocab_size, width)
    last = getattr(layout, "final_norm", layout.normalize_before)
    for norm in ["layernorm_embedding"] * layout.layernorm_embedding + ["layer_norm"] * last:
        shapes[f"{norm}.weight"] = shapes[f"{norm}.bias"] = (width,)
    block = attention_shapes("self_attn", width)
    block.update({"fc1.weight": (inner, width), "fc1.bias": (inner,), "fc2.weight": (width, inner)})
    block.update(dict.fromkeys(("fc2.bias", "final_layer_norm.weight", "final_layer_norm.bias"), (width,)))
    for layer in range(layout.layers):
        shapes.update({f"layers.{layer}.{name}": shape for name, shape in block.items()})
    return shapes
