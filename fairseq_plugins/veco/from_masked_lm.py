"""Start of either model from a masked LM (XLM-R): everything but cross-attention (section 3)."""

import logging
from typing import Any, Dict

from ..checkpoints.fitting import Filler, layer_sources
from ..checkpoints.loading import LoadReport
from ..checkpoints.masked_lm import has_head
from ..checkpoints.pretrained import PretrainedFile
from ..common.fit_options import CROSS_ATTENTION, fit_options, read_start, side_sizes
from ..common.options import SIDES, check_sizes
from .config import LayerChoice
from .dictionary_map import cut_entries, cut_rows

logger = logging.getLogger(__name__)

_HEAD = ("bias", "dense.weight", "dense.bias", "layer_norm.weight", "layer_norm.bias")


def fill(model: Any, args: Any, path: str) -> LoadReport:
    """Fill a VECO from the masked LM of ``--init-from-mlm``; cross-attention stays random.

    Args:
        model: for translation or pre-training, with random weights.
        args: options of the stock model.

    Returns:
        Report that names the source of every tensor.

    Raises:
        ValueError: sizes, positions, dictionary, its map or layers that do not fit.

    Source: VECO section 3, "initialized by XLM-R".
    """
    origin = f"--init-from-mlm {path}"
    masked_lm = read_start(path, args, origin)
    _check_masked_lm(masked_lm, args, model.choice, origin)
    sources = _find_sources(model, args, masked_lm)
    tensors = {name: masked_lm.tensors[source] for name, source in sources.items()}
    filler = Filler(model, tensors, fit_options(args), origin)
    if model.kept_rows is None:
        filler.fit_dictionaries(masked_lm.entries, masked_lm.mask_row)
    else:
        for side in SIDES:
            _cut_dictionary(filler, side, masked_lm)
    random = [CROSS_ATTENTION]
    if hasattr(model, "lm_head") and not has_head(masked_lm):
        random.append(r"lm_head\..*")
        logger.warning("%s has no head of a masked LM: pre-training starts with a new one", origin)
    report = filler.load(sources, random)
    unused = [name for name in masked_lm.tensors if name not in set(sources.values())]
    summary = LoadReport((), dropped=tuple(unused)).summary().splitlines()[-1]
    text = "%s: random: cross-attention of %d layers; of the file %s"
    logger.info(text, origin, args.decoder_layers, summary)
    return report


def _check_masked_lm(
    masked_lm: PretrainedFile, args: Any, choice: LayerChoice, origin: str
) -> None:
    """Raise ValueError unless the file has the sizes and layers of the model's pretrained stack."""
    layers = masked_lm.sizes["layers"]
    if layers != choice.stack:
        valid = "valid is as many (--keep-encoder-layers takes some of them)"
        raise ValueError(f"{origin} has {layers} layers; --encoder-layers {choice.stack}: {valid}")
    check_sizes(side_sizes(masked_lm.sizes, *SIDES), args, origin)
    if choice.decoder is None and args.decoder_layers > layers:
        valid = f"--decoder-layers {args.decoder_layers}: valid: at most as many"
        raise ValueError(f"{origin} has {layers} layers; {valid}")


def _find_sources(model: Any, args: Any, masked_lm: PretrainedFile) -> Dict[str, str]:
    """Map names in the model to names in the masked LM.

    In pre-training the layers of both sides are the same tensors, which the encoder's names fill.
    """
    choice: LayerChoice = model.choice
    decoder = choice.decoder
    if decoder is None:
        decoder = tuple(range(choice.stack - args.decoder_layers, choice.stack))
    if hasattr(model, "lm_head"):
        decoder = ()
    sources = layer_sources(masked_lm, "encoder", choice.encoder)
    sources.update(layer_sources(masked_lm, "decoder", decoder))
    if hasattr(model, "lm_head") and has_head(masked_lm):
        sources.update({f"lm_head.{name}": f"lm_head.{name}" for name in _HEAD})
    return sources


def _cut_dictionary(filler: Filler, side: str, masked_lm: PretrainedFile) -> None:
    """Check the dictionary of a side, and drop the rows that the map leaves out."""
    kept_rows = filler.model.kept_rows
    filler.check_dictionary(side, cut_entries(masked_lm.entries, kept_rows, filler.origin))
    cut_rows(filler, f"{side}.embed_tokens.weight", kept_rows, masked_lm.mask_row)
