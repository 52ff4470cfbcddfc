"""Sizes and wiring of transformer stacks, and the shapes that follow from them, in fairseq's names."""

from dataclasses import dataclass, fields
from typing import Any, Dict, Mapping, Optional, Tuple

import torch
from torch import Tensor

from .errors import CheckpointError

Shapes = Dict[str, Tuple[int, ...]]

PADDING_IDX = 1
"""Row of ``<pad>`` in every fairseq dictionary."""

PRETRAINED_HERE = "lm_head.dense.weight"
"""What a VECO of this package's pre-training has, and one for generation has not."""

MASK_ROW = "lm_head.mask_row"
"""Of a VECO that was pre-trained here: a tensor without elements, (row of ``<mask>``, 0), which half precision and averages leave
as it is, where fairseq's moving average stops at an integer."""

LAYOUT_ENTRY = "encoder_layout"
LANGUAGES_ENTRY = "encoder_languages"
"""What checkpoints of the package's own encoder models have among their options."""


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
    padding_idx: int = PADDING_IDX
    eos_idx: int = 2
    normalize_before: bool = False
    layernorm_embedding: bool = True
    learned_positions: bool = True
    scale_embedding: bool = False
    activation: str = "gelu"
    epsilon: float = 1e-5
    segments: int = 0


@dataclass(frozen=True)
class CausalLMLayout:
    """A causal language model: fields as :class:`EncoderLayout`'s, except for two.

    ``final_norm``: a layer norm after the last layer. ``tied``: the output projection is the token embedding.
    """

    vocab_size: int
    layers: int
    embed_dim: int
    ffn_dim: int
    heads: int
    max_positions: int
    normalize_before: bool = True
    final_norm: bool = True
    layernorm_embedding: bool = False
    learned_positions: bool = True
    scale_embedding: bool = False
    activation: str = "gelu_accurate"
    epsilon: float = 1e-5
    tied: bool = True
    padding_idx: int = PADDING_IDX


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


def layout_from(stored: Mapping[str, Any], origin: str) -> EncoderLayout:
    """The layout that a checkpoint's options hold; CheckpointError where fields are missing, unknown or of another type."""
    types = {"str": str, "int": int, "bool": bool, "float": (int, float)}
    known = {one.name: getattr(one.type, "__name__", str(one.type)) for one in fields(EncoderLayout)}
    problems = [f"lacks {name}" for name in ("family", *SIZES) if name not in stored]
    for name, value in stored.items():
        if name not in known:
            problems.append(f"has unknown {name}")
        elif not isinstance(value, types[known[name]]):  # type: ignore[arg-type]
            problems.append(f"has {name} = {value!r}, expected {known[name]}")
    if problems:
        raise CheckpointError(f"{origin}: its encoder_layout {', '.join(problems)}; valid: {', '.join(known)}")
    return family_layout(**dict(stored))


# ---- Shapes. ----


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


def masked_lm_shapes(sizes: Mapping[str, int], has_head: bool = True) -> Shapes:
    """Name -> shape of every tensor of a masked LM of these sizes, without the tied ``lm_head.weight``."""
    stack = expected_shapes(family_layout("xlmr", **sizes))
    shapes: Shapes = {f"sentence_encoder.{name}": shape for name, shape in stack.items()}
    if has_head:
        width = sizes["embed_dim"]
        shapes.update({"lm_head.dense.weight": (width, width), "lm_head.bias": (sizes["vocab_size"],)})
        shapes.update({f"lm_head.{name}": (width,) for name in ("dense.bias", "layer_norm.weight", "layer_norm.bias")})
    return shapes


# ---- The place of <mask> in the state of a VECO that was pre-trained here. ----


def marked_mask(row: int) -> Tensor:
    """What a state holds as :data:`MASK_ROW`, where ``<mask>`` has this row. (row, 0)."""
    return torch.empty(row, 0)


def mask_row(model: Mapping[str, Any], origin: str) -> Optional[int]:
    """Row of ``<mask>`` in the embedding of a model in fairseq's layout; None where it was not pre-trained here.

    Raises CheckpointError: the embedding has no such row, another tensor has that name, or it is missing.
    """
    stored, words = model.get(MASK_ROW), model.get("encoder.embed_tokens.weight")
    if stored is None and PRETRAINED_HERE not in model:
        return None
    rows = words.size(0) if isinstance(words, Tensor) and words.dim() else 0
    if not isinstance(stored, Tensor) or stored.dim() != 2 or stored.numel() or not 0 < stored.size(0) < rows:
        found = tuple(stored.shape) if isinstance(stored, Tensor) else type(stored).__name__
        raise CheckpointError(
            f"{origin}: {MASK_ROW} is {found}, expected (row of <mask>, 0) with one of its {rows:,} rows"
        )
    return stored.size(0)
