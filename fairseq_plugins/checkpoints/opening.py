"""Opens a pretrained model: its weights file, the options of the model, and its kind.

A path names a weights file or its folder. A fairseq checkpoint holds the model's options itself;
Hugging Face's weights have them in ``config.json`` beside the file.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

import torch
from torch import Tensor

from .inspection import CheckpointError
from .layouts import LAYOUT_ENTRY, POSITIONS, PRETRAINED_HERE
from .loading import listing
from .reading import PathLike, read_checkpoint
from .vocabulary import CONFIG_NAME, as_dict, read_json

_FAIRSEQ_NAME = "model.pt"
_WEIGHT_NAMES = ("model.safetensors", "pytorch_model.bin", _FAIRSEQ_NAME)


@dataclass(frozen=True)
class Checkpoint:
    """A fairseq checkpoint or a Hugging Face folder, before it is converted.

    Attributes:
        entries: everything in the file.
        tensors: the model's tensors by their names in the file.
        is_folder: True for a Hugging Face folder, False for a fairseq checkpoint.
        options: options of the model; for a folder, the content of ``config.json``.
    """

    file: Path
    entries: Mapping[str, Any]
    tensors: Mapping[str, Any]
    is_folder: bool
    options: Mapping[str, Any]

    @property
    def origin(self) -> str:
        """Name of the file in messages."""
        return f"checkpoint {self.file}"

    @property
    def options_origin(self) -> str:
        """Name of the file that holds the options, in messages."""
        return f"checkpoint {self.folder / CONFIG_NAME}" if self.is_folder else self.origin

    @property
    def folder(self) -> Path:
        """Folder that holds the file."""
        return self.file.parent

    @property
    def arch(self) -> str:
        """Architecture of a fairseq checkpoint; empty if its options do not name it."""
        return str(self.options.get("arch") or self.options.get("_name") or "")

    @property
    def model_type(self) -> Optional[str]:
        """Architecture of a Hugging Face folder; None if its configuration does not name it."""
        return self.options.get("model_type")

    def has_layers(self, *sides: str) -> bool:
        """Return True if each of these sides has tensors of the name ``SIDE.layers.*``."""
        starts = [f"{side}.layers." for side in sides]
        return all(any(name.startswith(start) for name in self.tensors) for start in starts)

    def refuse(self, problems: Sequence[str], expected: str) -> None:
        """Raise CheckpointError that lists the problems with the options, if there are any."""
        if problems:
            text = "; ".join(problems)
            raise CheckpointError(f"{self.options_origin}: {text}; expected {expected}")


def find_weights(path: Path) -> Path:
    """Return the path itself, or the weights file in it if it is a folder.

    Raises:
        CheckpointError: the folder has no weights, weights in several parts, or both a fairseq
            checkpoint and Hugging Face's weights.
    """
    if not path.is_dir():
        return path
    present = [name for name in _WEIGHT_NAMES if (path / name).is_file()]
    if _FAIRSEQ_NAME in present and len(present) > 1:
        names = " and ".join(present)
        raise CheckpointError(f"checkpoint {path}: holds {names}; name the file that is meant")
    if present:
        return path / present[0]
    is_split = any(path.glob("*.index.json"))
    reason = "its weights are split over several files" if is_split else "the folder has no weights"
    names = ", ".join(_WEIGHT_NAMES)
    raise CheckpointError(f"checkpoint {path}: {reason}; expected one of {names}")


def open_checkpoint(path: PathLike, expected: str) -> Checkpoint:
    """Read a weights file, or the one in a folder, and the options of its model.

    Args:
        expected: description of the files that the caller reads, for messages.

    Raises:
        CheckpointError: the file is unreadable, untrusted, or of neither format.
    """
    file = find_weights(Path(path))
    entries, origin = read_checkpoint(file), f"checkpoint {file}"
    for key in ("model", "weights"):  # the latter in the release of DeltaLM
        if isinstance(entries.get(key), Mapping):
            _check_names(entries[key], origin)
            return Checkpoint(file, entries, entries[key], False, find_settings(entries))
    _check_names(entries, origin)
    if not entries or not all(isinstance(entry, Tensor) for entry in entries.values()):
        names = listing(sorted(entries)) or "(none)"
        raise CheckpointError(f"{origin}: holds the entries {names}; expected {expected}")
    return Checkpoint(file, entries, entries, True, read_json(file.parent / CONFIG_NAME, expected))


def _check_names(tensors: Mapping[Any, Any], origin: str) -> None:
    for name in tensors:
        if not isinstance(name, str):
            kind = type(name).__name__
            reason = f"the name of a tensor is of type {kind}, expected text"
            raise CheckpointError(f"{origin}: {reason}")


# ---- Options. ----


def find_settings(entries: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the options of a fairseq checkpoint's model; empty if it has none.

    Old checkpoints store them in ``args``, current ones in ``cfg["model"]``.
    """
    args = entries.get("args")
    return as_dict(as_dict(entries.get("cfg")).get("model") if args is None else args)


def differing(options: Mapping[str, Any], expected: Mapping[str, Any]) -> List[str]:
    """Describe the options whose value is not valid. An option that is missing or None is valid.

    Args:
        expected: name of an option -> its valid value, or a tuple of its valid values.
    """
    problems = []
    for name, values in expected.items():
        valid = values if isinstance(values, tuple) else (values,)
        if options.get(name) is not None and options[name] not in valid:
            choices = " or ".join(map(repr, valid))
            problems.append(f"{name} = {options[name]!r}, expected {choices}")
    return problems


# ---- Kinds. ----

KINDS = {
    "xlmr": "a masked LM of XLM-R's shape",
    "bert": "a BERT",
    "own": "an nlu_encoder of this package",
    "deltalm": "a DeltaLM file",
    "veco": "a VECO",
    "bart": "an encoder-decoder such as mBART or NLLB",
    "gpt": "a fairseq transformer_lm",
}
"""Kind of a file -> its name in messages."""

MODEL_TYPES = {
    "xlm-roberta": "xlmr",
    "roberta": "xlmr",
    "camembert": "xlmr",
    "bert": "bert",
    "mbart": "bart",
    "m2m_100": "bart",
    "gpt2": "gpt",
}
"""``model_type`` of a Hugging Face folder -> kind."""

UNREADABLE_TYPES = {
    "modernbert": "rotary positions and gated feed-forward blocks (mmBERT)",
    "eurobert": "rotary positions, gated feed-forward blocks and RMSNorm (EuroBERT)",
    "new": "rotary positions and gated feed-forward blocks (gte)",
    "nomic_bert": "rotary positions and gated feed-forward blocks",
    "xlm-roberta-xl": "norms before the blocks (XLM-R XL)",
    "deberta-v2": "relative positions (mDeBERTa)",
    "rembert": "embeddings of another width",
    "albert": "layers that share their weights",
    "distilbert": "names and options of its own",
    "t5": "relative positions (mT5)",
    "mt5": "relative positions (mT5)",
}
"""``model_type`` of a multilingual model that this package does not read -> the reason."""

_DELTALM_NAME = re.compile(
    r"(?:src|tgt)_embedding\..*|decoder\.layers\.\d+\.(?:fc3|ffn_1\.fc1)\..*"
)


def recognise(checkpoint: Checkpoint) -> str:
    """Return the kind of a file, as a key of :data:`KINDS`; empty if it is unknown.

    A Hugging Face folder states its ``model_type``, except folders from before transformers 2.3
    such as VECO's. A fairseq checkpoint is recognised by its options and the names of its tensors;
    only :func:`guess_veco` compares their values.
    """
    names = checkpoint.tensors
    if checkpoint.is_folder:
        model_type = checkpoint.model_type
        if model_type is None and any(name.startswith("roberta.embeddings.") for name in names):
            return "xlmr"
        return MODEL_TYPES.get(model_type, "") if isinstance(model_type, str) else ""
    if any("sentence_encoder." in name for name in names):
        return "xlmr"
    if checkpoint.options.get(LAYOUT_ENTRY) is not None:
        return "own"
    if "weights" in checkpoint.entries or checkpoint.arch.startswith("deltalm"):
        return "deltalm"
    if any(_DELTALM_NAME.fullmatch(name) for name in names):
        return "deltalm"
    if not checkpoint.has_layers("encoder", "decoder"):
        return "gpt" if checkpoint.has_layers("decoder") else ""
    if checkpoint.arch.startswith(("mbart", "bart")):
        return "bart"
    is_veco = checkpoint.arch.startswith("veco") or guess_veco(checkpoint.tensors)
    return "veco" if is_veco else "bart"


def guess_veco(tensors: Mapping[str, Any]) -> bool:
    """Return True if an encoder-decoder whose options name no VECO is probably one.

    It then has XLM-R's shape, and either a masked-LM head or a decoder that began as the encoder's
    layers. After fine-tuning these layers differ, and nothing distinguishes the VECO from a BART:
    ``bart`` refuses such a file. This is the only place where the kind of a file is guessed.
    """
    if not has_xlmr_shape(tensors):
        return False
    return PRETRAINED_HERE in tensors or _decoder_repeats_encoder(tensors)


def has_xlmr_shape(names: Mapping[str, Any]) -> bool:
    """Return True if the encoder has learned positions, an embedding norm and no final norm."""
    required = (f"encoder.{POSITIONS}", "encoder.layernorm_embedding.weight")
    return all(name in names for name in required) and "encoder.layer_norm.weight" not in names


def _decoder_repeats_encoder(tensors: Mapping[str, Any]) -> bool:
    """Return True if ``fc1`` of the first decoder layer equals that of any encoder layer."""
    first = tensors.get("decoder.layers.0.fc1.weight")
    if not isinstance(first, Tensor):
        return False
    for name, tensor in tensors.items():
        if re.fullmatch(r"encoder\.layers\.\d+\.fc1\.weight", name) and isinstance(tensor, Tensor):
            if torch.equal(tensor, first):
                return True
    return False
