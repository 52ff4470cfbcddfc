"""Sizes and wiring of transformer stacks, and the shapes of their tensors in fairseq's names."""

from dataclasses import dataclass, fields
from typing import Any, Dict, List, Mapping, Tuple, cast

from .inspection import CheckpointError

Shapes = Mapping[str, Tuple[int, ...]]

WORDS = "embed_tokens.weight"
POSITIONS = "embed_positions.weight"

PADDING_IDX = 1
"""Row of ``<pad>`` in every fairseq dictionary."""

MASK_ROW = "lm_head.mask_row"
"""Marker in a VECO of this package: a tensor of shape (row of ``<mask>``, 0).

Without elements, it is not changed by half precision or averaging. fairseq's moving average would
fail at an integer tensor.
"""

PRETRAINED_HERE = "lm_head.dense.weight"
"""Tensor of the masked-LM head, by which a VECO that was pre-trained here is recognised."""

LAYOUT_ENTRY = "encoder_layout"
"""Option in checkpoints of the package's own encoder models: the layout."""
LANGUAGES_ENTRY = "encoder_languages"
"""Option in the same checkpoints: the languages in the order of their rows."""


@dataclass(frozen=True)
class StackLayout:
    """Sizes and wiring of a stack of transformer layers.

    Attributes:
        max_positions: usable positions, i.e. the longest input in tokens.
        padding_idx: row of ``<pad>``; the first position has the row after it.
        normalize_before: True for layer norms before the blocks (pre-norm), False for after them.
        layernorm_embedding: a layer norm follows the embedding.
        learned_positions: True for a table of positions, False for sinusoids.
        scale_embedding: token embeddings are multiplied by the square root of ``embed_dim``.
        activation: fairseq's name of the activation of the feed-forward blocks.
        epsilon: epsilon of every layer norm.
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
    """Sizes and wiring of an encoder; a pre-norm one has a norm after its last layer.

    Attributes:
        family: one of :data:`FAMILIES`.
        eos_idx: row of ``</s>``.
        segments: rows of the segment (token type) embedding; 0 if there is none.
    """

    family: str = "xlmr"
    eos_idx: int = 2
    segments: int = 0


@dataclass(frozen=True)
class CausalLMLayout(StackLayout):
    """Sizes and wiring of a causal language model.

    Attributes:
        final_norm: a layer norm follows the last layer.
        tied: the output projection is the token embedding.
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
"""Family -> fields of its encoders that differ from the defaults of :class:`EncoderLayout`."""

EPSILON_OPTION = "layer_norm_epsilon"
"""Option in checkpoints of masked LMs: epsilon of their layer norms."""

SIZES = ("vocab_size", "layers", "embed_dim", "ffn_dim", "heads", "max_positions")


def size_options(side: str, positions: str) -> Dict[str, str]:
    """Map the sizes of one side of a model to fairseq's options.

    Args:
        side: ``encoder`` or ``decoder``.
        positions: fairseq's option of the longest input.
    """
    return {
        "layers": f"{side}_layers",
        "embed_dim": f"{side}_embed_dim",
        "ffn_dim": f"{side}_ffn_embed_dim",
        "heads": f"{side}_attention_heads",
        "max_positions": positions,
    }


def family_layout(family: str, **sizes: Any) -> EncoderLayout:
    """Return the layout of an encoder.

    Args:
        family: one of :data:`FAMILIES`, whose usual wiring is filled in.
        sizes: fields of :class:`EncoderLayout`: its sizes, and wiring other than the family's.
    """
    if family not in FAMILIES:
        raise ValueError(f"encoder family {family!r} is unknown; valid: {', '.join(FAMILIES)}")
    return EncoderLayout(family=family, **{**FAMILIES[family], **sizes})


def layout_from(entry: Mapping[str, Any], origin: str) -> EncoderLayout:
    """Check and return a layout that a checkpoint stores.

    Args:
        entry: fields of :class:`EncoderLayout`, as the option :data:`LAYOUT_ENTRY` holds them.
        origin: name of the file, for messages.

    Raises:
        CheckpointError: fields are missing, unknown or of another type.
    """
    try:
        layout = family_layout(**entry)
    except (TypeError, ValueError) as error:
        message = f"{origin}: its encoder_layout: {error}; valid: fields of EncoderLayout"
        raise CheckpointError(message) from error
    for field in fields(layout):
        setting, kind = getattr(layout, field.name), cast(type, field.type)
        if not isinstance(setting, (int, float) if kind is float else kind):
            problem = f"{field.name} = {setting!r}, expected {kind.__name__}"
            raise CheckpointError(f"{origin}: its encoder_layout has {problem}")
    return layout


def epsilon_problems(options: Mapping[str, Any], name: str) -> List[str]:
    """Describe the epsilon of layer norms in option ``name`` if it is unusable; else return []."""
    epsilon = options.get(name)
    is_usable = epsilon is None or isinstance(epsilon, (int, float)) and 0 < epsilon < 1
    return [] if is_usable else [f"{name} = {epsilon!r}, expected a small number above 0"]


def expected_shapes(layout: StackLayout) -> Dict[str, Tuple[int, ...]]:
    """Return the shape of every tensor of an encoder or causal language model."""
    width, inner = layout.embed_dim, layout.ffn_dim
    shapes: Dict[str, Tuple[int, ...]] = {WORDS: (layout.vocab_size, width)}
    has_final_norm = layout.normalize_before
    if layout.learned_positions:
        shapes[POSITIONS] = (layout.max_positions + layout.padding_idx + 1, width)
    if isinstance(layout, EncoderLayout) and layout.segments:
        shapes["segment_embeddings.weight"] = (layout.segments, width)
    if isinstance(layout, CausalLMLayout):
        has_final_norm = layout.final_norm
        if not layout.tied:
            shapes["output_projection.weight"] = (layout.vocab_size, width)
    if layout.layernorm_embedding:
        shapes.update(_norm_shapes("layernorm_embedding", width))
    if has_final_norm:
        shapes.update(_norm_shapes("layer_norm", width))
    block = {**attention_shapes("self_attn", width), **_norm_shapes("final_layer_norm", width)}
    block.update({"fc1.weight": (inner, width), "fc1.bias": (inner,)})
    block.update({"fc2.weight": (width, inner), "fc2.bias": (width,)})
    for layer in range(layout.layers):
        shapes.update({f"layers.{layer}.{name}": shape for name, shape in block.items()})
    return shapes


def attention_shapes(name: str, width: int) -> Dict[str, Tuple[int, ...]]:
    """Return the shapes of an attention block and of its layer norm."""
    shapes = _norm_shapes(f"{name}_layer_norm", width)
    for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
        shapes[f"{name}.{projection}.weight"] = (width, width)
        shapes[f"{name}.{projection}.bias"] = (width,)
    return shapes


def _norm_shapes(name: str, width: int) -> Dict[str, Tuple[int, ...]]:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def masked_lm_shapes(sizes: Mapping[str, int]) -> Dict[str, Tuple[int, ...]]:
    """Return the shapes of a masked LM of these sizes, without the tied ``lm_head.weight``."""
    stack = expected_shapes(family_layout("xlmr", **sizes))
    shapes = {f"sentence_encoder.{name}": shape for name, shape in stack.items()}
    width = sizes["embed_dim"]
    shapes.update({"lm_head.dense.weight": (width, width), "lm_head.dense.bias": (width,)})
    shapes.update(_norm_shapes("lm_head.layer_norm", width))
    return {**shapes, "lm_head.bias": (sizes["vocab_size"],)}
