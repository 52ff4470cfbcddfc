"""Fitting a pretrained file to the two sides of an encoder-decoder: layers, rows, positions, ``<mask>``, ties."""

import os
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

import torch
from torch import Tensor

from .fitting import check_entries, fit_positions, fit_words, load_fitted
from .loading import LoadReport
from .pipeline import POSITIONS, WORDS, PretrainedFile
from .vocabulary import DICTIONARY_NAME, MASK, read_dictionary

_WORDS = re.compile(r"(encoder|decoder)\.embed_tokens\.weight|decoder\.output_projection\.weight")
_POSITIONS = re.compile(r"(encoder|decoder)\.embed_positions\.weight")
_TAG = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]")
_EMBEDDINGS = (WORDS, POSITIONS, "layernorm_embedding.weight", "layernorm_embedding.bias")


def sizes_of_sides(sizes: Mapping[str, int], *sides: str) -> Dict[str, int]:
    """Option of the model -> value, for the sides that are wired as a masked LM of these sizes."""
    names = {"embed_dim": "embed_dim", "ffn_dim": "ffn_embed_dim", "heads": "attention_heads"}
    return {f"{side}_{option}": sizes[size] for side in sides for size, option in names.items()}


def stack_sources(found: PretrainedFile, side: str, layers: Sequence[int]) -> Dict[str, str]:
    """Name in one side of a model -> name in a masked LM: its embeddings and these of its layers, renumbered."""
    sources = {f"{side}.{name}": f"sentence_encoder.{name}" for name in _EMBEDDINGS}
    for number, layer in enumerate(layers):
        start = f"sentence_encoder.layers.{layer}."
        names = [name for name in found.tensors if name.startswith(start)]
        sources.update({f"{side}.layers.{number}.{name[len(start) :]}": name for name in names})
    return sources


def check_dictionary(
    path: str, dictionary: Any, origin: str, kept: Optional[Sequence[bool]] = None, option: str = ""
) -> Optional[int]:
    """Compare a dictionary of the data (fairseq's) with a ``dict.txt`` beside the file at ``path``, where there is one.

    ``kept``: the map of an ``option``, which entries of the file's dictionary (special symbols not counted) the data's has; None =
    all. Returns the number of entries of the file's dictionary; None when there is no such file.

    Raises ValueError: the first entry that differs, or another number of entries than ``kept`` has.
    """
    beside = (Path(path) if os.path.isdir(path) else Path(path).parent) / DICTIONARY_NAME
    if not beside.is_file():
        return None
    own = read_dictionary(beside)
    special = dictionary.nspecial
    if kept is not None and len(own) - len(kept) != special:
        raise ValueError(
            f"{option} has {len(kept):,} lines; valid: {len(own) - special:,}, one for each entry of the dict.txt beside "
            f"{origin}"
        )
    shared = [entry for entry, stays in zip(own[special:], kept or [True] * len(own)) if stays]
    check_entries([*own[:special], *shared], dictionary.symbols, origin, "the dict.txt beside it")
    return len(own)


def check_rows(found: PretrainedFile, origin: str) -> None:
    """Raise ValueError where the last row of a masked LM is not that of ``<mask>``."""
    last = found.sizes["vocab_size"] - 1
    if found.mask_row not in (None, last):
        raise ValueError(
            f"{origin} has {MASK} in row {found.mask_row} and {last - found.mask_row:,} rows behind it; valid here: a masked LM "
            f"whose last row is that of {MASK}"
        )


def trailing_tags(dictionary: Any) -> List[str]:
    """What stands at the end of a dictionary (fairseq's) and looks as if it was added to it: ``[en]``, ``<2de>``."""
    entries = list(dictionary.symbols[dictionary.nspecial :])
    first = len(entries)
    while first > 0 and _TAG.fullmatch(entries[first - 1]):
        first -= 1
    return entries[first:]


class Fit:
    """Brings the tensors of a file to the rows of an encoder-decoder; ``changes``: name -> what was cut or added.

    ``policy``: see ``fit_words``. ``lengths``: encoder and decoder -> the option of its longest input, for messages.
    """

    def __init__(self, model: Any, policy: str, lengths: Mapping[str, str], origin: str):
        self.model, self.policy, self.lengths, self.origin = model, policy, lengths, origin
        self.targets: Dict[str, Tensor] = model.state_dict()
        self.changes: Dict[str, str] = {}

    def leave_mask_out(
        self, side: str, tensors: Dict[str, Tensor], entries: Optional[int], row: Optional[int] = None
    ) -> None:
        """Drop a masked LM's row of ``<mask>`` from ``tensors``, where the dictionary goes on without it.

        ``entries``: of the dictionary beside the file, which has no ``<mask>``; None when there is none: then as many entries as
        rows are taken to mean the same, unless the last one is a tag. ``row``: that of ``<mask>``; None = the last one, probably.

        Raises ValueError: ``<mask>`` is another entry than the file's row of it.
        """
        dictionary = getattr(self.model, side).dictionary
        found = dictionary.index(MASK) if MASK in dictionary else None
        tagged = entries is None and bool(trailing_tags(dictionary))
        for name in [name for name in tensors if name.startswith(side) and _WORDS.fullmatch(name)]:
            rows = tensors[name].size(0)
            place = rows - 1 if row is None else row
            shown = f"row {place:,}, the last one," if place == rows - 1 else f"row {place:,}"
            if found is not None and found != place:
                raise ValueError(
                    f"{MASK} is entry {found} of the dictionary, but {shown} of {self.origin}; run fairseq-preprocess with the "
                    "model's own dict.txt as --srcdict and --tgtdict, new symbols at its end"
                )
            same = len(dictionary) == rows and entries != rows - 1 and not tagged
            if found is None and (row is not None or not same):
                tensors[name] = torch.cat([tensors[name][:place], tensors[name][place + 1 :]])
                shown = "the last row" if place == rows - 1 else f"row {place:,}"
                self.changes[name] = f"without {shown}, {MASK}, which the dictionary does not have"

    def rows(self, name: str, tensor: Tensor) -> Tensor:
        """The tensor with as many rows as the model has; what is neither words nor positions is left as it is."""
        target, positions = self.targets.get(name), _POSITIONS.fullmatch(name)
        if target is None or tensor.dim() != 2 or tensor.size(0) == target.size(0):
            return tensor
        if positions:
            unused = getattr(self.model, positions[1]).padding_idx + 1
            rows, change = fit_positions(tensor, target.size(0), unused, self.origin, self.lengths[positions[1]])
        elif _WORDS.fullmatch(name):
            rows, change = fit_words(tensor, target, self.policy, self.origin)
        else:
            return tensor
        self.changes[name] = "; ".join([*filter(None, [self.changes.get(name)]), change])
        return rows

    def tie(self, tensors: Dict[str, Tensor]) -> None:
        """An output projection that is not tied starts as the decoder's embedding. ValueError: the model ties what differs."""
        encoder, decoder = self.model.encoder, self.model.decoder
        source, target, output = "encoder." + WORDS, "decoder." + WORDS, "decoder.output_projection.weight"
        if encoder.embed_tokens is decoder.embed_tokens and not torch.equal(tensors[source], tensors[target]):
            raise ValueError(
                f"{self.origin} has different source and target embeddings; leave --share-all-embeddings out"
            )
        if output not in tensors and not decoder.share_input_output_embed:
            self.changes[output] = f"a copy of {target}"
        tensors.setdefault(output, tensors[target])
        if decoder.share_input_output_embed and not torch.equal(tensors[output], tensors[target]):
            raise ValueError(
                f"{self.origin} has an output projection of its own; leave --share-all-embeddings and "
                "--share-decoder-input-output-embed out"
            )

    def load(self, tensors: Dict[str, Tensor], sources: Dict[str, str], random: Sequence[str] = ()) -> LoadReport:
        """Bring all tensors to the model's rows, tie what it ties, and load them; see ``load_fitted``."""
        tensors = {name: self.rows(name, tensor) for name, tensor in tensors.items()}
        if "decoder." + WORDS in tensors:
            self.tie(tensors)
            sources.setdefault("decoder.output_projection.weight", sources["decoder." + WORDS])
        return load_fitted(self.model, tensors, self.origin, sources, self.changes, random)
