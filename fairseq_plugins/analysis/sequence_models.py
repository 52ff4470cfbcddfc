"""Whole encoder-decoders from files that may come from anybody: the stock architecture, built from the file's options."""

import argparse
import logging
import re
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

FILES = ("encoder_embed_path", "decoder_embed_path")
"""Options that would make a model read other files."""
VALID = "an encoder-decoder of one vocabulary, as mBART: a fairseq checkpoint with its options, or a Hugging Face folder of mBART"
MISFITS = (AssertionError, AttributeError, TypeError)
"""What fairseq raises for architectures that are not registered and for options that are amiss."""
FORMAT = torch.tensor([3.0])
"""Format counter of fairseq's encoders and decoders; below 2 the layer norm after the last layer is taken out."""
_MODEL = "model."
_DECODER_WORDS = "decoder." + WORDS


class SequenceModel(NamedTuple):
    """An encoder-decoder in evaluation mode, on the CPU, and the name of the task of its training, where the file tells it."""

    model: FairseqEncoderDecoderModel
    task: Optional[str]


def read_sequence_model(path: str, encoder: PretrainedFile) -> SequenceModel:
    """Read a whole model whose encoder is known: ``encoder`` is what ``checkpoints.encoders.read_encoder`` read from ``path``.

    Raises ValueError: no options in the file, an unknown architecture, no encoder-decoder, two vocabularies, or tensors that do not
    fit.
    """
    file = find_weights(Path(path))
    content = read_checkpoint(file)
    if isinstance(content.get("model"), Mapping):
        settings, tensors = _from_fairseq(content, file)
    else:
        settings, tensors = _from_folder(content, encoder, file)
    rows = encoder.layout.vocab_size
    words = tensors.get(_DECODER_WORDS)
    if words is None or not words.float().equal(tensors["encoder." + WORDS].float()):
        raise ValueError(f"{path}: encoder and decoder have different embeddings of words; valid: {VALID}")
    model = _build(settings, rows, path)
    try:
        model.load_state_dict(tensors, strict=True, model_cfg=argparse.Namespace(**settings))
    except RuntimeError as error:  # fairseq and torch report every misfit as one
        raise ValueError(f"{path}: {str(error).strip()}; valid: {VALID}") from None
    task = settings.get("task")
    return SequenceModel(model.eval(), None if task is None else str(task))


def _from_fairseq(content: Mapping[str, Any], file: Path) -> "tuple[Dict[str, Any], Dict[str, Tensor]]":
    """Options of model and task, and tensors."""
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
        logger.warning("%s: was trained with --prepend-bos; sentences are read without <s> all the same", file)
    return settings, dict(content["model"])


def _from_folder(
    content: Mapping[str, Tensor], encoder: PretrainedFile, file: Path
) -> "tuple[Dict[str, Any], Dict[str, Tensor]]":
    """The same of a Hugging Face folder of mBART, whose rows of words are put in fairseq's order."""
    config = read_json(file.parent / CONFIG_NAME, VALID)
    if config.get("model_type") != "mbart":
        raise ValueError(f"{file.parent / CONFIG_NAME}: model_type = {config.get('model_type')!r}; valid: {VALID}")
    tensors = {f"encoder.{name}": tensor for name, tensor in encoder.tensors.items()}
    for name, tensor in content.items():
        plain = re.sub(rf"^{re.escape(_MODEL)}", "", name)
        if plain == _DECODER_WORDS and not tensor.equal(content.get(_MODEL + SHARED, tensor)):
            raise ValueError(f"{file}: {name} differs from {_MODEL + SHARED}; valid: {VALID}")
        if plain.startswith("decoder."):
            tensors[plain] = tensor
    tensors[_DECODER_WORDS] = encoder.tensors[WORDS]
    layout = encoder.layout
    settings: Dict[str, Any] = {"arch": "mbart_large", "task": None, "share_all_embeddings": True}
    settings.update(no_scale_embedding=not layout.scale_embedding, activation_fn=layout.activation)
    settings.update(dict.fromkeys(("max_source_positions", "max_target_positions"), layout.max_positions))
    for side in ("encoder", "decoder"):
        tensors[f"{side}.version"] = FORMAT
        sizes = {"layers": "layers", "ffn_embed_dim": "ffn_dim", "attention_heads": "attention_heads"}
        settings.update({f"{side}_{ours}": config.get(f"{side}_{theirs}") for ours, theirs in sizes.items()})
        settings.update({f"{side}_embed_dim": layout.embed_dim, f"{side}_normalize_before": True})
    return settings, tensors


def _build(settings: Mapping[str, Any], rows: int, path: str) -> FairseqEncoderDecoderModel:
    """The architecture that the options name, with random values."""
    args = argparse.Namespace(**{**settings, **dict.fromkeys(FILES)})
    dictionary = Dictionary()
    while len(dictionary) < rows:  # a model takes the number of its entries and the special ones only
        dictionary.add_symbol(f"madeupword{len(dictionary):04d}")
    # A VECO has the layers and rows of its file, whatever its kind.
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary, checkpoint_kind="run")
    try:
        model = build_model(args, task)
    except MISFITS as error:
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        name = settings.get("_name") or settings.get("arch")
        raise ValueError(f"{path}: the architecture {name} cannot be built ({reason}); valid: {VALID}") from None
    if not isinstance(model, FairseqEncoderDecoderModel):
        raise ValueError(f"{path}: {type(model).__name__} is no encoder-decoder; valid: {VALID}")
    return model
