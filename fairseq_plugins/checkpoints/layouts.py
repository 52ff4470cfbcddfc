"""Sizes and wiring of transformer stacks, and the shapes that follow from them, in fairseq's names."""

from dataclasses import dataclass, fields
from typing import Any, Dict, List, Mapping, Tuple

from .inspection import CheckpointError

Shapes = Dict[str, Tuple[int, ...]]

PADDING_IDX = 1
"""Row of ``<pad>`` in every fairseq dictionary."""

MASK_ROW = "lm_head.mask_row"
"""Of a VECO that was pre-trained here: a tensor without elements, (row of ``<mask>``, 0), which half precision and averages leave
as it is, where fairseq's moving average stops at an integer."""

LAYOUT_ENTRY = "encoder_layout"
LANGUAGES_ENTRY = "encoder_languages"
"""What checkpoints of the package's own encoder models have among their options."""


@dataclass(frozen=True)
class StackLayout:
    """A stack of transformer layers.

    Attributes:
        max_positions: usable positions, i.e. the longest input in tokens.
        padding_idx: row of ``<pad>``; positions are counted from the row after it.
        normalize_before: layer norms before the blocks (pre-norm), else after each block.
        learned_positions: a table of positions, else sinusoids.
        scale_embedding: token embeddings are multiplied by the square root of the width ``embed_dim``.
        activation: of the feed-forward blocks, a name fairseq knows.
        epsilon: of every layer norm.
    """

    vocab_size: int
    layers: int
    embed_dim: int
    ffn_dim: int
    heads: int
    max_positions: int
    padding_idx: int = PADDING_IDX
    normalize_before: bool = False
    layernorm_embedding: bool = True
    learned_positions: bool = True
    scale_embedding: bool = False
    activation: str = "gelu"
    epsilon: float = 1e-5


@dataclass(frozen=True)
class EncoderLayout(StackLayout):
    """An encoder of a ``family``, one of :data:`FAMILIES`, with a norm after the last layer where norms come before the blocks.

    ``eos_idx``: row of ``</s>``. ``segments``: rows of the segment (token type) embedding; 0 = there is none.
    """

    family: str = "xlmr"
    eos_idx: int = 2
    segments: int = 0


@dataclass(frozen=True)
class CausalLMLayout(StackLayout):
    """A causal language model.

    ``final_norm``: a layer norm after the last layer. ``tied``: the output projection is the token embedding.
    """

    normalize_before: bool = True
    layernorm_embedding: bool = False
    activation: str = "gelu_accurate"
    final_norm: bool = True
    tied: bool = True


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


def size_options(side: str, positions: str) -> Dict[str, str]:
    """Size -> what fairseq's options call it, of one side of a model; ``positions``: the option of the longest input."""
    names = {"layers": "layers", "embed_dim": "embed_dim", "ffn_dim": "ffn_embed_dim", "heads": "attention_heads"}
    return {**{size: f"{side}_{name}" for size, name in names.items()}, "max_positions": positions}


def family_layout(family: str, **sizes: Any) -> EncoderLayout:
    """The usual layout of a family, at these sizes (and, where named, otherwise wired); ValueError for an unknown family."""
    if family not in FAMILIES:
        raise ValueError(f"encoder family {family!r} is unknown; valid: {', '.join(FAMILIES)}")
    return EncoderLayout(family=family, **{**FAMILIES[family], **sizes})


def layout_from(stored: Mapping[str, Any], origin: str) -> EncoderLayout:
    """The layout that a checkpoint's options hold; CheckpointError where fields are missing, unknown or of another type."""
    try:
        layout = family_layout(**stored)
    except (TypeError, ValueError) as error:  # a field that is missing or unknown
        raise CheckpointError(f"{origin}: its encoder_layout: {error}; valid: fields of EncoderLayout") from error
    for one in fields(layout):
        value, kind = getattr(layout, one.name), (int, float) if one.type is float else one.type
        if not isinstance(value, kind):  # type: ignore[arg-type]
            raise CheckpointError(
                f"{origin}: its encoder_layout has {one.name} = {value!r}, expected {getattr(one.type, '__name__', one.type)}"
            )
    return layout


def wrong_epsilon(options: Mapping[str, Any], name: str) -> List[str]:
    """What is wrong with the epsilon of layer norms that options state, if they do."""
    found = options.get(name, 1e-5)
    sound = isinstance(found, (int, float)) and 0 < found < 1
    return [] if sound else [f"{name} = {found!r}, expected a small number above 0"]


def attention_shapes(name: str, width: int) -> Shapes:
    """Shapes of an attention block and of the norm behind it."""
    shapes: Shapes = {f"{name}_layer_norm.weight": (width,), f"{name}_layer_norm.bias": (width,)}
    for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
        shapes[f"{name}.{projection}.weight"] = (width, width)
        shapes[f"{name}.{projection}.bias"] = (width,)
    return shapes


def expected_shapes(layout: Any) -> Shapes:
    """Name -> shape of every tensor of a stack (an :class:`EncoderLayout` or :class:`CausalLMLayout`), in fairseq's names."""
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


def masked_lm_shapes(sizes: Mapping[str, int]) -> Shapes:
    """Shapes of a masked LM of these sizes, without the tied ``lm_head.weight``."""
    stack = expected_shapes(family_layout("xlmr", **sizes))
    shapes: Shapes = {f"sentence_encoder.{name}": shape for name, shape in stack.items()}
    width = sizes["embed_dim"]
    shapes.update({"lm_head.dense.weight": (width, width), "lm_head.bias": (sizes["vocab_size"],)})
    shapes.update({f"lm_head.{name}": (width,) for name in ("dense.bias", "layer_norm.weight", "layer_norm.bias")})
    return shapes
