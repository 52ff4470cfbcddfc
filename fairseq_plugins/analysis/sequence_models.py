"""Whole encoder-decoders from untrusted files: stock architectures, built from stored options."""

import argparse
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, Mapping, NamedTuple, Optional

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel, build_model
from torch import Tensor

from ..checkpoints.bart import SHARED
from ..checkpoints.layouts import WORDS
from ..checkpoints.opening import find_settings, find_weights
from ..checkpoints.pretrained import PretrainedFile
from ..checkpoints.reading import read_checkpoint
from ..checkpoints.vocabulary import CONFIG_NAME, read_json

logger = logging.getLogger(__name__)

EMBEDDING_FILES = ("encoder_embed_path", "decoder_embed_path")
"""Options that would make a model read other files."""
VALID = (
    "an encoder-decoder of one vocabulary, as mBART: a fairseq checkpoint with its options, or a "
    "Hugging Face folder of mBART"
)
MISFITS = (AssertionError, AttributeError, TypeError)
"""Errors of fairseq for unregistered architectures and for wrong options."""
FORMAT = torch.tensor([3.0])
"""Value of the buffer ``version`` of both sides; below 2 fairseq removes the last layer norm."""
DECODER_WORDS = f"decoder.{WORDS}"


class SequenceModel(NamedTuple):
    """An encoder-decoder in evaluation mode, on the CPU."""

    model: FairseqEncoderDecoderModel
    task: Optional[str]  # of its training, if the file tells it


class StoredModel(NamedTuple):
    """Content of a file: options of model and task, and tensors in fairseq's names."""

    settings: Dict[str, Any]
    tensors: Dict[str, Tensor]


def read_sequence_model(path: str, encoder: PretrainedFile) -> SequenceModel:
    """Read a whole model.

    Args:
        encoder: its encoder, which ``checkpoints.encoders.read_encoder`` read from ``path``.

    Raises:
        ValueError: the file has no options, an unknown architecture, no decoder or different
            embeddings of its sides, or its tensors do not fit the architecture.
    """
    file = find_weights(Path(path))
    content = read_checkpoint(file)
    if isinstance(content.get("model"), Mapping):
        settings, tensors = _from_fairseq(content, file)
    else:
        settings, tensors = _from_folder(content, encoder, file)
    words = tensors.get(DECODER_WORDS)
    if words is None or not words.float().equal(tensors[f"encoder.{WORDS}"].float()):
        problem = "encoder and decoder have different embeddings of words"
        raise ValueError(f"{path}: {problem}; valid: {VALID}")
    model = _build(settings, encoder.layout.vocab_size, path)
    try:
        model.load_state_dict(tensors, strict=True, model_cfg=argparse.Namespace(**settings))
    except RuntimeError as error:  # fairseq and torch raise it for every misfit
        raise ValueError(f"{path}: {str(error).strip()}; valid: {VALID}") from None
    task = settings.get("task")
    return SequenceModel(model.eval(), None if task is None else str(task))


def _from_fairseq(content: Mapping[str, Any], file: Path) -> StoredModel:
    """Take options and tensors from a fairseq checkpoint.

    ``task`` among the options becomes the name of its task.
    """
    settings = {"task": None, **find_settings(content)}
    config = content.get("cfg")
    task = config.get("task") if isinstance(config, Mapping) else None
    if task is not None:
        task = task if isinstance(task, Mapping) else vars(task)
        settings["task"] = task.get("_name") or task.get("task") or settings.get("task")
        settings.setdefault("prepend_bos", task.get("prepend_bos"))
    if not (settings.get("arch") or settings.get("_name")):
        raise ValueError(f"{file}: its options name no architecture; valid: {VALID}")
    if settings.get("prepend_bos"):
        text = "%s: was trained with --prepend-bos; sentences are read without <s> all the same"
        logger.warning(text, file)
    return StoredModel(settings, dict(content["model"]))


def _from_folder(content: Mapping[str, Tensor], encoder: PretrainedFile, file: Path) -> StoredModel:
    """Take options and tensors from a Hugging Face folder of mBART.

    Both sides get the embedding of ``encoder``, whose rows are in fairseq's order.
    """
    config_file = file.parent / CONFIG_NAME
    config = read_json(config_file, VALID)
    if config.get("model_type") != "mbart":
        kind = config.get("model_type")
        raise ValueError(f"{config_file}: model_type = {kind!r}; valid: {VALID}")
    tensors = {f"encoder.{name}": tensor for name, tensor in encoder.tensors.items()}
    shared = f"model.{SHARED}"
    for name, tensor in content.items():
        plain = name[len("model.") :] if name.startswith("model.") else name
        if plain == DECODER_WORDS and not tensor.equal(content.get(shared, tensor)):
            raise ValueError(f"{file}: {name} differs from {shared}; valid: {VALID}")
        if plain.startswith("decoder."):
            tensors[plain] = tensor
    tensors[DECODER_WORDS] = encoder.tensors[WORDS]
    layout = encoder.layout
    settings: Dict[str, Any] = {
        "arch": "mbart_large",
        "task": None,
        "share_all_embeddings": True,
        "no_scale_embedding": not layout.scale_embedding,
        "activation_fn": layout.activation,
        "max_source_positions": layout.max_positions,
        "max_target_positions": layout.max_positions,
    }
    for side in ("encoder", "decoder"):
        tensors[f"{side}.version"] = FORMAT
        settings[f"{side}_layers"] = config.get(f"{side}_layers")
        settings[f"{side}_ffn_embed_dim"] = config.get(f"{side}_ffn_dim")
        settings[f"{side}_attention_heads"] = config.get(f"{side}_attention_heads")
        settings[f"{side}_embed_dim"] = layout.embed_dim
        settings[f"{side}_normalize_before"] = True
    return StoredModel(settings, tensors)


def _build(settings: Mapping[str, Any], rows: int, path: str) -> FairseqEncoderDecoderModel:
    """Build the architecture that the options name, with random values."""
    args = argparse.Namespace(**{**settings, **dict.fromkeys(EMBEDDING_FILES)})
    dictionary = Dictionary()
    while len(dictionary) < rows:  # a model reads the number of entries and the special ones only
        dictionary.add_symbol(f"madeupword{len(dictionary):04d}")
    # VECO reads the kind from its task; its layers and rows are those of the file in any case.
    dictionaries = {"source_dictionary": dictionary, "target_dictionary": dictionary}
    task = SimpleNamespace(**dictionaries, checkpoint_kind="run")
    try:
        model = build_model(args, task)
    except MISFITS as error:
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        name = settings.get("_name") or settings.get("arch")
        problem = f"the architecture {name} cannot be built ({reason})"
        raise ValueError(f"{path}: {problem}; valid: {VALID}") from None
    if not isinstance(model, FairseqEncoderDecoderModel):
        raise ValueError(f"{path}: {type(model).__name__} is no encoder-decoder; valid: {VALID}")
    return model
