"""The way from a file to the tensors of a known layout: read, recognise, rename, sizes, check.

A :class:`FileLayout` declares one pretrained layout. What follows, fitting and loading, is in ``fitting`` and ``loading``.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from torch import Tensor

from .errors import CheckpointError
from .loading import LoadReport, Renamed, Rule, apply_rules, listing
from .reading import PathLike, read_checkpoint
from .vocabularies import CONFIG_NAME, Languages, read_json

WORDS = "embed_tokens.weight"
POSITIONS = "embed_positions.weight"
FIRST_FC = "layers.0.fc1.weight"
PADDING_IDX = 1
"""Row of ``<pad>`` in every fairseq dictionary."""

_FAIRSEQ_NAME = "model.pt"
_WEIGHT_NAMES = ("model.safetensors", "pytorch_model.bin", _FAIRSEQ_NAME)


@dataclass(frozen=True)
class Content:
    """A file as read.

    Attributes:
        file: the weights.
        entries: everything in it.
        tensors: those of the model.
        is_folder: whether it is of a Hugging Face folder.
        options: of the model: fairseq's, or the content of ``config.json``.
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
class Source:
    """What a file says of its model.

    Attributes:
        renamed: its tensors under this package's names.
        expected: what kind of file it must be, for messages.
        stated: sizes that it states; None where it says nothing.
        heads: attention heads, which no shape tells; None where it does not state them.
        heads_entry: what it calls them.
        wiring: fields of the layout that it states or that follow from what it is.
        padding_idx: row of ``<pad>``, behind which the positions begin.
        padding_row: row of ``<pad>`` that a tokenizer beside the file must have too; None where it is not compared.
        rows_unordered: the special symbols are not in rows 0 to 3.
        languages: what it says of them.
        mask_last: whether its last row is that of ``<mask>``, by what it is.
        mask_row: row of ``<mask>`` as the file itself tells it; None where it does not.
    """

    renamed: Renamed
    expected: str
    stated: Dict[str, Any]
    heads: Optional[int]
    heads_entry: str
    wiring: Dict[str, Any] = field(default_factory=dict)
    padding_idx: int = PADDING_IDX
    padding_row: Optional[int] = None
    rows_unordered: bool = False
    languages: Languages = Languages()
    mask_last: bool = False
    mask_row: Optional[int] = None

    def report(self, **reasons: str) -> LoadReport:
        """What became of every tensor of the file."""
        dropped = self.renamed.dropped
        return LoadReport(self.renamed.used(), dropped=tuple(dropped), reasons={**dropped, **reasons})


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
        settle: fills in whatever of the source no table tells.
        transposed: names of the matrices that are stored as (in, out), where fairseq's are (out, in).
        model_types: what ``config.json`` calls it, in a Hugging Face folder.
    """

    expected: str
    recognised: Callable[[Content], bool]
    rules: Sequence[Rule]
    sizes: Mapping[str, str]
    check: Callable[[Content], Any] = _nothing
    settle: Callable[[Content, Source], Any] = _nothing
    transposed: Optional["re.Pattern[str]"] = None
    model_types: Tuple[str, ...] = ()


# ---- Read. ----


def find_weights(path: Path) -> Path:
    """The weights file that a path means: the file itself, or the one in a folder.

    Raises:
        CheckpointError: a folder without weights, with several, or with weights in parts.
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

    Raises:
        CheckpointError: unreadable, untrusted, or no model; ``expected`` says what it should be.
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
    if found is None:
        found = as_dict(checkpoint.get("cfg")).get("model")
    return as_dict(found)


def task_options(checkpoint: Mapping[str, Any]) -> Dict[str, Any]:
    """Options of the task, from a checkpoint's ``cfg["task"]``; empty when absent."""
    return as_dict(as_dict(checkpoint.get("cfg")).get("task"))


def as_dict(value: Any) -> Dict[str, Any]:
    """A mapping or namespace as a dictionary; empty for None."""
    if value is None:
        return {}
    return dict(value) if isinstance(value, Mapping) else dict(vars(value))


def float_tensors(tensors: Mapping[str, Any], origin: str) -> Dict[str, Tensor]:
    """Floating-point tensors as float32, others (dropped by name, or refused by shape or name later) as they are.

    What shares memory still does: a VECO has most of its tensors under several names.

    Raises:
        CheckpointError: something that is no tensor.
    """
    result: Dict[str, Tensor] = {}
    made: Dict[Tuple[Any, ...], Tensor] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise CheckpointError(f"{origin}: {name} is of type {type(tensor).__name__}, expected a tensor")
        if not tensor.is_floating_point():
            result[name] = tensor
            continue
        place = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if place not in made:
            made[place] = tensor.detach().float()
        result[name] = made[place]
    return result


# ---- Recognise, rename. ----


def source_of(content: Content, layouts: Sequence[FileLayout], expected: str) -> Source:
    """What the file says, read by the first of the layouts that recognises it.

    Raises:
        CheckpointError: none does (``expected`` says what it should be), tensors that are not accounted for, other options.
    """
    layout = next((one for one in layouts if one.recognised(content)), None)
    if layout is None and content.is_folder:
        valid = ", ".join(kind for one in layouts for kind in one.model_types)
        stated = content.options.get("model_type")
        raise CheckpointError(f"{content.config_origin}: model_type = {stated!r}, expected one of {valid}")
    if layout is None:
        names = ", ".join(list(map(str, content.tensors))[:4]) or "(none)"
        entries = listing(sorted(map(str, content.entries)))
        raise CheckpointError(
            f"{content.origin}: holds the entries {entries}; its tensors ({names}, …) are of no known layout; expected {expected}"
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
    source = Source(renamed, layout.expected, stated, stated.pop("heads"), layout.sizes["heads"])
    layout.settle(content, source)
    return source


# ---- Sizes, check. ----


def matrix(tensors: Mapping[str, Tensor], name: str, origin: str, expected: str) -> Tensor:
    """The tensor of that name; raises CheckpointError where there is none with two dimensions."""
    found = tensors.get(name)
    if found is None or found.dim() != 2:
        shown = "" if found is None else f" but one of shape {tuple(found.shape)}"
        raise CheckpointError(f"{origin}: has no matrix for {name}{shown}; expected {expected}")
    return found


class Heads(NamedTuple):
    """Attention heads, which no shape tells and some files do not state.

    Attributes:
        given: those that the caller asks for; where the file states others, that is an error.
        default: those of a file that states none; a caller who gives them compares the sizes itself.
        label: how the caller names what tells them, for messages.
    """

    given: Optional[int] = None
    default: Optional[int] = None
    label: str = "heads=…"


def sizes_of(source: Source, origin: str, heads: Heads, start: str = "") -> Dict[str, Any]:
    """Fields of the layout: sizes from the shapes, heads and wiring from what the file says.

    Args:
        origin: how messages call the file.
        start: what the names of the stack begin with.

    Raises:
        CheckpointError: a matrix that tells a size is missing, nothing tells the heads, or the options contradict the tensors.
    """
    tensors = source.renamed.tensors
    rows, width = matrix(tensors, start + WORDS, origin, source.expected).shape
    layers = start + "layers."
    numbers = {int(name[len(layers) :].split(".")[0]) for name in tensors if name.startswith(layers)}
    sizes = {
        "vocab_size": rows,
        "layers": max(numbers, default=0) + 1,
        "embed_dim": width,
        "ffn_dim": matrix(tensors, start + FIRST_FC, origin, source.expected).size(0),
        "heads": _heads(heads, source, width, origin),
        **source.wiring,
    }
    if start + POSITIONS in tensors or not sizes.get("max_positions"):
        positions = matrix(tensors, start + POSITIONS, origin, source.expected)
        sizes["max_positions"] = positions.size(0) - source.padding_idx - 1
    for name, value in source.stated.items():
        if isinstance(value, int) and value != sizes[name]:
            raise CheckpointError(f"{origin}: its options say {name} = {value}, its tensors {sizes[name]}")
    return sizes


def _heads(asked: Heads, source: Source, width: int, origin: str) -> int:
    stated, entry = source.heads, source.heads_entry
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
    """Compare names and shapes with those wanted.

    Raises:
        CheckpointError: lists missing tensors, surplus tensors, and shapes found and expected.
    """
    missing = [f"{name} {shape}" for name, shape in shapes.items() if name not in tensors]
    surplus = [f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items() if name not in shapes]
    wrong = [
        f"{name} {tuple(tensors[name].shape)} instead of {shape}"
        for name, shape in shapes.items()
        if name in tensors and tuple(tensors[name].shape) != shape
    ]
    not_float = [f"{name} {tensor.dtype}" for name, tensor in tensors.items() if not tensor.is_floating_point()]
    kinds = (
        ("missing tensors", missing),
        ("surplus tensors", surplus),
        ("wrong shapes", wrong),
        ("not floating-point", not_float),
    )
    problems = [f"{title}: {listing(names)}" for title, names in kinds if names]
    if problems:
        raise CheckpointError(f"{origin}: {'; '.join(problems)}; expected {expected}")
