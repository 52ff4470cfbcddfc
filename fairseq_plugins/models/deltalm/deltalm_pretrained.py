"""Filling a DeltaLM from a DeltaLM file or from a masked LM; every tensor has a source, which the log names."""

from typing import Any, Dict

from ...checkpoints.fitting import Fit, sizes_of_sides, stack_sources
from ...checkpoints.loading import LoadReport
from ...checkpoints.pipeline import DELTALM, PretrainedFile, check_sizes, open_file, read_masked_lm, stack_sizes
from ...common.options import fit_names

_ENCODER_PARTS = ("self_attn", "self_attn_layer_norm", "fc1", "fc2", "final_layer_norm")
_BOTTOM = ("self_attn", "self_attn_layer_norm", "fc3", "fc4", "ffn_layer_norm")
_TOP = ("encoder_attn", "encoder_attn_layer_norm", "fc1", "fc2", "final_layer_norm")
_CROSS_ATTENTION = (r"decoder\.layers\.\d+\.encoder_attn(?:_layer_norm)?\..*",)


def fill(model: Any, args: Any, option: str) -> LoadReport:
    """Fill ``model``, which is at random, from the file of ``option``: ``pretrained_deltalm_checkpoint`` or ``init_from_mlm``.

    Returns what became of every tensor of the model. Raises ValueError: sizes, positions, dictionary or layers that do not fit.
    """
    path, vanilla, from_mlm = getattr(args, option), str(args.decoder_block) == "vanilla", option == "init_from_mlm"
    origin = f"--{option.replace('_', '-')} {path}"
    if from_mlm:
        found = read_masked_lm(path, args.encoder_attention_heads)
        sources = from_masked_lm(found, args, origin)
    else:
        found = open_file(path, DELTALM)
        sizes = sizes_of(found)
        if vanilla == any(".fc3." in name for name in found.tensors):
            kind = "interleaved" if vanilla else "vanilla"
            raise ValueError(f"{origin} has {kind} decoder blocks; give --decoder-block {kind}")
        check_sizes(sizes, args, origin)
        sources = {name: name for name in found.tensors}
    tensors = {name: found.tensors[source] for name, source in sources.items()}
    fit = Fit(model, fit_names(args), origin)
    for side in ("encoder", "decoder"):
        fit.check_beside(side, found.entries)
        if from_mlm:
            fit.leave_mask_out(side, tensors, found.mask_row)
    names = sources if from_mlm else found.sources
    return fit.load(tensors, names, _CROSS_ATTENTION if from_mlm and vanilla else ())


def sizes_of(found: PretrainedFile) -> Dict[str, int]:
    """Option of the model -> value, of a DeltaLM file, which does not tell its heads."""
    names = {"layers": "layers", "embed_dim": "embed_dim", "ffn_dim": "ffn_embed_dim"}
    sizes = {side: stack_sizes(found, f"{side}.") for side in ("encoder", "decoder")}
    return {f"{side}_{option}": sizes[side][size] for side in sizes for size, option in names.items()}


def from_masked_lm(found: PretrainedFile, args: Any, origin: str) -> Dict[str, str]:
    """Name in a DeltaLM -> name in a masked LM of the tensor that it starts as.

    Encoder layer l is layer l. Decoder block b takes self-attention and bottom network from layer 2b, cross-attention and top
    network from layer 2b + 1 (both from 0; "odd" and "even" in the paper, which counts from 1). A vanilla layer b takes
    self-attention and network of layer b. Embeddings and norms go along. The masked-LM head is left out: DeltaLM projects with the
    embedding alone.

    Raises ValueError: an odd number of layers, or sizes other than the model's.

    Source: DeltaLM section 2.2, "Initialization".
    """
    vanilla, layers = str(args.decoder_block) == "vanilla", found.sizes["layers"]
    if layers % 2 and not vanilla:
        raise ValueError(
            f"{origin} has {layers} layers; interleaving takes two a decoder block: valid is an even number"
        )
    count = args.decoder_layers if vanilla else layers // 2
    sizes = {"encoder_layers": layers, "decoder_layers": count, **sizes_of_sides(found.sizes, "encoder", "decoder")}
    check_sizes(sizes, args, origin)
    if count > layers:
        raise ValueError(f"{origin} has {layers} layers, --decoder-layers {count}; valid: at most as many")
    sources = {
        **stack_sources(found, "encoder", range(layers)),
        **stack_sources(found, "decoder", range(count) if vanilla else ()),
    }
    for layer in range(0 if vanilla else layers):
        parts = dict(zip(_ENCODER_PARTS, _TOP if layer % 2 else _BOTTOM))
        start = f"sentence_encoder.layers.{layer}."
        for name in (name for name in found.tensors if name.startswith(start)):
            part, _, rest = name[len(start) :].partition(".")
            sources[f"decoder.layers.{layer // 2}.{parts[part]}.{rest}"] = name
    return sources
