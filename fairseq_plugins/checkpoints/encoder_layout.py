"""What the shapes of an encoder do not tell: how its pieces are put together, by the family it comes from."""

from dataclasses import dataclass, fields, replace
from typing import Any, Dict, Mapping, Tuple

from .errors import CheckpointError


@dataclass(frozen=True)
class EncoderLayout:
    """Sizes and wiring of a transformer encoder in fairseq's names.

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
        scale_embedding: token embeddings are multiplied with the square root of C.
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
    """The usual layout of a family, at these sizes (and, where named, otherwise wired).

    Raises:
        ValueError: an unknown family.
    """
    if family not in FAMILIES:
        raise ValueError(f"encoder family {family!r} is unknown; valid: {', '.join(FAMILIES)}")
    return EncoderLayout(family=family, **{**FAMILIES[family], **sizes})


def layout_from(stored: Mapping[str, Any], origin: str) -> EncoderLayout:
    """The layout that a checkpoint's options hold.

    Raises:
        CheckpointError: fields are missing, unknown or of another type.
    """
    known = {one.name: getattr(one.type, "__name__", str(one.type)) for one in fields(EncoderLayout)}
    unknown = sorted(set(map(str, stored)) - set(known))
    missing = [name for name in ("family", *SIZES) if name not in stored]
    if unknown or missing:
        raise CheckpointError(
            f"{origin}: its encoder_layout lacks {', '.join(missing) or 'nothing'} and has unknown "
            f"{', '.join(unknown) or 'nothing'}; valid: {', '.join(known)}"
        )
    kinds = {"str": (str,), "int": (int,), "bool": (bool,), "float": (int, float)}
    for name, value in stored.items():
        if not isinstance(value, kinds[known[name]]):
            raise CheckpointError(f"{origin}: its encoder_layout has {name} = {value!r}, expected {known[name]}")
    return family_layout(**dict(stored))


def with_rows(layout: EncoderLayout, vocab_size: int) -> EncoderLayout:
    """The same layout with another number of embedding rows."""
    return replace(layout, vocab_size=vocab_size)


def expected_shapes(layout: EncoderLayout) -> Dict[str, Tuple[int, ...]]:
    """Name -> shape of every tensor of an encoder of this layout, in the names of fairseq's ``TransformerEncoder``."""
    width, inner = layout.embed_dim, layout.ffn_dim
    shapes: Dict[str, Tuple[int, ...]] = {"embed_tokens.weight": (layout.vocab_size, width)}
    if layout.learned_positions:
        shapes["embed_positions.weight"] = (layout.max_positions + layout.padding_idx + 1, width)
    if layout.segments:
        shapes["segment_embeddings.weight"] = (layout.segments, width)
    norms = ["layernorm_embedding"] * layout.layernorm_embedding + ["layer_norm"] * layout.normalize_before
    block: Dict[str, Tuple[int, ...]] = {"fc1.weight": (inner, width), "fc1.bias": (inner,)}
    block.update({"fc2.weight": (width, inner), "fc2.bias": (width,)})
    for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
        block[f"self_attn.{projection}.weight"] = (width, width)
        block[f"self_attn.{projection}.bias"] = (width,)
    for norm in ("self_attn_layer_norm", "final_layer_norm"):
        block[f"{norm}.weight"] = block[f"{norm}.bias"] = (width,)
    for norm in norms:
        shapes[f"{norm}.weight"] = shapes[f"{norm}.bias"] = (width,)
    for layer in range(layout.layers):
        shapes.update({f"layers.{layer}.{name}": shape for name, shape in block.items()})
    return shapes
