"""Filling a DeltaLM from a DeltaLM file or from a masked LM; every tensor has a source, which the log names."""

import logging
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch
from fairseq.data import Dictionary
from torch import Tensor

from ... import checkpoints
from ...checkpoints.deltalm import read_deltalm
from ...checkpoints.embedding_rows import check_entries, fit_positions, fit_words
from ...checkpoints.loading import LoadReport
from ...checkpoints.vocabularies import read_dictionary

logger = logging.getLogger(__name__)

MASK = "<mask>"
_WORDS = re.compile(r"(encoder|decoder)\.embed_tokens\.weight|decoder\.output_projection\.weight")
_POSITIONS = re.compile(r"(encoder|decoder)\.embed_positions\.weight")
_EMBEDDINGS = (
    "embed_tokens.weight",
    "embed_positions.weight",
    "layernorm_embedding.weight",
    "layernorm_embedding.bias",
)
_LAYER_NUMBER = re.compile(r"(?<=layers\.)\d+")
_ENCODER_PARTS = ("self_attn", "self_attn_layer_norm", "fc1", "fc2", "final_layer_norm")
_MARKERS = (r"(?:encoder|decoder)\.version", r"(?:encoder|decoder)\.embed_positions\._float_tensor")
_CROSS_ATTENTION = (r"decoder\.layers\.\d+\.encoder_attn(?:_layer_norm)?\..*",)


def fill(model: Any, args: Any, option: str) -> LoadReport:
    """Fill ``model`` from the file that ``args`` names.

    Args:
        model: DeltaLM, randomly initialised.
        args: its options.
        option: ``pretrained_deltalm_checkpoint`` or ``init_from_mlm``.

    Returns:
        What became of every tensor of the model; ``reasons`` names the source of each.

    Raises:
        ValueError: sizes, positions, dictionary or layers that do not fit.
    """
    path, vanilla = getattr(args, option), str(args.decoder_block) == "vanilla"
    origin = f"--{option.replace('_', '-')} {path}"
    random: Tuple[str, ...] = ()
    if option == "init_from_mlm":
        tensors, sources = from_masked_lm(_read_masked_lm(path, args), args, origin)
        random = _CROSS_ATTENTION if vanilla else ()
    else:
        found = read_deltalm(path)
        if vanilla == any(".fc3." in name for name in found.tensors):
            kind = "interleaved" if vanilla else "vanilla"
            raise ValueError(f"{origin} has {kind} decoder blocks; give --decoder-block {kind}")
        _check_sizes(found.sizes, args, origin)
        tensors, sources = found.tensors, dict(found.sources)
    fit = Fit(model, args, origin)
    for side, dictionary in (("encoder", model.encoder.dictionary), ("decoder", model.decoder.dictionary)):
        entries = check_dictionary(path, dictionary, origin)
        if option == "init_from_mlm":
            fit.leave_mask_out(side, tensors, dictionary, entries)
    tensors = {name: fit.rows(name, tensor) for name, tensor in tensors.items()}
    fit.tie(tensors)
    sources.setdefault("decoder.output_projection.weight", sources["decoder.embed_tokens.weight"])
    try:
        report = checkpoints.load(model, tensors, allow_missing=(*_MARKERS, *random))
    except ValueError as error:
        raise ValueError(f"{origin}: {error}") from error
    logger.info("%s: filled %s", origin, folded({name: sources[name] for name in report.loaded if name in sources}))
    for name, change in fit.changes.items():
        logger.info("%s: %s: %s", origin, name, change)
    return replace(report, reasons=_reasons(report, sources, fit.changes))


def _reasons(report: LoadReport, sources: Mapping[str, str], changes: Mapping[str, str]) -> Dict[str, str]:
    """Where every tensor of the model has its values from."""
    reasons = dict(report.reasons)
    for name in report.initialised:
        reasons[name] = "of the layout itself" if any(re.fullmatch(marker, name) for marker in _MARKERS) else "random"
    for name in report.loaded:
        parts = [sources[name]] if name in sources else []
        reasons[name] = "; ".join([*parts, *([changes[name]] if name in changes else [])])
    return reasons


def folded(sources: Mapping[str, str]) -> str:
    """``decoder.layers.{0,1}.fc3.weight from layers.{0,2}.fc1.weight``: names that differ in their layers alone, together."""
    groups: Dict[Tuple[str, ...], List[Tuple[str, ...]]] = {}
    for pair in sources.items():
        found = [_LAYER_NUMBER.search(text) for text in pair]
        pattern = tuple(_LAYER_NUMBER.sub("{}", text) for text in pair)
        groups.setdefault(pattern, []).append(tuple(number.group() if number else "" for number in found))
    shown = []
    for pattern, members in groups.items():
        numbers = ("{" + ",".join(column) + "}" for column in zip(*members))
        shown.append(" from ".join(text.replace("{}", layers) for text, layers in zip(pattern, numbers)))
    return ", ".join(shown)


def _read_masked_lm(path: str, args: Any) -> checkpoints.MaskedLMFile:
    try:
        return checkpoints.read_masked_lm(path)
    except checkpoints.CheckpointError:  # the file does not tell its number of heads
        return checkpoints.read_masked_lm(path, heads=args.encoder_attention_heads)


def from_masked_lm(found: checkpoints.MaskedLMFile, args: Any, origin: str) -> Tuple[Dict[str, Tensor], Dict[str, str]]:
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
    sizes: Dict[str, int] = {}
    for side, count in (("encoder", layers), ("decoder", args.decoder_layers if vanilla else layers // 2)):
        sizes[f"{side}_layers"] = count
        sizes[f"{side}_embed_dim"] = found.sizes["embed_dim"]
        sizes[f"{side}_ffn_embed_dim"] = found.sizes["ffn_dim"]
        sizes[f"{side}_attention_heads"] = found.sizes["heads"]
    _check_sizes(sizes, args, origin)
    if vanilla and args.decoder_layers > layers:
        raise ValueError(
            f"{origin} has {layers} layers, --decoder-layers {args.decoder_layers}; valid: at most as many"
        )
    sources: Dict[str, str] = {}
    for side in ("encoder", "decoder"):
        for name in _EMBEDDINGS:
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


def _check_sizes(sizes: Mapping[str, int], args: Any, origin: str) -> None:
    wrong = [
        f"--{name.replace('_', '-')} {getattr(args, name)} (valid here: {value})"
        for name, value in sizes.items()
        if hasattr(args, name) and getattr(args, name) != value
    ]
    if wrong:
        raise ValueError(f"{origin} has other sizes than the --arch and the command line: {', '.join(wrong)}")


def check_dictionary(path: str, dictionary: Dictionary, origin: str) -> Optional[int]:
    """Compare a dictionary of the data with a ``dict.txt`` beside the file, where there is one.

    Returns:
        Its number of entries; None when there is no such file.

    Raises:
        ValueError: the first entry that differs.
    """
    beside = Path(path) / "dict.txt" if os.path.isdir(path) else Path(path).parent / "dict.txt"
    if not beside.is_file():
        return None
    own = read_dictionary(beside)
    check_entries(own, dictionary.symbols, origin, "the dict.txt beside it")
    return len(own)


class Fit:
    """Brings the tensors of a file to the rows of a model, by the options that allow it.

    Attributes:
        changes: name -> what was cut or added.
    """

    def __init__(self, model: Any, args: Any, origin: str):
        self.model, self.args, self.origin = model, args, origin
        self.targets: Dict[str, Tensor] = model.state_dict()
        self.changes: Dict[str, str] = {}

    def leave_mask_out(
        self, side: str, tensors: Dict[str, Tensor], dictionary: Dictionary, entries: Optional[int]
    ) -> None:
        """Drop a masked LM's last row, ``<mask>``, where the dictionary goes on without it: it would be another symbol's.

        Args:
            side: ``encoder`` or ``decoder``.
            tensors: those of the file; changed.
            dictionary: of that side.
            entries: of the dictionary beside the file, which has no ``<mask>``; None when there is none. Without it, as many
                entries as rows are taken to mean the same.

        Raises:
            ValueError: ``<mask>`` is another entry than the file's last row.
        """
        found = dictionary.index(MASK) if MASK in dictionary else None
        for name in [name for name in tensors if name.startswith(side) and _WORDS.fullmatch(name)]:
            last = tensors[name].size(0) - 1
            if found is not None and found != last:
                raise ValueError(
                    f"{MASK} is entry {found} of the dictionary, but row {last}, the last one, of {self.origin}; run "
                    "fairseq-preprocess with the model's own dict.txt as --srcdict and --tgtdict, new symbols at its end"
                )
            if found is None and (len(dictionary) != last + 1 or entries == last):
                tensors[name] = tensors[name][:-1]
                self.changes[name] = f"without the last row, {MASK}, which the dictionary does not have"

    def rows(self, name: str, tensor: Tensor) -> Tensor:
        """The tensor with as many rows as the model has; what is neither words nor positions is left as it is."""
        target = self.targets.get(name)
        if target is None or tensor.dim() != 2 or tensor.size(0) == target.size(0):
            return tensor
        if _POSITIONS.fullmatch(name):
            return self._positions(name, tensor, target.size(0))
        return self._words(name, tensor, target) if _WORDS.fullmatch(name) else tensor

    def _note(self, name: str, change: str) -> None:
        self.changes[name] = f"{self.changes[name]}; {change}" if name in self.changes else change

    def _words(self, name: str, tensor: Tensor, target: Tensor) -> Tensor:
        rows, change = fit_words(tensor, target, str(self.args.embedding_mismatch), self.origin)
        self._note(name, change)
        return rows

    def _positions(self, name: str, tensor: Tensor, want: int) -> Tensor:
        side, module = ("source", self.model.encoder) if name.startswith("encoder") else ("target", self.model.decoder)
        rows, change = fit_positions(tensor, want, module.padding_idx + 1, self.origin, f"--max-{side}-positions")
        self._note(name, change)
        return rows

    def tie(self, tensors: Dict[str, Tensor]) -> None:
        """What the model ties must be equal in the file; an output projection of its own starts as the decoder's embedding.

        Raises:
            ValueError: an option ties what differs.
        """
        source, target, output = (
            f"{name}.weight" for name in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection")
        )
        if self.model.encoder.embed_tokens is self.model.decoder.embed_tokens and not torch.equal(
            tensors[source], tensors[target]
        ):
            raise ValueError(
                f"{self.origin} has different source and target embeddings; leave --share-all-embeddings out"
            )
        if output not in tensors and not self.model.decoder.share_input_output_embed:
            self.changes[output] = f"a copy of {target}"
        tensors.setdefault(output, tensors[target])
        if self.model.decoder.share_input_output_embed and not torch.equal(tensors[output], tensors[target]):
            raise ValueError(
                f"{self.origin} has an output projection of its own; leave --share-all-embeddings and "
                "--share-decoder-input-output-embed out"
            )
