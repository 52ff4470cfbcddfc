"""Checkpoints with fewer rows of vocabulary: rows that stay are bit-equal, all else untouched."""

from __future__ import annotations  # torch is imported where a checkpoint is opened

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, MutableMapping, NamedTuple, Sequence

from ..files import write_bytes
from ..io import InputError, PathLike

if TYPE_CHECKING:
    from torch import Tensor

# Layout -> names of the tensors with a row for each symbol of the dictionary, biases included.
LAYOUTS: Dict[str, re.Pattern[str]] = {
    "XLM-R, VECO's head": re.compile(
        r"(?:model_(?:fast|slow)\.)?(?:(?:encoder|decoder)\.)?"
        r"(?:sentence_encoder\.embed_tokens\.weight|lm_head\.(?:weight|bias))"
    ),
    "mBART, VECO (generation), DeltaLM (fine-tuned)": re.compile(
        r"(?:encoder|decoder)\.(?:embed_tokens\.weight|output_projection\.(?:weight|bias))"
    ),
    "DeltaLM (released)": re.compile(r"(?:src|tgt)_embedding\.embed_tokens\.weight"),
    "Hugging Face XLM-RoBERTa, BERT with sentencepiece, VECO (understanding)": re.compile(
        r"(?:\w+\.)?embeddings\.word_embeddings\.weight|lm_head\.decoder\.(?:weight|bias)"
        r"|cls\.predictions\.(?:bias|decoder\.(?:weight|bias))"
    ),
}
OPTIMIZER = "last_optimizer_state"  # dropped: its moments have the old rows
CONFIG = "config.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
WORDPIECES = "vocab.txt"
MAX_LISTED = 5


@dataclass
class OpenCheckpoint:
    """A checkpoint in memory.

    Attributes:
        path: the file, or the file of weights in a Hugging Face folder.
        state: its content.
        rows: symbols of its dictionary.
        tensors: names of the tensors with a row for each symbol.
        layouts: layouts of these names.
        config: config.json of a Hugging Face folder, else empty.
    """

    path: Path
    state: Dict[str, Any]
    rows: int = 0
    tensors: List[str] = field(default_factory=list)
    layouts: List[str] = field(default_factory=list)
    config: Dict[str, Any] = field(default_factory=dict)


def open_checkpoint(path: PathLike) -> OpenCheckpoint:
    """Read a checkpoint without running code from it, and find the tensors of the vocabulary.

    Args:
        path: fairseq .pt file, or a Hugging Face folder with config.json.

    Raises:
        InputError: unreadable, untrusted, none of ``LAYOUTS``, or an unknown tensor of the size of
            the vocabulary.
    """
    from fairseq_plugins.checkpoints import CheckpointError, read_checkpoint

    weights = _find_weights(Path(path))
    try:
        state = read_checkpoint(weights.file)
    except CheckpointError as error:
        raise InputError(f"--checkpoint: {error}") from None
    state.pop(OPTIMIZER, None)
    opened = OpenCheckpoint(weights.file, state, config=weights.config)
    names_by_size: Dict[int, List[str]] = {}
    for entry in _list_tensors(state):
        layout = layout_of(entry.name)
        if layout:
            size = entry.tensor.size(0) if entry.tensor.dim() else 0
            names_by_size.setdefault(size, []).append(entry.name)
            opened.tensors.append(entry.name)
            if layout not in opened.layouts:
                opened.layouts.append(layout)
    valid = f"valid: the layouts of {'; '.join(LAYOUTS)}"
    if not names_by_size:
        reason = "no tensor with a row for each symbol"
        raise InputError(f"--checkpoint {path}: {reason}; {valid}")
    if len(names_by_size) > 1:
        sizes = sorted(names_by_size.items())
        listed = ", ".join(f"{names[0]} has {size}" for size, names in sizes)
        raise InputError(
            f"--checkpoint {path}: different numbers of rows: {listed}; "
            "valid: one dictionary for both sides"
        )
    opened.rows = next(iter(names_by_size))
    unknown = [
        f"{entry.name} {tuple(entry.tensor.shape)}"
        for entry in _list_tensors(state)
        if not layout_of(entry.name)
        and (opened.rows in entry.tensor.shape or "adaptive_softmax" in entry.name)
    ]
    if unknown:
        listed = ", ".join(unknown[:MAX_LISTED])
        raise InputError(
            f"--checkpoint {path}: {len(unknown)} tensors may have a row for each of the "
            f"{opened.rows} symbols, but are not known: {listed}; {valid}"
        )
    return opened


def check_checkpoint(
    path: PathLike, folder: Path, dictionary: PathLike, pieces: int, max_extra: int
) -> None:
    """Check a checkpoint and the place of its cut, without reading its tensors.

    Args:
        path: as in :func:`open_checkpoint`.
        folder: folder of the outputs.
        dictionary: dict.txt, for messages.
        pieces: number of its pieces.
        max_extra: most rows after those of dict.txt.

    Raises:
        InputError: no such file, one that would be overwritten, or another vocabulary size.
    """
    weights = _find_weights(Path(path))
    if not weights.file.is_file():
        valid = "a .pt file, or a Hugging Face folder"
        raise InputError(f"--checkpoint {path}: no such file; valid: {valid}")
    if weights.config and (weights.file.parent / WORDPIECES).is_file():
        order = f"has its rows in the order of {WORDPIECES}, not of a fairseq dictionary"
        raise InputError(f"--checkpoint {path}: {order}; valid: a model of sentencepiece pieces")
    _check_target(_target_file(weights.file, weights.config, folder), weights.file, folder)
    rows = weights.config.get("vocab_size")
    if isinstance(rows, int) and not 0 <= rows - pieces - 4 <= max_extra:
        raise wrong_rows_error(dictionary, pieces, rows, max_extra)


def wrong_rows_error(dictionary: PathLike, pieces: int, rows: int, max_extra: int) -> InputError:
    """Return the error of a dictionary that is not that of a checkpoint."""
    sizes = f"{pieces} pieces and fairseq's four, but the checkpoint has {rows} rows"
    return InputError(
        f"--dict {dictionary}: {sizes}; valid: as many rows, or up to --max-extra-rows {max_extra} "
        "more for languages and <mask>: is it this checkpoint's dictionary?"
    )


def layout_of(name: str) -> str:
    """Return the layout in which a tensor of this name has a row for each symbol, or ""."""
    return next((layout for layout, names in LAYOUTS.items() if names.fullmatch(name)), "")


class _Weights(NamedTuple):
    file: Path
    config: Dict[str, Any]  # of a Hugging Face folder, else empty


def _find_weights(path: Path) -> _Weights:
    if not path.is_dir():
        return _Weights(path, {})
    try:
        config = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        config = None
    files = [path / name for name in WEIGHTS if (path / name).is_file()]
    if not isinstance(config, dict) or not files:
        valid = f"a .pt file, or a folder with {CONFIG} and {' or '.join(WEIGHTS)}"
        raise InputError(f"--checkpoint {path}: valid: {valid}")
    return _Weights(files[0], config)


def _target_file(file: Path, config: Dict[str, Any], folder: PathLike) -> Path:
    return Path(folder) / (WEIGHTS[0] if config else file.name)


def _check_target(target: Path, source: Path, folder: PathLike) -> None:
    if target.resolve() == source.resolve():
        problem = f"would overwrite --checkpoint {source}"
        raise InputError(f"--output {folder}: {problem}; valid: another folder")


class _Entry(NamedTuple):
    """A tensor with the dictionary that holds it, and its name there."""

    holder: MutableMapping[str, Any]
    name: str
    tensor: Tensor


def _list_tensors(node: Any) -> Iterator[_Entry]:
    """Yield every tensor of nested dictionaries and lists."""
    from torch import Tensor

    if isinstance(node, MutableMapping):
        for name, part in list(node.items()):
            if isinstance(part, Tensor):
                yield _Entry(node, str(name), part)
            else:
                yield from _list_tensors(part)
    elif isinstance(node, (list, tuple)):
        for index, part in enumerate(node):
            if isinstance(part, Tensor):
                yield _Entry({}, f"[{index}]", part)
            else:
                yield from _list_tensors(part)


def cut(opened: OpenCheckpoint, ids: Sequence[int]) -> None:
    """Keep some rows, in place: new row i is old row ``ids[i]``, bit for bit; ties stay tied."""
    import torch

    index = torch.tensor(list(ids), dtype=torch.int64)
    cuts: Dict[Any, Tensor] = {}  # by place in memory
    for entry in _list_tensors(opened.state):
        if layout_of(entry.name):
            tensor = entry.tensor
            pointer, offset = tensor.untyped_storage().data_ptr(), tensor.storage_offset()
            memory = pointer, offset, tuple(tensor.shape), tensor.stride()
            if memory not in cuts:
                cuts[memory] = tensor.index_select(0, index)
            entry.holder[entry.name] = cuts[memory]
    _move_mask_marker(opened.state, ids)
    if opened.config:
        opened.config["vocab_size"] = len(ids)


def _move_mask_marker(state: Dict[str, Any], ids: Sequence[int]) -> None:
    """Renumber the row of ``<mask>`` that a VECO pre-trained here records, or drop the marker."""
    from fairseq_plugins.checkpoints.veco import MASK_ROW, mask_marker

    for entry in list(_list_tensors(state)):
        if entry.name == MASK_ROW:
            row = entry.holder.pop(MASK_ROW).size(0)
            if row in ids:
                entry.holder[MASK_ROW] = mask_marker(list(ids).index(row))


def write_checkpoint(opened: OpenCheckpoint, folder: PathLike) -> List[Path]:
    """Write a checkpoint in its own form under its own name, atomically; return the files.

    A Hugging Face folder gets model.safetensors and config.json, whatever the input's format was.
    """
    from fairseq_plugins.checkpoints.writing import save_checkpoint, save_tensors

    target = _target_file(opened.path, opened.config, folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    _check_target(target, opened.path, folder)
    if target.suffix == ".safetensors":
        tensors = {
            name: tensor.detach().clone().contiguous() for name, tensor in opened.state.items()
        }
        save_tensors(tensors, target)
    else:
        save_checkpoint(opened.state, target)
    if not opened.config:
        return [target]
    text = json.dumps(opened.config, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    write_bytes(Path(folder) / CONFIG, text.encode("utf-8"))
    return [target, Path(folder) / CONFIG]
