"""Fill a DeltaLM from a masked LM or a DeltaLM file; the log names the source of every tensor.

The tensors of a file are renamed by one table, fitted to the dictionary and loaded strictly. If
the dictionary has no ``<mask>``, that row of a masked LM is dropped. If the numbers of rows and of
entries still differ, ``--embedding-mismatch`` decides: ``error`` refuses the file, ``extend`` gives
random values to the entries beyond its rows, ``truncate`` drops its last rows.
"""

from typing import Any, Dict, Tuple

from ..checkpoints.bart import read_deltalm
from ..checkpoints.fitting import Filler, layer_sources
from ..checkpoints.loading import LoadReport
from ..checkpoints.pretrained import PretrainedFile
from ..common.fit_options import CROSS_ATTENTION, fit_options, read_start, side_sizes
from ..common.options import SIDES, check_sizes

# Part of an encoder layer -> part of a decoder block. Layer 2b fills the bottom half of block b,
# layer 2b + 1 its top half.
BOTTOM_HALF = {
    "self_attn": "self_attn",
    "self_attn_layer_norm": "self_attn_layer_norm",
    "fc1": "fc3",
    "fc2": "fc4",
    "final_layer_norm": "ffn_layer_norm",
}
TOP_HALF = {
    "self_attn": "encoder_attn",
    "self_attn_layer_norm": "encoder_attn_layer_norm",
    "fc1": "fc1",
    "fc2": "fc2",
    "final_layer_norm": "final_layer_norm",
}


# ---- From a masked LM. ----


def fill_from_masked_lm(model: Any, args: Any, path: str) -> LoadReport:
    """Fill a model with random weights from the masked LM of ``--init-from-mlm``.

    Every tensor is filled, except the cross-attention of ``--decoder-block vanilla``.

    Returns:
        Report that names the source of every tensor.

    Raises:
        ValueError: layers, sizes, positions or a dictionary that do not fit.
    """
    origin = f"--init-from-mlm {path}"
    masked_lm = read_start(path, args, origin)
    sources = from_masked_lm(masked_lm, args, origin)
    tensors = {name: masked_lm.tensors[source] for name, source in sources.items()}
    filler = Filler(model, tensors, fit_options(args), origin)
    filler.fit_dictionaries(masked_lm.entries, masked_lm.mask_row)
    random: Tuple[str, ...] = (CROSS_ATTENTION,) if is_vanilla(args) else ()
    return filler.load(sources, random)


def from_masked_lm(masked_lm: PretrainedFile, args: Any, origin: str) -> Dict[str, str]:
    """Map every tensor of a DeltaLM to the tensor of a masked LM whose values it starts with.

    Encoder layer l takes layer l. Decoder block b takes self-attention and bottom FFN from layer
    2b, cross-attention and top FFN from layer 2b + 1 (counted from 0; "odd" and "even" in the
    paper, which counts from 1). A vanilla layer b takes self-attention and FFN of layer b. Layer
    norms and embeddings are mapped too. The masked-LM head is left out: DeltaLM projects with the
    embedding alone.

    Raises:
        ValueError: an odd number of layers, or sizes other than the model's.

    Source: DeltaLM section 2.2, "Initialization".
    """
    layers = masked_lm.sizes["layers"]
    if layers % 2 and not is_vanilla(args):
        valid = "interleaving takes two a decoder block: valid is an even number"
        raise ValueError(f"{origin} has {layers} layers; {valid}")
    blocks = args.decoder_layers if is_vanilla(args) else layers // 2
    sizes = {"encoder_layers": layers, "decoder_layers": blocks}
    check_sizes({**sizes, **side_sizes(masked_lm.sizes, *SIDES)}, args, origin)
    if blocks > layers:
        valid = f"--decoder-layers {blocks}; valid: at most as many"
        raise ValueError(f"{origin} has {layers} layers, {valid}")
    encoder = layer_sources(masked_lm, "encoder", range(layers))
    if is_vanilla(args):
        return {**encoder, **layer_sources(masked_lm, "decoder", range(blocks))}
    embeddings = layer_sources(masked_lm, "decoder", ())
    return {**encoder, **embeddings, **interleaved_sources(masked_lm, layers)}


def interleaved_sources(masked_lm: PretrainedFile, layers: int) -> Dict[str, str]:
    """Map every tensor of the decoder blocks to a tensor of the masked LM's layers."""
    sources = {}
    for layer in range(layers):
        block, is_top = divmod(layer, 2)
        parts = TOP_HALF if is_top else BOTTOM_HALF
        start = f"sentence_encoder.layers.{layer}."
        for name in masked_lm.tensors:
            if name.startswith(start):
                part, _, suffix = name[len(start) :].partition(".")
                sources[f"decoder.layers.{block}.{parts[part]}.{suffix}"] = name
    return sources


def is_vanilla(args: Any) -> bool:
    """Return True for the stock decoder layer, ``--decoder-block vanilla``."""
    return str(args.decoder_block) == "vanilla"


# ---- From a DeltaLM file. ----


def fill_from_deltalm(model: Any, args: Any, path: str) -> LoadReport:
    """Fill a model from a released file or a checkpoint, ``--pretrained-deltalm-checkpoint``.

    The table of renames is ``checkpoints/bart.py``.

    Returns:
        Report that names the source of every tensor.

    Raises:
        ValueError: decoder blocks, sizes, positions or a dictionary that do not fit.
    """
    origin = f"--pretrained-deltalm-checkpoint {path}"
    pretrained = read_deltalm(path)
    sizes = read_sizes(pretrained)
    is_interleaved = any(".fc3." in name for name in pretrained.tensors)
    if is_interleaved == is_vanilla(args):
        kind = "interleaved" if is_interleaved else "vanilla"
        raise ValueError(f"{origin} has {kind} decoder blocks; give --decoder-block {kind}")
    check_sizes(sizes, args, origin)
    filler = Filler(model, dict(pretrained.tensors), fit_options(args), origin)
    for side in SIDES:
        filler.check_dictionary(side, pretrained.entries)
    return filler.load(pretrained.sources)


def read_sizes(pretrained: PretrainedFile) -> Dict[str, int]:
    """Read the sizes from the tensors' shapes: option -> value. Shapes do not show the heads."""
    sizes = {}
    for side in SIDES:
        stack = pretrained.stack_sizes(f"{side}.")
        sizes[f"{side}_layers"] = stack["layers"]
        sizes[f"{side}_embed_dim"] = stack["embed_dim"]
        sizes[f"{side}_ffn_embed_dim"] = stack["ffn_dim"]
    return sizes
