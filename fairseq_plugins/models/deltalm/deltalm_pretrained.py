"""Fills a DeltaLM from a DeltaLM file or a masked LM; the source of every tensor is logged."""

from typing import Any, Dict, Tuple

from torch import Tensor

from ...checkpoints.bart import read_deltalm
from ...checkpoints.fitting import Filler, layer_sources
from ...checkpoints.loading import LoadReport
from ...checkpoints.masked_lm import read_masked_lm
from ...checkpoints.pretrained import PretrainedFile
from ...common.fit_options import fit_options, side_sizes
from ...common.options import check_sizes, flag

_ENCODER_PARTS = ("self_attn", "self_attn_layer_norm", "fc1", "fc2", "final_layer_norm")
_BOTTOM = ("self_attn", "self_attn_layer_norm", "fc3", "fc4", "ffn_layer_norm")
_TOP = ("encoder_attn", "encoder_attn_layer_norm", "fc1", "fc2", "final_layer_norm")
_CROSS_ATTENTION = (r"decoder\.layers\.\d+\.encoder_attn(?:_layer_norm)?\..*",)
_SIDES = ("encoder", "decoder")


def fill(model: Any, args: Any, option: str) -> LoadReport:
    """Fill a model at random from the file of ``option``.

    Args:
        option: ``pretrained_deltalm_checkpoint`` or ``init_from_mlm``.

    Returns:
        account of every tensor of the model.

    Raises:
        ValueError: sizes, positions, dictionary or layers that do not fit.
    """
    path = getattr(args, option)
    origin = f"{flag(option)} {path}"
    if option == "init_from_mlm":
        return _fill_from_masked_lm(model, args, path, origin)
    pretrained = read_deltalm(path)
    sizes = sizes_of(pretrained)
    _check_block(pretrained, str(args.decoder_block), origin)
    check_sizes(sizes, args, origin)
    filler = Filler(model, dict(pretrained.tensors), fit_options(args), origin)
    for side in _SIDES:
        filler.check_dictionary(side, pretrained.entries)
    return filler.load(pretrained.sources)


def _fill_from_masked_lm(model: Any, args: Any, path: str, origin: str) -> LoadReport:
    masked_lm = read_masked_lm(path, args.encoder_attention_heads)
    sources = from_masked_lm(masked_lm, args, origin)
    tensors: Dict[str, Tensor] = {name: masked_lm.tensors[sources[name]] for name in sources}
    filler = Filler(model, tensors, fit_options(args), origin)
    for side in _SIDES:
        filler.check_dictionary(side, masked_lm.entries)
        filler.drop_mask_row(side, masked_lm.mask_row)
    # A vanilla block has nothing to start its cross-attention from.
    random: Tuple[str, ...] = _CROSS_ATTENTION if str(args.decoder_block) == "vanilla" else ()
    return filler.load(sources, random)


def _check_block(pretrained: PretrainedFile, block: str, origin: str) -> None:
    is_interleaved = any(".fc3." in name for name in pretrained.tensors)
    kind = "interleaved" if is_interleaved else "vanilla"
    if (block == "vanilla") == is_interleaved:
        raise ValueError(f"{origin} has {kind} decoder blocks; give --decoder-block {kind}")


def sizes_of(pretrained: PretrainedFile) -> Dict[str, int]:
    """Return option -> value of a DeltaLM file, which does not state its heads."""
    options = {"layers": "layers", "embed_dim": "embed_dim", "ffn_dim": "ffn_embed_dim"}
    sizes = {side: pretrained.stack_sizes(f"{side}.") for side in _SIDES}
    return {f"{side}_{options[size]}": sizes[side][size] for side in _SIDES for size in options}


def from_masked_lm(masked_lm: PretrainedFile, args: Any, origin: str) -> Dict[str, str]:
    """Map every tensor of a DeltaLM to the tensor of a masked LM that it starts as.

    Encoder layer l is layer l. Decoder block b takes self-attention and bottom network from layer
    2b, cross-attention and top network from layer 2b + 1 (both from 0; "odd" and "even" in the
    paper, which counts from 1). A vanilla layer b takes self-attention and network of layer b.
    Embeddings and norms go along. The masked-LM head is left out: DeltaLM projects with the
    embedding alone.

    Raises:
        ValueError: an odd number of layers, or sizes other than the model's.

    Source: DeltaLM section 2.2, "Initialization".
    """
    is_vanilla, layers = str(args.decoder_block) == "vanilla", masked_lm.sizes["layers"]
    if layers % 2 and not is_vanilla:
        valid = "interleaving takes two a decoder block: valid is an even number"
        raise ValueError(f"{origin} has {layers} layers; {valid}")
    blocks = args.decoder_layers if is_vanilla else layers // 2
    sizes = {"encoder_layers": layers, "decoder_layers": blocks}
    check_sizes({**sizes, **side_sizes(masked_lm.sizes, *_SIDES)}, args, origin)
    if blocks > layers:
        valid = f"--decoder-layers {blocks}; valid: at most as many"
        raise ValueError(f"{origin} has {layers} layers, {valid}")
    encoder = layer_sources(masked_lm, "encoder", range(layers))
    if is_vanilla:
        return {**encoder, **layer_sources(masked_lm, "decoder", range(blocks))}
    decoder = layer_sources(masked_lm, "decoder", ())
    return {**encoder, **decoder, **_interleaved_sources(masked_lm, layers)}


def _interleaved_sources(masked_lm: PretrainedFile, layers: int) -> Dict[str, str]:
    sources = {}
    for layer in range(layers):
        parts = dict(zip(_ENCODER_PARTS, _TOP if layer % 2 else _BOTTOM))
        start = f"sentence_encoder.layers.{layer}."
        for name in masked_lm.tensors:
            if name.startswith(start):
                part, _, suffix = name[len(start) :].partition(".")
                sources[f"decoder.layers.{layer // 2}.{parts[part]}.{suffix}"] = name
    return sources
