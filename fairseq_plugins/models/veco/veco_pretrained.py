"""Filling a VECO from a masked LM: everything but cross-attention; every tensor has a source, which the log names."""

import logging
from typing import Any

from ...checkpoints.fitting import Filler, layer_sources
from ...checkpoints.loading import LoadReport
from ...checkpoints.pretrained import PretrainedFile
from ...checkpoints.readers import read_masked_lm
from ...checkpoints.vocabulary import MASK
from ...common.fit_options import check_sizes, fit_options, side_sizes
from .dictionary_map import cut_rows, kept_entries
from .layer_choice import LayerChoice

logger = logging.getLogger(__name__)

_HEAD = ("lm_head.bias", *(f"lm_head.{part}.{kind}" for part in ("dense", "layer_norm") for kind in ("weight", "bias")))
_CROSS_ATTENTION = (r"decoder\.layers\.\d+\.encoder_attn(?:_layer_norm)?\..*",)


def fill(model: Any, args: Any, path: str) -> LoadReport:
    """Fill ``model``, a VECO that translates or pre-trains, prepared and at random, from the masked LM of ``--init-from-mlm``.

    Returns what became of every tensor of the model. Raises ValueError: sizes, positions, dictionary, its map or layers that do
    not fit.
    """
    origin = f"--init-from-mlm {path}"
    found = read_masked_lm(path, args.encoder_attention_heads)
    _check(found, args, model.choice, origin)
    stack, choice = model.choice.stack, model.choice
    last = tuple(range(stack - args.decoder_layers, stack))
    sources = layer_sources(found, "encoder", choice.encoder)
    sources.update(layer_sources(found, "decoder", last if choice.decoder is None else choice.decoder))
    if hasattr(model, "lm_head"):
        sources.update({name: name for name in _HEAD})
        # What is tied has one source.
        sources = {name: source for name, source in sources.items() if not name.startswith("decoder.layers.")}
    tensors = {name: found.tensors[source] for name, source in sources.items()}
    used = set(sources.values())
    unused = LoadReport((), dropped=tuple(name for name in found.tensors if name not in used))
    filler, kept = Filler(model, tensors, fit_options(args), origin), model.kept_rows
    for side in ("encoder", "decoder"):
        filler.check_dictionary(side, found.entries if kept is None else kept_entries(found.entries, kept, origin))
        if kept is None:
            filler.drop_mask_row(side, found.mask_row)
        else:
            name, dictionary = f"{side}.embed_tokens.weight", getattr(model, side).dictionary
            mask_at = dictionary.index(MASK) if MASK in dictionary else None
            tensors[name], filler.changes[name] = cut_rows(tensors[name], kept, mask_at, name, origin, found.mask_row)
    report = filler.load(sources, _CROSS_ATTENTION)
    left = unused.summary().splitlines()[-1]
    logger.info("%s: random: cross-attention of %d layers; of the file %s", origin, args.decoder_layers, left)
    return report


def _check(found: PretrainedFile, args: Any, choice: LayerChoice, origin: str) -> None:
    """Sizes of the file against those of the model; the stack has as many layers as the file."""
    if found.sizes["layers"] != choice.stack:
        raise ValueError(
            f"{origin} has {found.sizes['layers']} layers; --encoder-layers {choice.stack}: valid is as many "
            "(--keep-encoder-layers takes some of them)"
        )
    check_sizes(side_sizes(found.sizes, "encoder", "decoder"), args, origin)
    if choice.decoder is None and args.decoder_layers > choice.stack:
        raise ValueError(
            f"{origin} has {choice.stack} layers; --decoder-layers {args.decoder_layers}: valid: at most as many"
        )
