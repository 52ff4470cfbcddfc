"""The way from a file to the tensors of a known layout: read, recognise, rename, sizes, check.

A :class:`FileLayout` declares one pretrained layout, in a module of :data:`LAYOUTS`, a :class:`Kind` what is wanted of a file.
Fitting to a model, loading and logging come after, in ``fitting`` and ``loading``.
"""

import functools
import importlib
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .inspection import CheckpointError
from .layouts import FAMILIES, PADDING_IDX, Shapes, masked_lm_shapes
from .loading import LoadReport, Renamed, Rule, apply_rules, float_tensors, listing, mismatches
from .reading import PathLike, fingerprint, read_checkpoint
from .vocabulary import CONFIG_NAME, DICTIONARY_NAME, MASK, Languages, as_dict, entries_beside, read_json

WORDS = "embed_tokens.weight"
POSITIONS = "embed_positions.weight"
PARTS = {"encoder.": "encoder", "decoder.": "decoder", "lm_head.": "head of the masked LM"}
"""What the names of every layout begin with -> what is there, for messages."""

LAYOUTS = ("veco", "xlmr", "encoder_decoder", "causal_lm")
"""Modules whose ``LAYOUTS`` are asked, in this order, whether a file is theirs."""

_SINUSOIDS = 1024  # longest input with sinusoidal positions, which have no end, where the file does not say
_FAIRSEQ_NAME = "model.pt"
_WEIGHT_NAMES = ("model.safetensors", "pytorch_model.bin", _FAIRSEQ_NAME)


@dataclass(frozen=True)
class Kind:
    """What is wanted: ``name`` and ``expected`` files, for messages; ``parts`` of :data:`PARTS` -> what their names begin with."""

    name: str
    expected: str
    parts: Mapping[str, str]


ENCODER = Kind(
    "an encoder",
    "XLM-R, InfoXLM, mBART, mBART-50, NLLB, M2M-100, VECO (fairseq, Hugging Face), BERT (Hugging Face), DeltaLM or an nlu_encoder",
    {"encoder.": ""},
)
MASKED_LM = Kind(
    "a masked LM",
    "a masked LM of XLM-R's shape: a fairseq checkpoint, a VECO that was pre-trained here, or a folder of model_type xlm-roberta",
    {"encoder.": "sentence_encoder.", "lm_head.": "lm_head."},
)
CAUSAL_LM = Kind(
    "a language model", "a Hugging Face GPT-2 (model_type gpt2) or a fairseq transformer_lm", {"decoder.": ""}
)
DELTALM = Kind(
    "a DeltaLM",
    "a DeltaLM file: {'weights': …} with src_embedding.*, encoder.*, tgt_embedding.*, decoder.*, or a fairseq checkpoint",
    {part: part for part in PARTS},
)


@dataclass(frozen=True)
class Content:
    """A file as read: everything in it (``entries``), the tensors of the model, and the options of the model.

    The options of a Hugging Face folder (``is_folder``) are the content of its ``config.json``.
    """

    file: Path
    entries: Mapping[str, Any]
    tensors: Mapping[str, Any]
    is_folder: bool
    options: Mapping[str, Any]

    @property
    def origin(self) -> str:
        """How messages call the file."""
        return f"checkpoint {self.file}"

    @property
    def options_origin(self) -> str:
        """How messages call its options."""
        return f"checkpoint {self.folder / CONFIG_NAME}" if self.is_folder else self.origin

    @property
    def folder(self) -> Path:
        return self.file.parent

    @property
    def arch(self) -> str:
        """Architecture of a fairseq checkpoint; empty where its options do not name it."""
        return str(self.options.get("arch") or self.options.get("_name") or "")


@dataclass
class PretrainedFile(Renamed):
    """A pretrained model as read from disk: float32 tensors under this package's names, with their names in the file.

    Attributes:
        stated: sizes that its options state; None where they say nothing.
        wiring: fields of the layout that it states or that follow from what it is.
        sizes: of the model, from shapes, heads and wiring; as ``layout`` for encoders and causal language models.
        padding_idx: row behind which its positions begin; -1 where they begin with the first row.
        languages: in the order of their rows; None where there is no list. ``stated_languages``: what the file itself says.
        entries: what the first rows of the embedding mean, as entries of a fairseq dictionary; empty where no file beside tells.
        marked: row of ``<mask>`` as the file itself tells it; None where it does not.
    """

    content: Content = field(default=None, repr=False)  # type: ignore[assignment]
    source: "FileLayout" = None  # type: ignore[assignment]
    stated: Dict[str, Any] = field(default_factory=dict)
    wiring: Dict[str, Any] = field(default_factory=dict)
    sizes: Dict[str, Any] = field(default_factory=dict)
    layout: Any = None
    padding_idx: int = PADDING_IDX
    stated_languages: Languages = Languages()
    languages: Optional[Tuple[str, ...]] = None
    entries: Tuple[str, ...] = ()
    marked: Optional[int] = None

    @property
    def origin(self) -> str:
        return self.content.origin

    @functools.cached_property
    def fingerprint(self) -> str:
        """Fingerprint of the tensors, computed when it is first asked for."""
        return fingerprint(self.tensors)

    @property
    def report(self) -> LoadReport:
        """What became of every tensor, by its name in the file."""
        used = tuple(dict.fromkeys(self.sources.values()))
        return LoadReport(used, dropped=tuple(self.dropped), reasons=self.dropped)

    @property
    def mask_row(self) -> Optional[int]:
        """Row of ``<mask>``, by ``entries``, or as the file itself tells it, or by what it is; None where there is none."""
        if MASK in self.entries:
            return self.entries.index(MASK)
        last = self.sizes["vocab_size"] - 1
        return last if self.source.mask_last and len(self.entries) <= last else self.marked

    def name_rows(self, entries: Sequence[str], beside: PathLike) -> None:
        """Take the ``entries`` of a file ``beside``; CheckpointError where the file itself has ``<mask>`` elsewhere."""
        row, own = self.marked, entries.index(MASK) if MASK in entries else None
        if row is not None and row < len(entries) and entries[row] != MASK:
            raise CheckpointError(f"{self.origin}: has {MASK} in row {row}, where {beside} has {entries[row]!r}")
        if row is not None and own not in (None, row):
            raise CheckpointError(f"{self.origin}: has {MASK} in row {row}, {beside} as entry {own}")
        self.entries = tuple(entries)

    def matrix(self, name: str) -> Tensor:
        """The tensor of that name; raises CheckpointError where there is none with two dimensions."""
        found = self.tensors.get(name)
        if found is None or found.dim() != 2:
            shown = "" if found is None else f" but one of shape {tuple(found.shape)}"
            raise CheckpointError(f"{self.origin}: has no matrix for {name}{shown}; expected {self.source.expected}")
        return found


@dataclass(frozen=True)
class FileLayout:
    """One pretrained layout.

    Attributes:
        expected: what the file must be, for messages.
        recognised: whether a file is of this layout.
        rules: its names -> those of this package, which begin as :data:`PARTS` do.
        sizes: size -> what the options call it; ``heads`` is among them.
        wired: options with their only valid value, or a tuple of several, where they are stated. ``check`` refuses other options.
        settle: fills in whatever of the file no table tells, for a kind.
        family: of the encoder, if it is one of :data:`.layouts.FAMILIES`.
        mask_last: the last row is that of ``<mask>``, unless something tells otherwise.
        tied: pairs of names, a copy and what it is a copy of; each may be there alone.
        transposed: names of the matrices that are stored as (in, out), where fairseq's are (out, in).
        model_types: what ``config.json`` calls it, in a Hugging Face folder.
    """

    expected: str
    recognised: Callable[[Content], bool]
    rules: Sequence[Rule]
    sizes: Mapping[str, str]
    kinds: Tuple[Kind, ...] = (ENCODER,)
    wired: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Content], Sequence[str]] = lambda content: ()
    settle: Callable[[PretrainedFile, Kind], Any] = lambda found, kind: None
    family: str = ""
    mask_last: bool = False
    tied: Tuple[Tuple[str, str], ...] = ()
    transposed: Optional["re.Pattern[str]"] = None
    model_types: Tuple[str, ...] = ()


# ---- Read. ----


def find_weights(path: Path) -> Path:
    """The weights file that a path means: itself, or the one in a folder. Raises CheckpointError: none, several, or in parts."""
    if not path.is_dir():
        return path
    present = [name for name in _WEIGHT_NAMES if (path / name).is_file()]
    if _FAIRSEQ_NAME in present and len(present) > 1:
        raise CheckpointError(f"checkpoint {path}: holds {' and '.join(present)}; name the file that is meant")
    if not present:
        split = any(path.glob("*.index.json"))
        reason = "its weights are split over several files" if split else "the folder has no weights"
        raise CheckpointError(f"checkpoint {path}: {reason}; expected one of {', '.join(_WEIGHT_NAMES)}")
    return path / present[0]


def _read_content(path: PathLike, expected: str) -> Content:
    """A weights file, or the one in a folder, with the options of its model; ``expected`` says what it should be."""
    file = find_weights(Path(path))
    entries = read_checkpoint(file)
    for name in ("model", "weights"):
        if isinstance(entries.get(name), Mapping):
            return Content(file, entries, entries[name], False, find_settings(entries))
    if not entries or not all(isinstance(value, Tensor) for value in entries.values()):
        keys = listing(sorted(map(str, entries))) or "(none)"
        raise CheckpointError(f"checkpoint {file}: holds the entries {keys}; expected {expected}")
    return Content(file, entries, entries, True, read_json(file.parent / CONFIG_NAME, expected))


def find_settings(checkpoint: Mapping[str, Any]) -> Dict[str, Any]:
    """Options of the model, from a checkpoint's ``args`` (old) or ``cfg["model"]`` (current); empty when absent."""
    found = checkpoint.get("args")
    return as_dict(as_dict(checkpoint.get("cfg")).get("model") if found is None else found)


# ---- Recognise, rename. ----


def open_file(path: PathLike, kind: Kind) -> PretrainedFile:
    """Read a file, or the one in a folder, and rename the tensors of the parts that are wanted.

    Raises CheckpointError: unreadable, untrusted, of no such layout, tensors that are not accounted for, other options.
    """
    content = _read_content(path, kind.expected)
    layout = _recognise(content, kind)
    problems = [*layout.check(content), *differing(content.options, layout.wired)]
    if problems:
        raise CheckpointError(f"{content.options_origin}: {'; '.join(problems)}; expected {layout.expected}")
    tensors = float_tensors(content.tensors, content.origin)
    for name, tensor in tensors.items():
        if layout.transposed and layout.transposed.fullmatch(name) and tensor.dim() == 2:
            tensors[name] = tensor.t().contiguous()
    renamed = apply_rules(tensors, layout.rules, content.origin, layout.expected)
    whole = [renamed.sources[name] for name, one in renamed.tensors.items() if not one.is_floating_point()]
    if whole:
        raise CheckpointError(f"{content.origin}: not floating-point: {listing(whole)}; expected {layout.expected}")
    stated = {size: content.options.get(entry) for size, entry in layout.sizes.items()}
    if content.options.get(f"{layout.sizes['layers']}_to_keep"):
        stated["layers"] = None
    found = PretrainedFile(renamed.tensors, renamed.sources, renamed.dropped, content, layout, stated)
    if layout.family and kind is ENCODER:
        found.wiring = {"family": layout.family, **FAMILIES[layout.family]}
    for copy, kept in layout.tied:
        if kept not in found.tensors:
            found.move(copy, kept)
    layout.settle(found, kind)
    found.name_rows(entries_beside(content.file), DICTIONARY_NAME)
    _take_parts(found, kind)
    # Half-precision originals and the state of an optimizer would stay in memory beside the model that is filled.
    options = {name: content.entries[name] for name in ("args", "cfg") if name in content.entries}
    found.content = replace(content, entries={} if content.is_folder else options, tensors={})
    return found


def _recognise(content: Content, kind: Kind) -> FileLayout:
    """The first layout that recognises the file; the one that has such a kind where there is no other."""
    modules = (importlib.import_module(f".{name}", __package__) for name in LAYOUTS)
    layouts: List[FileLayout] = [one for module in modules for one in module.LAYOUTS]
    valid = [one for one in layouts if kind in one.kinds]
    layout = valid[0] if len(valid) == 1 else next((one for one in layouts if one.recognised(content)), None)
    if layout in valid:
        return layout
    if content.is_folder:
        types = ", ".join(sorted(name for one in valid for name in one.model_types))
        stated = content.options.get("model_type")
        raise CheckpointError(f"{content.options_origin}: model_type = {stated!r}, expected one of {types}")
    held, names = listing(sorted(map(str, content.entries))), listing(list(map(str, content.tensors)), 4)
    unknown = f"holds the entries {held}; its tensors ({names}) are of no known layout"
    raise CheckpointError(
        f"{content.origin}: {f'is {layout.expected}' if layout else unknown}; expected {kind.expected}"
    )


def _take_parts(found: PretrainedFile, kind: Kind) -> None:
    """Drop the parts that are not wanted and copies of what is tied, and give the others the names of the kind."""
    for part, title in PARTS.items():
        if part not in kind.parts:
            for name in [name for name in found.tensors if name.startswith(part)]:
                found.discard(name, f"{title}, unused by {kind.name}")
    for copy, kept in found.source.tied:
        one, other = found.tensors.get(copy), found.tensors.get(kept)
        if one is None or other is None:
            continue
        name = found.sources[kept]
        if not torch.equal(one, other):
            raise CheckpointError(f"{found.origin}: {found.sources[copy]} and {name} differ, expected them to be tied")
        found.discard(copy, f"equal to {name}")
    for part, start in kind.parts.items():
        if start != part:
            found.move(part, start)


def differing(options: Mapping[str, Any], wanted: Mapping[str, Any]) -> List[str]:
    """The options that are stated otherwise than wanted; a tuple of values = one of them."""
    valid = {name: value if isinstance(value, tuple) else (value,) for name, value in wanted.items()}
    return [
        f"{name} = {options[name]!r}, expected {' or '.join(map(repr, values))}"
        for name, values in valid.items()
        if options.get(name) is not None and options[name] not in values
    ]


# ---- Sizes, check. ----


def stack_sizes(found: PretrainedFile, start: str) -> Dict[str, int]:
    """Sizes that the shapes of a stack tell; ``start``: what its names begin with. Raises CheckpointError: a matrix is missing."""
    (rows, width), inner = found.matrix(start + WORDS).shape, found.matrix(start + "layers.0.fc1.weight")
    layers = start + "layers."
    numbers = {int(name[len(layers) :].split(".")[0]) for name in found.tensors if name.startswith(layers)}
    if numbers != set(range(len(numbers))):
        shown = f"{start.rstrip('.') or 'its'} layers {sorted(numbers)}"
        raise CheckpointError(f"{found.origin}: {shown} are not 0 to {len(numbers) - 1}")
    return {"vocab_size": rows, "layers": len(numbers), "embed_dim": width, "ffn_dim": inner.size(0)}


def find_sizes(found: PretrainedFile, heads: Optional[int], label: str, start: str = "") -> None:
    """Fill in ``sizes``: from the shapes of the tensors whose names begin with ``start``, heads and wiring from what the file says.

    The first position gets the row behind fairseq's ``<pad>``. ``heads``, which no shape tells: for a file that does not state
    them. ``label``: how the caller names them, for messages. Raises CheckpointError: nothing tells a size, or contradictions.
    """
    sizes = found.sizes = {**stack_sizes(found, start), "padding_idx": PADDING_IDX, **found.wiring}
    stated, entry = found.stated, found.source.sizes["heads"]
    sizes["heads"] = heads if stated.get("heads") is None else stated["heads"]
    if sizes["heads"] is None:
        raise CheckpointError(
            f"{found.origin}: does not tell the number of attention heads (no {entry}), and no shape does; give {label}"
        )
    if not isinstance(sizes["heads"], int) or sizes["heads"] < 1 or sizes["embed_dim"] % sizes["heads"]:
        raise CheckpointError(
            f"{found.origin}: heads = {sizes['heads']!r}, expected a divisor of the width {sizes['embed_dim']}"
        )
    if sizes.get("learned_positions", True):
        table = found.matrix(start + POSITIONS)[found.padding_idx + 1 :]
        sizes["max_positions"] = table.size(0)
        if found.padding_idx != PADDING_IDX:
            unused = torch.zeros(PADDING_IDX + 1, table.size(1), dtype=table.dtype)
            found.tensors[start + POSITIONS] = torch.cat([unused, table])
    else:
        sizes["max_positions"] = stated["max_positions"] or _SINUSOIDS
    for name, value in stated.items():
        if isinstance(value, int) and value != sizes[name]:
            raise CheckpointError(f"{found.origin}: its options say {name} = {value}, its tensors {sizes[name]}")


def check_sizes(sizes: Mapping[str, Any], args: Any, origin: str, remedy: str = "") -> None:
    """Raise ValueError where the sizes of a file (option -> value) are not those of the options that are set."""
    wrong = [
        f"--{name.replace('_', '-')} {getattr(args, name)} (valid here: {value})"
        for name, value in sizes.items()
        if getattr(args, name, None) is not None and str(getattr(args, name)) != str(value)
    ]
    if wrong:
        raise ValueError(
            f"{origin} has other sizes than the architecture and the command line: {', '.join(wrong)}{remedy}"
        )


def check_shapes(tensors: Mapping[str, Tensor], shapes: Shapes, origin: str, expected: str) -> None:
    """Raise CheckpointError that lists the tensors that are missing, surplus or of another shape."""
    problems = mismatches(tensors, shapes)
    if problems:
        raise CheckpointError(f"{origin}: {'; '.join(problems)}; expected {expected}")


def read_masked_lm(path: PathLike, heads: Optional[int] = None, label: str = "heads=…") -> PretrainedFile:
    """Read a masked LM of XLM-R's shape, in the names of ``modules.prefix_masked_lm.MaskedLM``, without the tied output matrix.

    ``path`` is a fairseq ``model.pt`` (XLM-R, InfoXLM; old and current names; a VECO that was pre-trained here), a Hugging Face
    XLM-RoBERTa folder (also one of a VECO) or its weights file, or a folder with a fairseq ``model.pt``. ``heads``, ``label``: see
    :func:`find_sizes`.

    Returns the file; its ``sizes`` are the fields of ``MaskedLMSizes``. Raises CheckpointError: anything unreadable, untrusted, of
    another layout, unaccounted for or contradictory.
    """
    found = open_file(path, MASKED_LM)
    find_sizes(found, heads, label, MASKED_LM.parts["encoder."])
    check_shapes(found.tensors, masked_lm_shapes(found.sizes), found.origin, found.source.expected)
    return found
