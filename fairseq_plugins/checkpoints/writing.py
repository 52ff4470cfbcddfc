"""Writes checkpoints so that a kill or a full disk leaves the previous file intact."""

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any, Dict, Mapping, Tuple

import safetensors.torch
import torch
from torch import Tensor

from data_prep.files import atomic_file, atomic_path

from .inspection import CheckpointError
from .layouts import WORDS, masked_lm_shapes
from .loading import check_shapes, listing
from .masked_lm import (
    EMBEDDING_NAMES,
    FAIRSEQ_EPSILON,
    FOLDER_SIZES,
    LAYER_NAMES,
    MODEL_TYPE,
    OUTPUT,
)
from .metadata import stamped
from .reading import FINGERPRINT, PathLike, fingerprint
from .vocabulary import CONFIG_NAME


def save_checkpoint(state: Any, path: PathLike) -> None:
    """Save atomically: the file appears under its name once all of it is on disk.

    Raises as :func:`atomic_path`.
    """
    with atomic_file(path) as file:
        torch.save(state, file)


def start_state(
    model: Mapping[str, Tensor], updates: int = 0, epoch: int = 1, **entries: Any
) -> Dict[str, Any]:
    """Return a fairseq checkpoint from which training can start, with this process's versions.

    Args:
        updates: number of updates made so far.
        epoch: epoch that training continues, counted from 1.
        entries: further entries of the checkpoint.
    """
    state: Dict[str, Any] = {
        "args": None,
        "cfg": None,
        "model": model,
        "criterion": None,
        "task_state": {},
        **entries,
    }
    state["optimizer_history"] = [{"num_updates": updates, "lr_scheduler_state": {}}]
    state["extra_state"] = {
        "train_iterator": {"epoch": epoch, "iterations_in_epoch": 0, "version": 2}
    }
    return dict(stamped(state))


def save_tensors(tensors: Mapping[str, Tensor], path: PathLike) -> None:
    """Write a safetensors file atomically, with the default permissions of a new file.

    Its metadata have the fingerprint of the tensors. Raises as :func:`atomic_path`.
    """
    metadata = {"format": "pt", FINGERPRINT: fingerprint(tensors)}
    with atomic_path(path) as temporary:
        try:
            safetensors.torch.save_file(dict(tensors), str(temporary), metadata=metadata)
        except safetensors.SafetensorError as error:
            code = re.search(r"os error (\d+)", str(error))  # a full disk, for example
            if not code:
                raise
            raise OSError(int(code[1]), os.strerror(int(code[1]))) from error
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # safetensors lets only the owner read the file


def write_json(content: Mapping[str, Any], path: PathLike) -> None:
    """Write a JSON object atomically, its keys sorted. Raises as :func:`atomic_path`."""
    text = json.dumps(content, indent=2, sort_keys=True, allow_nan=False)
    with atomic_path(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def memory_of(tensor: Tensor) -> Tuple[Any, ...]:
    """Return a key that is equal for two names of one tensor: its memory, shape and dtype."""
    return tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def tied_names(model: Mapping[str, Tensor]) -> Dict[str, str]:
    """Map each further name of a tied tensor to its first. Empty tensors do not count as tied."""
    first: Dict[Any, str] = {}
    tied = {}
    for name, tensor in model.items():
        owner = first.setdefault(memory_of(tensor), name) if tensor.numel() else name
        if owner != name:
            tied[name] = owner
    return tied


# ---- Write a masked LM as a Hugging Face folder. ----

_THEIR_NAMES = {ours: theirs for theirs, ours in {**EMBEDDING_NAMES, **LAYER_NAMES}.items()}


def exported_name(name: str, prefix: str = "roberta") -> str:
    """Return Hugging Face's name of a ``MaskedLM`` tensor, with this prefix of the encoder."""
    part, _, inner = name.partition(".")
    if part == "lm_head":
        return name
    module, _, kind = inner.rpartition(".")
    layer = re.fullmatch(r"layers\.(\d+)\.(.+)", module)
    if layer:
        return f"{prefix}.encoder.layer.{layer[1]}.{_THEIR_NAMES[layer[2]]}.{kind}"
    return f"{prefix}.embeddings.{_THEIR_NAMES[module]}.{kind}"


def write_masked_lm(
    folder: PathLike, sizes: Any, tensors: Mapping[str, Tensor], dtype: torch.dtype = torch.float16
) -> str:
    """Write a masked LM as a Hugging Face folder; each of its two files is replaced atomically.

    Args:
        folder: receives ``config.json`` and ``model.safetensors``.
        sizes: ``MaskedLMSizes``, or a mapping with its fields.
        tensors: tensors by their names in ``MaskedLM``; the tied ``lm_head.weight`` may be missing.
        dtype: dtype to which the tensors are rounded.

    Returns:
        the fingerprint of the *rounded* tensors, which ``read_masked_lm`` returns for the folder.

    Raises:
        CheckpointError: names or shapes are not those of a masked LM of these sizes, or ``dtype``
            cannot hold a number.
    """
    numbers = dict(sizes) if isinstance(sizes, Mapping) else dataclasses.asdict(sizes)
    rounded = _round(tensors, numbers, dtype, f"masked LM for {folder}")
    folder_tensors = {exported_name(name): tensor for name, tensor in rounded.items()}
    token_types = torch.zeros(1, numbers["embed_dim"], dtype=dtype)
    folder_tensors[exported_name("sentence_encoder.segment_embeddings.weight")] = token_types
    Path(folder).mkdir(parents=True, exist_ok=True)
    save_tensors(folder_tensors, Path(folder) / "model.safetensors")
    config = {
        **{option: numbers[size] for size, option in FOLDER_SIZES.items()},
        "architectures": ["XLMRobertaForMaskedLM"],
        "hidden_act": "gelu",
        "layer_norm_eps": numbers.get("epsilon", FAIRSEQ_EPSILON),
        "max_position_embeddings": numbers["max_positions"] + numbers["padding_idx"] + 1,
        "model_type": MODEL_TYPE,
        "pad_token_id": numbers["padding_idx"],
        "torch_dtype": str(dtype).rsplit(".", 1)[-1],
        "type_vocab_size": 1,
    }
    write_json(config, Path(folder) / CONFIG_NAME)
    return fingerprint(rounded)


def _round(
    tensors: Mapping[str, Tensor], sizes: Mapping[str, int], dtype: torch.dtype, origin: str
) -> Dict[str, Tensor]:
    """Check the tensors of a masked LM, and return copies in ``dtype`` without the tied output.

    Raises:
        CheckpointError: as :func:`write_masked_lm`, or the output is not tied.
    """
    untied = {name: tensor for name, tensor in tensors.items() if name != OUTPUT}
    expected = "the tensors of masked_lm.model.MaskedLM"
    check_shapes(untied, masked_lm_shapes(sizes), origin, expected)
    output = tensors.get(OUTPUT)
    if output is not None and not torch.equal(output, untied[f"sentence_encoder.{WORDS}"]):
        reason = f"{OUTPUT} differs from the token embedding, expected a tie"
        raise CheckpointError(f"{origin}: {reason}")
    rounded = {}
    for name, tensor in untied.items():
        rounded[name] = tensor.detach().to("cpu", dtype, copy=True).contiguous()
    infinite = [name for name, tensor in rounded.items() if not tensor.isfinite().all()]
    if infinite:
        names = listing(infinite)
        raise CheckpointError(f"{origin}: values that are not finite in {dtype}: {names}")
    return rounded
