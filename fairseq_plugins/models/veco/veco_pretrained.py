"""Filling a VECO from a masked LM: everything but cross-attention; every tensor has a source, which the log names."""

import logging
from pathlib import Path
from typing import Any, Dict, Optional, Sequence, Tuple

from torch import Tensor

from ...checkpoints.dictionaries import MASK, read_dictionary
from ...checkpoints.fitting import EMBEDDINGS, Fit, check_dictionary, check_sizes, fit_words, load_fitted
from ...checkpoints.loading import LoadReport
from ...checkpoints.pipeline import PretrainedFile
from ...checkpoints.xlmr import read_masked_lm
from .dictionary_map import cut_rows
from .layer_choice import LayerChoice

logger = logging.getLogger(__name__)

HEAD_BIAS = "lm_head.bias"
_HEAD = (
    "lm_head.dense.weight",
    "lm_head.dense.bias",
    "lm_head.layer_norm.weight",
    "lm_head.layer_norm.bias",
    HEAD_BIAS,
)
_CROSS_ATTENTION = (r"decoder\.layers\.\d+\.encoder_attn(?:_layer_norm)?\..*",)


def fill(model: Any, args: Any, path: str) -> LoadReport:
    """Fill ``model`` from a masked LM.

    Args:
        model: a VECO that translates or pre-trains, randomly initialised and prepared.
        args: its options.
        path: of ``--init-from-mlm``.

    Returns:
        What became of every tensor of the model; ``reasons`` names the source of each.

    Raises:
        ValueError: sizes, positions, dictionary, its map or layers that do not fit.
    """
    origin = f"--init-from-mlm {path}"
    found = read_masked_lm(path, default_heads=args.encoder_attention_heads)
    found.check_rows(path, mask_anywhere=True)
    _check(found, args, model.choice, origin)
    sources = _sources(found, model.choice, args.decoder_layers)
    if hasattr(model, "lm_head"):
        sources.update({name: name for name in _HEAD})
        # What is tied has one source.
        sources = {name: source for name, source in sources.items() if not name.startswith("decoder.layers.")}
    tensors = {name: found.tensors[source] for name, source in sources.items()}
    fit, mask_row = Fit(model, args, origin), _mask_row(found, origin)
    for side, dictionary in (("encoder", model.encoder.dictionary), ("decoder", model.decoder.dictionary)):
        entries = check_dictionary(path, dictionary, origin, model.kept_rows)
        if model.kept_rows is None:
            fit.leave_mask_out(side, tensors, dictionary, entries, mask_row, found.mask_last)
        else:
            _cut(f"{side}.embed_tokens.weight", tensors, dictionary, model.kept_rows, mask_row, fit)
    tensors = {name: fit.rows(name, tensor) for name, tensor in tensors.items()}
    if HEAD_BIAS in tensors and tensors[HEAD_BIAS].shape != fit.targets[HEAD_BIAS].shape:
        policy = str(args.embedding_mismatch)
        tensors[HEAD_BIAS], fit.changes[HEAD_BIAS] = fit_words(
            tensors[HEAD_BIAS], fit.targets[HEAD_BIAS], policy, origin
        )
    fit.tie(tensors)
    sources.setdefault("decoder.output_projection.weight", sources["decoder.embed_tokens.weight"])
    report = load_fitted(model, tensors, origin, sources, fit.changes, _CROSS_ATTENTION)
    logger.info(
        "%s: random: cross-attention of %d layers; of the file %s", origin, args.decoder_layers, _left(found, sources)
    )
    return report


def _check(found: PretrainedFile, args: Any, choice: LayerChoice, origin: str) -> None:
    """Sizes of the file against those of the model; the stack has as many layers as the file.

    Raises:
        ValueError: naming options and values.
    """
    if found.sizes["layers"] != choice.stack:
        raise ValueError(
            f"{origin} has {found.sizes['layers']} layers; --encoder-layers {choice.stack}: valid is as many "
            "(--keep-encoder-layers takes some of them)"
        )
    sizes: Dict[str, int] = {}
    for side in ("encoder", "decoder"):
        sizes[f"{side}_embed_dim"] = found.sizes["embed_dim"]
        sizes[f"{side}_ffn_embed_dim"] = found.sizes["ffn_dim"]
        sizes[f"{side}_attention_heads"] = found.sizes["heads"]
    check_sizes(sizes, args, origin)
    if choice.decoder is None and args.decoder_layers > choice.stack:
        raise ValueError(
            f"{origin} has {choice.stack} layers; --decoder-layers {args.decoder_layers}: valid: at most as many"
        )


def _sources(found: PretrainedFile, choice: LayerChoice, decoder_layers: int) -> Dict[str, str]:
    """Name in the model -> name in the masked LM, for all but the head."""
    decoder: Tuple[int, ...] = tuple(range(choice.stack - decoder_layers, choice.stack))
    if choice.decoder is not None:
        decoder = choice.decoder
    sources: Dict[str, str] = {}
    for side, layers in (("encoder", choice.encoder), ("decoder", decoder)):
        for name in EMBEDDINGS:
            sources[f"{side}.{name}"] = f"sentence_encoder.{name}"
        for target, layer in enumerate(layers):
            prefix = f"sentence_encoder.layers.{layer}."
            for name in (name for name in found.tensors if name.startswith(prefix)):
                sources[f"{side}.layers.{target}.{name[len(prefix) :]}"] = name
    return sources


def _mask_row(found: PretrainedFile, origin: str) -> Optional[int]:
    """Row of ``<mask>`` by the file, or by the dict.txt beside it; None where neither tells.

    Raises:
        ValueError: they contradict each other.
    """
    entries = read_dictionary(Path(found.dictionary_path)) if found.dictionary_path else []
    listed = entries.index(MASK) if MASK in entries else None
    if listed is not None and found.mask_row is not None and listed != found.mask_row:
        raise ValueError(
            f"{origin} has {MASK} in row {found.mask_row}, the dict.txt beside it as entry {listed}; valid: the dictionary that it "
            "was pre-trained with"
        )
    return found.mask_row if listed is None else listed


def _cut(
    name: str, tensors: Dict[str, Tensor], dictionary: Any, kept: Sequence[bool], mask_row: Optional[int], fit: Fit
) -> None:
    """Keep the rows that the dictionary map lists with 1."""
    mask_at = dictionary.index(MASK) if MASK in dictionary else None
    tensors[name], fit.changes[name] = cut_rows(tensors[name], kept, mask_at, name, fit.origin, mask_row)


def _left(found: PretrainedFile, sources: Dict[str, str]) -> str:
    """What of the file was not used."""
    used = set(sources.values())
    unused = LoadReport((), dropped=tuple(name for name in found.tensors if name not in used))
    return unused.summary().splitlines()[-1]
