"""Fills a VECO from a masked LM, all but cross-attention; every tensor has a logged source."""

import logging
from typing import Any, Dict

from ...checkpoints.fitting import Filler, layer_sources
from ...checkpoints.loading import LoadReport
from ...checkpoints.masked_lm import read_masked_lm
from ...checkpoints.pretrained import PretrainedFile
from ...checkpoints.vocabulary import MASK
from ...common.fit_options import fit_options, side_sizes
from ...common.options import check_sizes
from .dictionary_map import cut_rows, kept_entries
from .layer_choice import LayerChoice

logger = logging.getLogger(__name__)

_HEAD_MODULES = ("lm_head.dense", "lm_head.layer_norm")
_HEAD = (
    "lm_head.bias",
    *(f"{name}.{kind}" for name in _HEAD_MODULES for kind in ("weight", "bias")),
)
_CROSS_ATTENTION = (r"decoder\.layers\.\d+\.encoder_attn(?:_layer_norm)?\..*",)
_SIDES = ("encoder", "decoder")


def fill(model: Any, args: Any, path: str) -> LoadReport:
    """Fill a prepared VECO at random from the masked LM of ``--init-from-mlm``.

    Args:
        model: that translates or pre-trains.

    Returns:
        account of every tensor of the model.

    Raises:
        ValueError: sizes, positions, dictionary, its map or layers that do not fit.
    """
    origin = f"--init-from-mlm {path}"
    masked_lm = read_masked_lm(path, args.encoder_attention_heads)
    _check(masked_lm, args, model.choice, origin)
    sources = _find_sources(model, args, masked_lm)
    tensors = {name: masked_lm.tensors[source] for name, source in sources.items()}
    filler = Filler(model, tensors, fit_options(args), origin)
    for side in _SIDES:
        _fit_dictionary(filler, side, masked_lm)
    report = filler.load(sources, _CROSS_ATTENTION)
    unused = [name for name in masked_lm.tensors if name not in set(sources.values())]
    summary = LoadReport((), dropped=tuple(unused)).summary().splitlines()[-1]
    text = "%s: random: cross-attention of %d layers; of the file %s"
    logger.info(text, origin, args.decoder_layers, summary)
    return report


def _check(masked_lm: PretrainedFile, args: Any, choice: LayerChoice, origin: str) -> None:
    """Compare the sizes of the file with those of the model, whose stack has as many layers."""
    layers = masked_lm.sizes["layers"]
    if layers != choice.stack:
        valid = "valid is as many (--keep-encoder-layers takes some of them)"
        raise ValueError(f"{origin} has {layers} layers; --encoder-layers {choice.stack}: {valid}")
    check_sizes(side_sizes(masked_lm.sizes, *_SIDES), args, origin)
    if choice.decoder is None and args.decoder_layers > layers:
        valid = f"--decoder-layers {args.decoder_layers}: valid: at most as many"
        raise ValueError(f"{origin} has {layers} layers; {valid}")


def _find_sources(model: Any, args: Any, masked_lm: PretrainedFile) -> Dict[str, str]:
    """Map names in the model to names in the masked LM; what is tied has one source."""
    choice, stack = model.choice, model.choice.stack
    last = tuple(range(stack - args.decoder_layers, stack))
    decoder = last if choice.decoder is None else choice.decoder
    pretrains = hasattr(model, "lm_head")
    sources = layer_sources(masked_lm, "encoder", choice.encoder)
    # In pre-training the decoder's layers are the encoder's.
    sources.update(layer_sources(masked_lm, "decoder", () if pretrains else decoder))
    if pretrains:
        sources.update({name: name for name in _HEAD})
    return sources


def _fit_dictionary(filler: Filler, side: str, masked_lm: PretrainedFile) -> None:
    """Check the dictionary of a side, and drop the rows that it does not have."""
    rows = filler.model.kept_rows
    if rows is None:
        filler.check_dictionary(side, masked_lm.entries)
        filler.drop_mask_row(side, masked_lm.mask_row)
        return
    origin, dictionary = filler.origin, getattr(filler.model, side).dictionary
    filler.check_dictionary(side, kept_entries(masked_lm.entries, rows, origin))
    name = f"{side}.embed_tokens.weight"
    index = dictionary.index(MASK) if MASK in dictionary else None
    tensor = filler.tensors[name]
    fitted, change = cut_rows(tensor, rows, index, name, origin, masked_lm.mask_row)
    filler.tensors[name], filler.changes[name] = fitted, change
