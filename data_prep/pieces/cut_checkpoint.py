"""Checkpoints of known layouts with fewer rows of vocabulary: kept rows bit-equal, tied tensors tied, the rest untouched."""

from __future__ import annotations  # torch is imported where a checkpoint is opened

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, MutableMapping, Sequence, Tuple

from ..files import write_bytes
from ..io import InputError, PathLike

if TYPE_CHECKING:
    from torch import Tensor

# Layout -> names of the tensors that have a row for each symbol of the dictionary. Biases of the output belong to them.
LAYOUTS: Dict[str, re.Pattern[str]] = {
    "XLM-R, VECO's head": re.compile(
        r"(?:model_(?:fast|slow)\.)?(?:(?:encoder|decoder)\.)?(?:sentence_encoder\.embed_tokens\.weight|lm_head\.(?:weight|bias))"
    ),
    "mBART, VECO (generation), DeltaLM (fine-tuned)": re.compile(
        r"(?:encoder|decoder)\.(?:embed_tokens\.weight|output_projection\.(?:weight|bias))"
    ),
    "DeltaLM (released)": re.compile(r"(?:src|tgt)_embedding\.embed_tokens\.weight"),
    "Hugging Face XLM-RoBERTa, VECO (understanding)": re.compile(
        r"(?:\w+\.)?embeddings\.word_embeddings\.weight|lm_head\.decoder\.(?:weight|bias)"
        r"|cls\.predictions\.(?:bias|decoder\.(?:weight|bias))"
    ),
}
FORGOTTEN = "last_optimizer_state"  # its moments have the old rows; training starts anew from a cut checkpoint
CONFIG = "config.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")


@dataclass
class Opened:
    """A checkpoint in memory.

    Attributes:
        path: the file, or the file of weights in a Hugging Face folder.
        state: its content.
        rows: symbols of its dictionary.
        tensors: names of the tensors with a row for each of them.
        layouts: which layouts those names belong to.
        config: ``config.json`` of a Hugging Face folder, else empty.
    """

    path: Path
    state: Dict[str, Any]
    rows: int = 0
    tensors: List[str] = field(default_factory=list)
    layouts: List[str] = field(default_factory=list)
    config: Dict[str, Any] = field(default_factory=dict)


def open_checkpoint(path: PathLike) -> Opened:
    """Read a checkpoint without running code from it, and find the tensors that have a row for each symbol.

    Args:
        path: fairseq ``.pt`` file, or a Hugging Face folder with ``config.json``.

    Raises:
        InputError: unreadable, untrusted, none of ``LAYOUTS``, or a tensor of the vocabulary's size that is not known.
    """
    from fairseq_plugins.checkpoints import (  # imports fairseq: only where it is needed
        CheckpointError,
        read_checkpoint,
    )

    file, config = _weights_of(Path(path))
    try:
        opened = Opened(file, read_checkpoint(file), config=config)
    except CheckpointError as error:
        raise InputError(f"--checkpoint: {error}") from None
    opened.state.pop(FORGOTTEN, None)
    sizes: Dict[int, List[str]] = {}
    for holder, name in _tensors(opened.state):
        layout = layout_of(name)
        if layout:
            tensor = holder[name]
            sizes.setdefault(tensor.size(0) if tensor.dim() else 0, []).append(name)
            opened.tensors.append(name)
            opened.layouts += [layout] if layout not in opened.layouts else []
    if not sizes:
        raise InputError(
            f"--checkpoint {path}: no tensor with a row for each symbol; valid: the layouts of {'; '.join(LAYOUTS)}"
        )
    if len(sizes) > 1:
        listed = ", ".join(f"{names[0]} has {size}" for size, names in sorted(sizes.items()))
        raise InputError(
            f"--checkpoint {path}: different numbers of rows: {listed}; valid: one dictionary for both sides"
        )
    opened.rows = next(iter(sizes))
    _refuse_unknown(opened, path)
    return opened


def check_checkpoint(path: PathLike, folder: Path, dictionary: PathLike, pieces: int, max_extra: int) -> None:
    """Check what can be checked of a checkpoint and of where its cut goes, without reading its tensors.

    Args:
        path: as in :func:`open_checkpoint`.
        folder: for the outputs.
        dictionary: dict.txt, for messages.
        pieces: that it lists.
        max_extra: most rows after those of dict.txt.

    Raises:
        InputError: no such file, one that would be overwritten, or a configuration of another vocabulary.
    """
    file, config = _weights_of(Path(path))
    if not file.is_file():
        raise InputError(f"--checkpoint {path}: no such file; valid: a .pt file, or a Hugging Face folder")
    if _target(file, config, folder).resolve() == file.resolve():
        raise InputError(f"--output {folder}: would overwrite --checkpoint {file}; valid: another folder")
    rows = config.get("vocab_size")
    if isinstance(rows, int) and not 0 <= rows - pieces - 4 <= max_extra:
        raise wrong_rows(dictionary, pieces, rows, max_extra)


def wrong_rows(dictionary: PathLike, pieces: int, rows: int, max_extra: int) -> InputError:
    """The error of a dictionary that is not that of a checkpoint."""
    return InputError(
        f"--dict {dictionary}: {pieces} pieces and fairseq's four, but the checkpoint has {rows} rows; valid: as many rows, or up "
        f"to --max-extra-rows {max_extra} more for languages and <mask>: is it this checkpoint's dictionary?"
    )


def _target(file: Path, config: Dict[str, Any], folder: PathLike) -> Path:
    return Path(folder) / (WEIGHTS[0] if config else file.name)


def layout_of(name: str) -> str:
    """Return the layout in which a tensor of this name has a row for each symbol, or ""."""
    return next((layout for layout, names in LAYOUTS.items() if names.fullmatch(name)), "")


def _weights_of(path: Path) -> Tuple[Path, Dict[str, Any]]:
    if not path.is_dir():
        return path, {}
    try:
        config = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        config = None
    present = [path / name for name in WEIGHTS if (path / name).is_file()]
    if not isinstance(config, dict) or not present:
        raise InputError(
            f"--checkpoint {path}: valid: a .pt file, or a folder with {CONFIG} and {' or '.join(WEIGHTS)}"
        )
    return present[0], config


def _tensors(node: Any) -> Iterator[Tuple[MutableMapping[str, Any], str]]:
    """Yield every tensor of nested dictionaries and lists as the dictionary that holds it and its name there."""
    from torch import Tensor

    if isinstance(node, MutableMapping):
        for name, value in list(node.items()):
            if isinstance(value, Tensor):
                yield node, name
            else:
                yield from _tensors(value)
    elif isinstance(node, (list, tuple)):
        for index, value in enumerate(node):
            if isinstance(value, Tensor):
                yield {f"[{index}]": value}, f"[{index}]"
            else:
                yield from _tensors(value)


def _refuse_unknown(opened: Opened, path: PathLike) -> None:
    unknown = [
        f"{name} {tuple(holder[name].shape)}"
        for holder, name in _tensors(opened.state)
        if not layout_of(str(name)) and (opened.rows in holder[name].shape or "adaptive_softmax" in str(name))
    ]
    if unknown:
        raise InputError(
            f"--checkpoint {path}: {len(unknown)} tensors may have a row for each of the {opened.rows} symbols, but are not "
            f"known: {', '.join(unknown[:5])}; valid: the layouts of {'; '.join(LAYOUTS)}"
        )


def cut(opened: Opened, ids: Sequence[int]) -> None:
    """Keep only these rows, in place: new row i is old row ``ids[i]``, bit for bit. What shared memory still does."""
    import torch

    index = torch.tensor(list(ids), dtype=torch.int64)
    done: Dict[Tuple[Any, ...], Tensor] = {}
    for holder, name in _tensors(opened.state):
        if layout_of(name):
            tensor = holder[name]
            memory = tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tuple(tensor.shape), tensor.stride()
            if memory not in done:
                done[memory] = tensor.index_select(0, index)
            holder[name] = done[memory]
    _move_mark(opened.state, ids)
    if opened.config:
        opened.config["vocab_size"] = len(ids)


def _move_mark(state: Dict[str, Any], ids: Sequence[int]) -> None:
    """A VECO that was pre-trained here says which row is that of ``<mask>``: it has another number now, or is gone."""
    from fairseq_plugins.checkpoints.families.veco import MASK_ROW, mask_marker

    for holder, name in list(_tensors(state)):
        if name == MASK_ROW:
            row = holder.pop(name).size(0)
            if row in ids:
                holder[name] = mask_marker(list(ids).index(row))


def write_checkpoint(opened: Opened, folder: PathLike) -> List[Path]:
    """Write the checkpoint in its own form under its own name, atomically; returns the files.

    A Hugging Face folder gets ``model.safetensors`` and ``config.json``, whatever its weights were stored in.
    """
    from fairseq_plugins.checkpoints.writing import save_checkpoint, save_tensors

    target = _target(opened.path, opened.config, folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.resolve() == opened.path.resolve():
        raise InputError(f"--output {folder}: would overwrite --checkpoint {opened.path}; valid: another folder")
    if target.suffix == ".safetensors":
        save_tensors({name: tensor.detach().clone().contiguous() for name, tensor in opened.state.items()}, target)
    else:
        save_checkpoint(opened.state, target)
    if not opened.config:
        return [target]
    text = json.dumps(opened.config, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    write_bytes(Path(folder) / CONFIG, text.encode("utf-8"))
    return [target, Path(folder) / CONFIG]
