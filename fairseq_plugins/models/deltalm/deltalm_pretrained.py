"""Filling a DeltaLM from a DeltaLM file or from a masked LM; every tensor has a source, which the log names."""

from typing import Any, Dict, List, Tuple

from torch import Tensor

from ...checkpoints.deltalm import read_deltalm
from ...checkpoints.fitting import EMBEDDINGS, Fit, check_dictionary, check_rows, check_sizes, sizes_of_sides
from ...checkpoints.loading import LoadReport
from ...checkpoints.pipeline import PretrainedFile
from ...checkpoints.xlmr import read_masked_lm

_ENCODER_PARTS = ("self_attn", "self_attn_layer_norm", "fc1", "fc2", "final_layer_norm")
_CROSS_ATTENTION = (r"decoder\.layers\.\d+\.encoder_attn(?:_layer_norm)?\..*",)


def fill(model: Any, args: Any, option: str) -> LoadReport:
    """Fill ``model``, which is at random, from the file that ``args`` names.

    Args:
        option: ``pretrained_deltalm_checkpoint`` or ``init_from_mlm``.

    Returns what became of every tensor of the model; ``reasons`` names the source of each.

    Raises ValueError: sizes, positions, dictionary or layers that do not fit.
    """
    path, vanilla = getattr(args, option), str(args.decoder_block) == "vanilla"
    origin = f"--{option.replace('_', '-')} {path}"
    from_mlm = option == "init_from_mlm"
    if from_mlm:
        masked_lm = read_masked_lm(path, default_heads=args.encoder_attention_heads)
        check_rows(masked_lm, path)
        tensors, sources = from_masked_lm(masked_lm, args, origin)
    else:
        found = read_deltalm(path)
        if vanilla == any(".fc3." in name for name in found.tensors):
            kind = "interleaved" if vanilla else "vanilla"
            raise ValueError(f"{origin} has {kind} decoder blocks; give --decoder-block {kind}")
        check_sizes(found.sizes, args, origin)
        tensors, sources = found.tensors, found.sources
    fit = Fit(model, args.embedding_mismatch, origin)
    for side in ("encoder", "decoder"):
        entries = check_dictionary(path, getattr(model, side).dictionary, origin)
        if from_mlm:
            fit.leave_mask_out(side, tensors, entries)
    return fit.load(tensors, sources, _CROSS_ATTENTION if from_mlm and vanilla else ())


def from_masked_lm(found: PretrainedFile, args: Any, origin: str) -> Tuple[Dict[str, Tensor], Dict[str, str]]:
    """The tensors of a DeltaLM made of those of a masked LM, and the name of each one's source.

    Encoder layer l is layer l. Decoder block b takes self-attention and bottom network from layer 2b, cross-attention and top
    network from layer 2b + 1 (both from 0; "odd" and "even" in the paper, which counts from 1). A vanilla layer b takes
    self-attention and network of layer b. Embeddings and norms go along. The masked-LM head is left out: DeltaLM projects with the
    embedding alone.

    Raises:
        ValueError: an odd number of layers, or sizes other than the model's.

    Source: DeltaLM section 2.2, "Initialization".
    """
    vanilla = str(args.decoder_block) == "vanilla"
    layers = found.sizes["layers"]
    if layers % 2 and not vanilla:
        raise ValueError(
            f"{origin} has {layers} layers; interleaving takes two a decoder block: valid is an even number"
        )
    count = args.decoder_layers if vanilla else layers // 2
    sizes = {"encoder_layers": layers, "decoder_layers": count, **sizes_of_sides(found.sizes, "encoder", "decoder")}
    check_sizes(sizes, args, origin)
    if vanilla and args.decoder_layers > layers:
        raise ValueError(
            f"{origin} has {layers} layers, --decoder-layers {args.decoder_layers}; valid: at most as many"
        )
    sources: Dict[str, str] = {}
    for side in ("encoder", "decoder"):
        for name in EMBEDDINGS:
            sources[f"{side}.{name}"] = f"sentence_encoder.{name}"
    for target, taken in layer_sources(layers, args.decoder_layers, vanilla):
        prefix = f"sentence_encoder.{taken}."
        for name in (name for name in found.tensors if name.startswith(prefix)):
            sources[target + name[len(prefix) :]] = name
    return {name: found.tensors[source] for name, source in sources.items()}, sources


def layer_sources(layers: int, decoder_layers: int, vanilla: bool) -> List[Tuple[str, str]]:
    """Prefixes of the model's tensors and of the masked LM's sub-layers that fill them."""
    pairs = [(f"encoder.layers.{layer}.", f"layers.{layer}") for layer in range(layers)]
    blocks = [(block, f"decoder.layers.{block}.") for block in range(decoder_layers)]
    if vanilla:
        return pairs + [(target, f"layers.{block}") for block, target in blocks]
    bottom = ("self_attn", "self_attn_layer_norm", "fc3", "fc4", "ffn_layer_norm")
    top = ("encoder_attn", "encoder_attn_layer_norm", "fc1", "fc2", "final_layer_norm")
    for block, target in blocks:
        for offset, names in enumerate((bottom, top)):
            pairs += [
                (f"{target}{new}.", f"layers.{2 * block + offset}.{old}") for new, old in zip(names, _ENCODER_PARTS)
            ]
    return pairs
