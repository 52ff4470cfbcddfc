"""Fitting a pretrained file to a transformer: sizes, rows, positions, dictionaries, and where every tensor came from."""

import os
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .embedding_rows import check_entries, fit_positions, fit_words
from .loading import LoadReport
from .masked_lm import MaskedLMFile, read_masked_lm
from .padding import PAD, ROW
from .reading import CheckpointError
from .veco import MASK_ROW
from .vocabularies import MASK, read_dictionary

_WORDS = re.compile(r"(encoder|decoder)\.embed_tokens\.weight|decoder\.output_projection\.weight")
_POSITIONS = re.compile(r"(encoder|decoder)\.embed_positions\.weight")
_LAYER_NUMBER = re.compile(r"(?<=layers\.)\d+")
EMBEDDINGS = (
    "embed_tokens.weight",
    "embed_positions.weight",
    "layernorm_embedding.weight",
    "layernorm_embedding.bias",
)
"""What encoder and decoder have beside their layers."""

MARKERS = (
    r"(?:encoder|decoder)\.version",
    r"(?:encoder|decoder)\.embed_positions\._float_tensor",
    re.escape(MASK_ROW),
)
"""Tensors that the model makes itself and no file needs to have."""

_TAG = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]")


def read_masked_lm_for(path: str, args: Any, mask_anywhere: bool = False) -> MaskedLMFile:
    """Read a masked LM; where the file does not tell its number of heads, it is ``args.encoder_attention_heads``.

    Args:
        path: of the file.
        args: options of the model.
        mask_anywhere: the caller asks the file for the row of ``<mask>``; otherwise it must be the last one.

    Raises:
        ValueError: rows of another order than fairseq's.
    """
    try:
        found = read_masked_lm(path)
    except CheckpointError:  # the file does not tell its number of heads
        found = read_masked_lm(path, heads=args.encoder_attention_heads)
    row, rows = found.sizes["padding_idx"], found.sizes["vocab_size"]
    if row != ROW:
        raise ValueError(
            f"{path} has {PAD} in row {row}; valid here: {ROW}, as in every fairseq dictionary, with positions from {ROW + 1}"
        )
    if found.mask_row not in (None, rows - 1) and not mask_anywhere:
        raise ValueError(
            f"{path} has {MASK} in row {found.mask_row} and {rows - 1 - found.mask_row:,} rows behind it; valid here: a masked LM "
            f"whose last row is that of {MASK}"
        )
    return found


def trailing_tags(dictionary: Any) -> List[str]:
    """What stands at the end of a dictionary (fairseq's) and looks as if it was added to it: ``[en]``, ``<2de>``."""
    entries = list(dictionary.symbols[dictionary.nspecial :])
    first = len(entries)
    while first > 0 and _TAG.fullmatch(entries[first - 1]):
        first -= 1
    return entries[first:]


def check_sizes(sizes: Mapping[str, int], args: Any, origin: str) -> None:
    """Compare the sizes of a file with those of the model.

    Args:
        sizes: option -> value that the file has; options that the model does not have are not compared.
        args: options of the model.
        origin: option and path of the file, for messages.

    Raises:
        ValueError: names every option that differs.
    """
    wrong = [
        f"--{name.replace('_', '-')} {getattr(args, name)} (valid here: {value})"
        for name, value in sizes.items()
        if hasattr(args, name) and getattr(args, name) != value
    ]
    if wrong:
        raise ValueError(f"{origin} has other sizes than the --arch and the command line: {', '.join(wrong)}")


def check_dictionary(path: str, dictionary: Any, origin: str, kept: Optional[Sequence[bool]] = None) -> Optional[int]:
    """Compare a dictionary of the data (fairseq's) with a ``dict.txt`` beside the file, where there is one.

    Args:
        path: of the file.
        dictionary: of the data.
        origin: option and path of the file, for messages.
        kept: which entries of the file's dictionary (special symbols not counted) the data's has; None = all.

    Returns:
        Number of entries of the file's dictionary; None when there is no such file.

    Raises:
        ValueError: the first entry that differs, or another number of entries than ``kept`` has.
    """
    beside = Path(path) / "dict.txt" if os.path.isdir(path) else Path(path).parent / "dict.txt"
    if not beside.is_file():
        return None
    own = read_dictionary(beside)
    shared: Sequence[str] = own
    if kept is not None:
        special = len(own) - len(kept)
        if special != dictionary.nspecial:
            raise ValueError(
                f"--resized-dict-map has {len(kept):,} lines; valid: {len(own) - dictionary.nspecial:,}, one for each entry of the "
                f"dict.txt beside {origin}"
            )
        shared = [*own[:special], *(entry for entry, stays in zip(own[special:], kept) if stays)]
    check_entries(shared, dictionary.symbols, origin, "the dict.txt beside it")
    return len(own)


def reasons_of(report: LoadReport, sources: Mapping[str, str], changes: Mapping[str, str]) -> Dict[str, str]:
    """Where every tensor of the model has its values from."""
    reasons = dict(report.reasons)
    for name in report.initialised:
        reasons[name] = "of the layout itself" if any(re.fullmatch(marker, name) for marker in MARKERS) else "random"
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
        self,
        side: str,
        tensors: Dict[str, Tensor],
        dictionary: Any,
        entries: Optional[int],
        row: Optional[int] = None,
        last: bool = True,
    ) -> None:
        """Drop a masked LM's row of ``<mask>``, where the dictionary goes on without it: it would be another symbol's.

        Args:
            side: ``encoder`` or ``decoder``.
            tensors: those of the file; changed.
            dictionary: of that side.
            entries: of the dictionary beside the file, which has no ``<mask>``; None when there is none. Without it, as many
                entries as rows are taken to mean the same, unless the last one is a tag.
            row: that of ``<mask>``, where it is known for sure.
            last: whether it is the last one where it is not known, by what the file is.

        Raises:
            ValueError: ``<mask>`` is another entry than the file's row of it, or it cannot be told which row that is.
        """
        found = dictionary.index(MASK) if MASK in dictionary else None
        for name in [name for name in tensors if name.startswith(side) and _WORDS.fullmatch(name)]:
            rows = tensors[name].size(0)
            if found is not None:
                place = rows - 1 if row is None and last else row
                if place is not None and found != place:
                    shown = f"row {place}, the last one," if place == rows - 1 else f"row {place}"
                    raise ValueError(
                        f"{MASK} is entry {found} of the dictionary, but {shown} of {self.origin}; run fairseq-preprocess with the "
                        "model's own dict.txt as --srcdict and --tgtdict, new symbols at its end"
                    )
                continue
            tags = trailing_tags(dictionary)
            if row is None and not last and tags:
                raise ValueError(
                    f"{self.origin} has {rows:,} rows and does not tell which one is that of {MASK} (files of older versions do "
                    f"not), and the dictionary of {len(dictionary):,} entries has no {MASK} and ends with {' '.join(tags)}: the "
                    "file's dictionary may have had these before or behind it. Valid: the file's own dictionary, with "
                    f"{MASK} in its place, or going on with the pre-training for an update, which writes the place down"
                )
            same = len(dictionary) == rows and entries != rows - 1 and not (tags and entries is None)
            if row is not None or not same:
                self._without(name, tensors, rows - 1 if row is None else row)

    def _without(self, name: str, tensors: Dict[str, Tensor], row: int) -> None:
        last = row == tensors[name].size(0) - 1
        tensors[name] = torch.cat([tensors[name][:row], tensors[name][row + 1 :]])
        shown = "the last row" if last else f"row {row:,}"
        self.changes[name] = f"without {shown}, {MASK}, which the dictionary does not have"

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
