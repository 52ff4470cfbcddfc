"""The way from a file to the tensors of a known layout: read, recognise, rename, sizes, check.

A :class:`FileLayout` declares one pretrained layout, in a module of :data:`LAYOUTS`. Fitting and loading come after, in
``fitting`` and ``loading``.
"""

import functools
import importlib
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from torch import Tensor

from .dictionaries import CONFIG_NAME, DICTIONARY_NAME, Languages, read_json
from .errors import CheckpointError
from .loading import LoadReport, Renamed, Rule, apply_rules, float_tensors, listing, mismatches
from .reading import PathLike, fingerprint, read_checkpoint

WORDS = "embed_tokens.weight"
POSITIONS = "embed_positions.weight"
FIRST_FC = "layers.0.fc1.weight"
ENCODER_SIZES = {
    "layers": "encoder_layers",
    "embed_dim": "encoder_embed_dim",
    "ffn_dim": "encoder_ffn_embed_dim",
    "max_positions": "max_source_positions",
    "heads": "encoder_attention_heads",
}
"""Of the encoder of any fairseq transformer."""

PADDING_IDX = 1
"""Row of ``<pad>`` in every fairseq dictionary."""

LAYOUTS = ("encoders", "deltalm_encoder", "veco", "xlmr", "encoder_decoder", "bert", "huggingface", "causal_lm")
"""Modules that declare layouts, in the order in which they are asked. Each has them by what is wanted of a file:
``ENCODERS``, ``MASKED_LMS`` or ``CAUSAL_LMS``."""

_FAIRSEQ_NAME = "model.pt"
_WEIGHT_NAMES = ("model.safetensors", "pytorch_model.bin", _FAIRSEQ_NAME)


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
    def config_origin(self) -> str:
        """How messages call the configuration of a folder."""
        return f"checkpoint {self.file.parent / CONFIG_NAME}"

    @property
    def arch(self) -> str:
        """Architecture of a fairseq checkpoint; empty where its options do not name it."""
        return str(self.options.get("arch") or self.options.get("_name") or "")


@dataclass
class PretrainedFile:
    """A pretrained model as read from disk.

    Attributes:
        expected: what kind of file it must be, for messages.
        renamed: its tensors under this package's names, float32.
        stated: sizes that its options state; None where they say nothing.
        heads: attention heads; None where it does not state them. ``heads_entry``: what it calls them.
        wiring: fields of the layout that it states or that follow from what it is.
        sizes: of the model, from shapes, heads and wiring; as ``layout`` for encoders and causal language models.
        padding_idx: row of ``<pad>``, behind which the positions begin.
        padding_row: row of ``<pad>`` that a tokenizer beside the file must have too; None where it is not compared.
        rows_unordered: the special symbols are not in rows 0 to 3.
        stated_languages: what it says of its languages.
        languages: in the order of their rows; None where there is no list.
        entries: what the first rows of the embedding mean, as entries of a fairseq dictionary; empty where no file beside tells.
        mask_last: whether the last row is that of ``<mask>``, by what the file is: a masked LM as released. Those of this package
            may have it elsewhere, as their data's dictionary does.
        mask_row: row of ``<mask>`` as the file itself tells it; None where it does not.
        reasons: name in the file -> what was done with it.
    """

    content: Content
    expected: str
    renamed: Renamed
    stated: Dict[str, Any]
    heads: Optional[int]
    heads_entry: str
    wiring: Dict[str, Any] = field(default_factory=dict)
    sizes: Dict[str, Any] = field(default_factory=dict)
    layout: Any = None
    padding_idx: int = PADDING_IDX
    padding_row: Optional[int] = None
    rows_unordered: bool = False
    stated_languages: Languages = Languages()
    languages: Optional[Tuple[str, ...]] = None
    entries: Tuple[str, ...] = ()
    mask_last: bool = False
    mask_row: Optional[int] = None
    reasons: Dict[str, str] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """How messages call the file."""
        return self.content.origin

    @property
    def tensors(self) -> Dict[str, Tensor]:
        """Name -> float32 tensor."""
        return self.renamed.tensors

    @property
    def sources(self) -> Dict[str, str]:
        """Name -> its name in the file."""
        return self.renamed.sources

    @functools.cached_property
    def fingerprint(self) -> str:
        """Of the tensors, when it is first asked for."""
        return fingerprint(self.tensors)

    @property
    def report(self) -> LoadReport:
        """What became of every tensor of the file (its names)."""
        dropped = self.renamed.dropped
        return LoadReport(self.renamed.used(), dropped=tuple(dropped), reasons={**dropped, **self.reasons})

    @property
    def dictionary_path(self) -> Optional[Path]:
        """``dict.txt`` beside the weights; None when there is none."""
        beside = self.content.file.parent / DICTIONARY_NAME
        return beside if beside.is_file() else None


def _nothing(*_: Any) -> None:
    return None


@dataclass(frozen=True)
class FileLayout:
    """One pretrained layout.

    Attributes:
        expected: what the file must be, for messages.
        recognised: whether a file is of this layout.
        rules: its names -> those of this package.
        sizes: size -> what the options call it; ``heads`` is among them.
        check: refuses options with which the model computes something else, before the tensors are looked at.
        settle: fills in whatever of the file no table tells.
        transposed: names of the matrices that are stored as (in, out), where fairseq's are (out, in).
        model_types: what ``config.json`` calls it, in a Hugging Face folder.
    """

    expected: str
    recognised: Callable[[Content], bool]
    rules: Sequence[Rule]
    sizes: Mapping[str, str]
    check: Callable[[Content], Any] = _nothing
    settle: Callable[[Content, PretrainedFile], Any] = _nothing
    transposed: Optional["re.Pattern[str]"] = None
    model_types: Tuple[str, ...] = ()


def layouts_of(kind: str) -> List[FileLayout]:
    """The layouts from which ``ENCODERS``, ``MASKED_LMS`` or ``CAUSAL_LMS`` are read."""
    modules = (importlib.import_module(f".{name}", __package__) for name in LAYOUTS)
    return [layout for module in modules for layout in getattr(module, kind, ())]


# ---- Read. ----


def find_weights(path: Path) -> Path:
    """The weights file that a path means: the file itself, or the one in a folder.

    Raises CheckpointError: a folder without weights, with several, or with weights in parts.
    """
    if not path.is_dir():
        return path
    present = [name for name in _WEIGHT_NAMES if (path / name).is_file()]
    if _FAIRSEQ_NAME in present and len(present) > 1:
        raise CheckpointError(f"checkpoint {path}: holds {' and '.join(present)}; name the file that is meant")
    if present:
        return path / present[0]
    if any(path.glob("*.index.json")):
        raise CheckpointError(f"checkpoint {path}: its weights are split over several files; save it as one file first")
    raise CheckpointError(f"checkpoint {path}: the folder holds none of {', '.join(_WEIGHT_NAMES)}")


def read_content(path: PathLike, expected: str) -> Content:
    """Read a weights file, or the one in a folder, with the options of its model.

    Raises CheckpointError: unreadable, untrusted, or no model; ``expected`` says what it should be.
    """
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


def task_options(checkpoint: Mapping[str, Any]) -> Dict[str, Any]:
    """Options of the task, from a checkpoint's ``cfg["task"]``; empty when absent."""
    return as_dict(as_dict(checkpoint.get("cfg")).get("task"))


def as_dict(value: Any) -> Dict[str, Any]:
    """A mapping or namespace as a dictionary; empty for None."""
    if value is None:
        return {}
    return dict(value) if isinstance(value, Mapping) else dict(vars(value))


# ---- Recognise, rename. ----


def open_file(path: PathLike, layouts: Sequence[FileLayout], expected: str, entries: str = "") -> PretrainedFile:
    """Read a file, or the one in a folder, and rename its tensors by the first of the layouts that recognises it.

    ``expected``: what it should be, ``entries``: what it should hold, for messages.

    Raises:
        CheckpointError: unreadable, untrusted, of no such layout, tensors that are not accounted for, other options.
    """
    content = read_content(path, f"{entries}, as in {expected}" if entries else expected)
    layout = next((one for one in layouts if one.recognised(content)), None)
    if layout is None and content.is_folder:
        valid = ", ".join(sorted(kind for one in layouts for kind in one.model_types))
        stated = content.options.get("model_type")
        raise CheckpointError(f"{content.config_origin}: model_type = {stated!r}, expected one of {valid}")
    if layout is None:
        names = ", ".join(list(map(str, content.tensors))[:4]) or "(none)"
        raise CheckpointError(
            f"{content.origin}: holds the entries {listing(sorted(map(str, content.entries)))}; its tensors ({names}, …) are of no "
            f"known layout; expected {expected}"
        )
    layout.check(content)
    tensors = float_tensors(content.tensors, content.origin)
    for name, tensor in tensors.items():
        if layout.transposed and layout.transposed.fullmatch(name) and tensor.dim() == 2:
            tensors[name] = tensor.t().contiguous()
    renamed = apply_rules(tensors, layout.rules, content.origin, layout.expected)
    stated = {size: content.options.get(entry) for size, entry in layout.sizes.items()}
    if content.options.get(f"{layout.sizes['layers']}_to_keep"):
        stated["layers"] = None
    found = PretrainedFile(content, layout.expected, renamed, stated, stated.pop("heads"), layout.sizes["heads"])
    layout.settle(content, found)
    # Half-precision originals and the state of an optimizer would stay in memory beside the model that is filled.
    options = {name: content.entries[name] for name in ("args", "cfg") if name in content.entries}
    found.content = replace(content, entries={} if content.is_folder else options, tensors={})
    return found


# ---- Sizes, check. ----


def refuse_config(problems: List[str], content: Content) -> None:
    """Raise CheckpointError where there are problems with a configuration."""
    if problems:
        raise CheckpointError(f"{content.config_origin}: {'; '.join(problems)}")


def differing(config: Mapping[str, Any], wanted: Mapping[str, Any]) -> List[str]:
    """The entries that a configuration states otherwise than wanted."""
    return [
        f"{name} = {config[name]!r}, expected {value!r}"
        for name, value in wanted.items()
        if config.get(name) is not None and config[name] != value
    ]


def matrix(tensors: Mapping[str, Tensor], name: str, origin: str, expected: str) -> Tensor:
    """The tensor of that name; raises CheckpointError where there is none with two dimensions."""
    found = tensors.get(name)
    if found is None or found.dim() != 2:
        shown = "" if found is None else f" but one of shape {tuple(found.shape)}"
        raise CheckpointError(f"{origin}: has no matrix for {name}{shown}; expected {expected}")
    return found


class Heads(NamedTuple):
    """Attention heads, which no shape tells and some files do not state; ``label``: how the caller names them, for messages.

    Where the file states others than are ``given``, that is an error. A caller who gives a ``default``, for a file that states
    none, compares the sizes itself.
    """

    given: Optional[int] = None
    default: Optional[int] = None
    label: str = "heads=…"


def find_sizes(found: PretrainedFile, heads: Heads, start: str = "") -> None:
    """Fill in ``sizes``: from the shapes of the tensors whose names begin with ``start``, heads and wiring from what the file says.

    Raises CheckpointError: a matrix that tells a size is missing, nothing tells the heads, or the options contradict the tensors.
    """
    tensors, origin = found.tensors, found.origin
    rows, width = matrix(tensors, start + WORDS, origin, found.expected).shape
    layers = start + "layers."
    numbers = {int(name[len(layers) :].split(".")[0]) for name in tensors if name.startswith(layers)}
    found.sizes = sizes = {
        "vocab_size": rows,
        "layers": max(numbers, default=0) + 1,
        "embed_dim": width,
        "ffn_dim": matrix(tensors, start + FIRST_FC, origin, found.expected).size(0),
        "heads": _heads(heads, found, width),
        **found.wiring,
    }
    if start + POSITIONS in tensors or not sizes.get("max_positions"):
        positions = matrix(tensors, start + POSITIONS, origin, found.expected)
        sizes["max_positions"] = positions.size(0) - found.padding_idx - 1
    for name, value in found.stated.items():
        if isinstance(value, int) and value != sizes[name]:
            raise CheckpointError(f"{origin}: its options say {name} = {value}, its tensors {sizes[name]}")


def _heads(asked: Heads, found: PretrainedFile, width: int) -> int:
    origin, stated, entry = found.origin, found.heads, found.heads_entry
    if asked.given is not None and stated is not None and asked.given != stated:
        raise CheckpointError(f"{origin}: heads = {asked.given} was given, but the file says {entry} = {stated}")
    heads = next((one for one in (stated, asked.given, asked.default) if one is not None), None)
    if heads is None:
        raise CheckpointError(
            f"{origin}: does not tell the number of attention heads (no {entry}), and no shape does; give {asked.label}"
        )
    if not isinstance(heads, int) or heads < 1 or width % heads:
        raise CheckpointError(f"{origin}: heads = {heads!r}, expected a divisor of the width {width}")
    return heads


def check_shapes(
    tensors: Mapping[str, Tensor], shapes: Mapping[str, Tuple[int, ...]], origin: str, expected: str
) -> None:
    """Raise CheckpointError that lists the tensors that are missing, surplus, of another shape or no floating-point numbers."""
    whole = [f"{name} {tensor.dtype}" for name, tensor in tensors.items() if not tensor.is_floating_point()]
    problems = mismatches(tensors, shapes) + ([f"not floating-point: {listing(whole)}"] if whole else [])
    if problems:
        raise CheckpointError(f"{origin}: {'; '.join(problems)}; expected {expected}")
