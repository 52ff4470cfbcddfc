"""Converts a pretrained file to this package's names.

A file becomes a model in four steps. ``opening`` reads it and recognises its kind. The converter of
the kind renames its tensors by a table (``renaming``). A reader such as ``read_masked_lm`` takes
the parts that its caller needs, and finds their sizes. ``loading.load`` copies them into a module.
"""

import functools
import importlib
import re
from dataclasses import dataclass, field, replace
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .inspection import CheckpointError
from .layouts import FAMILIES, PADDING_IDX, POSITIONS, WORDS
from .loading import LoadReport, listing
from .opening import (
    KINDS,
    MODEL_TYPES,
    UNREADABLE_TYPES,
    Checkpoint,
    open_checkpoint,
    recognise,
)
from .reading import PathLike, fingerprint
from .renaming import NameTable, rename_tensors
from .vocabulary import DICTIONARY_NAME, MASK, Languages, entries_beside

PARTS = {"encoder.": "encoder", "decoder.": "decoder", "lm_head.": "head of the masked LM"}
"""Parts of a converted model: prefix of their names -> their description in messages."""

_SINUSOIDS = 1024
"""Longest input of a model with sinusoidal positions if the file does not state it."""


@dataclass
class PretrainedFile:
    """A pretrained model: float32 tensors in this package's names.

    Attributes:
        checkpoint: the file; :meth:`take` releases its tensors.
        expected: description of the kind of file, for messages.
        tensors: new name -> tensor.
        sources: new name -> name in the file.
        dropped: name in the file -> reason why the tensor was dropped.
        stated_sizes: size -> value that the options state; None if they do not state it.
        heads_option: option that states the number of heads, for messages.
        wiring: fields of the layout other than sizes.
        copies: pairs (copy, original) of tied tensors; the file may have one of them or both.
        padding_idx: row before the first position in the file; -1 if there is no such row.
        stated_languages: languages as the file states them.
        mask_is_last: the last row is that of ``<mask>`` unless ``entries`` name that row.
        stated_mask: row of ``<mask>`` that the file states; None if it does not.
        entries: entries of a fairseq dictionary for the first rows of the embedding; empty if no
            file beside the weights lists them.
        languages: languages in the order of their rows; None if there is no list.
        sizes: sizes of the model by its shapes and options; set by :meth:`find_sizes`.
        layout: an ``EncoderLayout`` or ``CausalLMLayout``; None for other models.
    """

    # Set by the converter of the kind.
    checkpoint: Checkpoint = field(repr=False)
    expected: str
    tensors: Dict[str, Tensor]
    sources: Dict[str, str] = field(default_factory=dict)
    dropped: Dict[str, str] = field(default_factory=dict)
    stated_sizes: Dict[str, Any] = field(default_factory=dict)
    heads_option: str = "num_attention_heads"
    wiring: Dict[str, Any] = field(default_factory=dict)
    copies: Tuple[Tuple[str, str], ...] = ()
    padding_idx: int = PADDING_IDX
    stated_languages: Languages = Languages()
    mask_is_last: bool = False
    stated_mask: Optional[int] = None
    # Added by the reader.
    entries: Tuple[str, ...] = ()
    languages: Optional[Tuple[str, ...]] = None
    sizes: Dict[str, Any] = field(default_factory=dict)
    layout: Any = None

    @property
    def origin(self) -> str:
        """Name of the file in messages."""
        return self.checkpoint.origin

    @functools.cached_property
    def fingerprint(self) -> str:
        """Fingerprint of the tensors, computed on first use."""
        return fingerprint(self.tensors)

    @property
    def report(self) -> LoadReport:
        """Report on every tensor by its name in the file."""
        used = tuple(dict.fromkeys(self.sources.values()))
        return LoadReport(used, dropped=tuple(self.dropped), reasons=self.dropped)

    @property
    def mask_row(self) -> Optional[int]:
        """Row of ``<mask>``; None if it is unknown or there is none.

        It is the row in ``entries``; else the last row if ``mask_is_last`` and ``entries`` do not
        name that row; else the row that the file states.
        """
        if MASK in self.entries:
            return self.entries.index(MASK)
        last = self.sizes["vocab_size"] - 1
        if self.mask_is_last and len(self.entries) <= last:
            return last
        return self.stated_mask

    def name_rows(self, entries: Sequence[str], beside: PathLike) -> None:
        """Set ``entries``.

        Args:
            entries: entries of the first rows.
            beside: file beside the weights that lists them, for messages.

        Raises:
            CheckpointError: the weights have ``<mask>`` in another row.
        """
        row = self.stated_mask
        if row is not None:
            place = f"{self.origin}: has {MASK} in row {row}"
            if row < len(entries) and entries[row] != MASK:
                raise CheckpointError(f"{place}, where {beside} has {entries[row]!r}")
            if MASK in entries and entries.index(MASK) != row:
                raise CheckpointError(f"{place}, {beside} as entry {entries.index(MASK)}")
        self.entries = tuple(entries)

    def matrix(self, name: str) -> Tensor:
        """Return a tensor by its new name. Raises CheckpointError unless it has two dimensions."""
        tensor = self.tensors.get(name)
        if tensor is None or tensor.dim() != 2:
            shape = "" if tensor is None else f" but one of shape {tuple(tensor.shape)}"
            reason = f"has no matrix for {name}{shape}"
            raise CheckpointError(f"{self.origin}: {reason}; expected {self.expected}")
        return tensor

    # ---- Choose the parts that a caller needs. ----

    def drop(self, name: str, because: str) -> None:
        """Drop a tensor by its new name, and note the reason."""
        del self.tensors[name]
        self.dropped[self.sources.pop(name)] = because

    def rename_part(self, old: str, new: str) -> None:
        """Replace the prefix of every new name that begins with ``old``."""
        prefix = re.compile(rf"\A{re.escape(old)}")
        self.tensors = {prefix.sub(new, name): self.tensors[name] for name in self.tensors}
        self.sources = {prefix.sub(new, name): self.sources[name] for name in self.sources}

    def take(self, prefixes: Mapping[str, str], kind: str) -> None:
        """Drop the parts that the caller does not need and all copies of tied tensors.

        Args:
            prefixes: prefix of a part that is needed, a key of :data:`PARTS` -> its new prefix.
            kind: kind of model that the caller reads, for the report.

        Raises:
            CheckpointError: two tensors that must be tied differ.
        """
        for part, title in PARTS.items():
            for name in [name for name in self.tensors if name.startswith(part)]:
                if part not in prefixes:
                    self.drop(name, f"{title}, unused by {kind}")
        for copy, original in self.copies:
            if copy in self.tensors and original in self.tensors:
                source = self.sources[original]
                if not torch.equal(self.tensors[copy], self.tensors[original]):
                    pair = f"{self.sources[copy]} and {source} differ"
                    raise CheckpointError(f"{self.origin}: {pair}, expected them to be tied")
                self.drop(copy, f"equal to {source}")
        for part, prefix in prefixes.items():
            self.rename_part(part, prefix)
        # The file's own tensors, in half precision perhaps, would otherwise stay in memory.
        entries = self.checkpoint.entries
        options = {name: entries[name] for name in ("args", "cfg") if name in entries}
        is_folder = self.checkpoint.is_folder
        self.checkpoint = replace(self.checkpoint, entries={} if is_folder else options, tensors={})

    # ---- Sizes. ----

    def stack_sizes(self, prefix: str) -> Dict[str, int]:
        """Return ``vocab_size``, ``layers``, ``embed_dim`` and ``ffn_dim`` by a stack's shapes.

        Args:
            prefix: prefix of the names of the stack.

        Raises:
            CheckpointError: a matrix or a layer is missing.
        """
        rows, width = self.matrix(prefix + WORDS).shape
        inner = self.matrix(prefix + "layers.0.fc1.weight").size(0)
        matches = [re.match(re.escape(prefix) + r"layers\.(\d+)\.", name) for name in self.tensors]
        layers = {int(match[1]) for match in matches if match}
        if layers != set(range(len(layers))):
            numbers = f"{prefix.rstrip('.') or 'its'} layers {sorted(layers)}"
            raise CheckpointError(f"{self.origin}: {numbers} are not 0 to {len(layers) - 1}")
        return {"vocab_size": rows, "layers": len(layers), "embed_dim": width, "ffn_dim": inner}

    def find_sizes(self, heads: Optional[int], label: str, prefix: str = "") -> None:
        """Fill in ``sizes`` by shapes and options, and bring positions to fairseq's layout.

        Args:
            heads: number of heads for a file that does not state it; shapes do not tell it.
            label: option or argument by which the user states the heads, for messages.
            prefix: prefix of the names of the stack.

        Raises:
            CheckpointError: a size is unknown, or options and shapes contradict each other.
        """
        sizes = {**self.stack_sizes(prefix), "padding_idx": PADDING_IDX}
        sizes["heads"] = self._count_heads(heads, label, sizes["embed_dim"])
        if self.wiring.get("learned_positions", True):
            # The first position has the row after padding_idx in the file, and after <pad> here.
            table = self.matrix(prefix + POSITIONS)[self.padding_idx + 1 :]
            sizes["max_positions"] = table.size(0)
            if self.padding_idx != PADDING_IDX:
                unused = torch.zeros(PADDING_IDX + 1, table.size(1), dtype=table.dtype)
                self.tensors[prefix + POSITIONS] = torch.cat([unused, table])
        else:
            sizes["max_positions"] = self.stated_sizes["max_positions"] or _SINUSOIDS
        actual = {**self.wiring, **sizes}
        for name, size in self.stated_sizes.items():
            if isinstance(size, int) and size != actual[name]:
                difference = f"its options say {name} = {size}, its tensors {actual[name]}"
                raise CheckpointError(f"{self.origin}: {difference}")
        self.sizes = sizes

    def _count_heads(self, heads: Optional[int], label: str, width: int) -> int:
        """Return the number of heads that the file states, else ``heads``."""
        number = self.stated_sizes.get("heads")
        number = heads if number is None else number
        if number is None:
            reason = f"does not tell the number of attention heads (no {self.heads_option})"
            raise CheckpointError(f"{self.origin}: {reason}, and no shape does; give {label}")
        if not isinstance(number, int) or number < 1 or width % number:
            valid = f"expected a divisor of the width {width}"
            raise CheckpointError(f"{self.origin}: heads = {number!r}, {valid}")
        return number


# ---- Convert. ----


def convert(path: PathLike, converters: Mapping[str, str], expected: str) -> PretrainedFile:
    """Open a file, recognise its kind, and convert it.

    Only the module of the kind's converter is imported.

    Args:
        converters: kind of a file -> ``module:function`` that converts it.
        expected: description of the files that the caller reads, for messages.

    Raises:
        CheckpointError: there is no converter for this kind, or the converter refuses the file.
    """
    checkpoint = open_checkpoint(path, expected)
    kind = recognise(checkpoint)
    if kind not in converters:
        raise CheckpointError(_describe_unknown(checkpoint, kind, converters, expected))
    module, function = converters[kind].split(":")
    converter = getattr(importlib.import_module(module, __package__), function)
    model: PretrainedFile = converter(checkpoint)
    if not model.entries:
        model.name_rows(entries_beside(checkpoint.file), DICTIONARY_NAME)
    return model


def _describe_unknown(
    checkpoint: Checkpoint, kind: str, converters: Mapping[str, str], expected: str
) -> str:
    """Return the message for a file of a kind that the caller does not read, or of none."""
    if checkpoint.is_folder:
        types = ", ".join(sorted(name for name in MODEL_TYPES if MODEL_TYPES[name] in converters))
        model_type = f"model_type = {checkpoint.model_type!r}"
        reason = UNREADABLE_TYPES.get(str(checkpoint.model_type), "")
        because = f" has {reason}" if reason else ""
        return f"{checkpoint.options_origin}: {model_type}{because}, expected one of {types}"
    if kind:
        return f"{checkpoint.origin}: is {KINDS[kind]}; expected {expected}"
    entries = listing(sorted(map(str, checkpoint.entries)))
    tensors = f"its tensors ({listing(list(checkpoint.tensors), 4)}) are of no known layout"
    return f"{checkpoint.origin}: holds the entries {entries}; {tensors}; expected {expected}"


def convert_tensors(
    checkpoint: Checkpoint,
    table: NameTable,
    size_options: Mapping[str, str],
    expected: str,
    family: str = "",
    copies: Tuple[Tuple[str, str], ...] = (),
    padding_idx: int = PADDING_IDX,
) -> PretrainedFile:
    """Rename all tensors of a checkpoint and collect the sizes that its options state.

    Args:
        table: names in the file -> new names, each with a prefix of :data:`PARTS`.
        size_options: size -> option that states it; ``heads`` and ``layers`` are among them.
        expected: description of the kind of file, for messages.
        family: family of an encoder, whose usual wiring is filled in; empty for other models.
        copies: pairs (copy, original) of tied tensors.
        padding_idx: row before the first position in the file; -1 if there is no such row.

    Raises:
        CheckpointError: the table does not account for a tensor, or one is not floating-point.
    """
    renamed = rename_tensors(checkpoint.tensors, table, checkpoint.origin, expected)
    integers = [
        renamed.sources[name]
        for name, tensor in renamed.tensors.items()
        if not tensor.is_floating_point()
    ]
    if integers:
        reason = f"not floating-point: {listing(integers)}"
        raise CheckpointError(f"{checkpoint.origin}: {reason}; expected {expected}")
    sizes = {size: checkpoint.options.get(option) for size, option in size_options.items()}
    if checkpoint.options.get(f"{size_options['layers']}_to_keep"):
        sizes["layers"] = None  # pruned: the options state the layers before that
    model = PretrainedFile(checkpoint, expected, *renamed, stated_sizes=sizes, copies=copies)
    model.heads_option, model.padding_idx = size_options["heads"], padding_idx
    if family:
        model.wiring = {"family": family, **FAMILIES[family]}
    for copy, original in copies:
        if original not in model.tensors:  # the file has the tensor under the name of the copy
            model.rename_part(copy, original)
    return model
