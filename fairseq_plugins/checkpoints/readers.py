"""Reads pretrained models: a masked LM, the encoder of any known model, a causal language model.

Each reader recognises what a file is, converts it by the table of its family, takes the parts that
it needs, and checks the shape of every tensor.
"""

from typing import Callable, Mapping, Optional, Sequence

from .families import bart, deltalm, gpt, roberta, veco
from .inspection import CheckpointError
from .layouts import (
    LAYOUT_ENTRY,
    PADDING_IDX,
    WORDS,
    CausalLMLayout,
    EncoderLayout,
    expected_shapes,
    masked_lm_shapes,
)
from .loading import check_shapes, listing
from .opening import Checkpoint, open_checkpoint
from .pretrained import PretrainedFile
from .reading import PathLike
from .rows import fairseq_order, name_rows
from .vocabulary import DICTIONARY_NAME, entries_beside

Converters = Mapping[str, Callable[[Checkpoint], PretrainedFile]]

# ---- Recognise. ----

FAIRSEQ_KINDS = {
    "xlmr": "a masked LM of XLM-R's shape",
    "own": "an nlu_encoder of this package",
    "deltalm": "a DeltaLM file",
    "veco": "a VECO",
    "bart": "an encoder-decoder such as mBART or NLLB",
    "gpt": "a fairseq transformer_lm",
}
"""Kind of a fairseq checkpoint -> its name in messages."""

MODEL_TYPES = {
    **dict.fromkeys(roberta.MODEL_TYPES, "xlmr"),
    **dict.fromkeys(bart.MODEL_TYPES, "bart"),
    "bert": "bert",
    "gpt2": "gpt",
}
"""``model_type`` of a Hugging Face folder -> kind of file."""


def recognise(checkpoint: Checkpoint) -> str:
    """Return the kind of a file, as a key of the converters; empty if it is unknown.

    A folder states its ``model_type``. A fairseq checkpoint is recognised by its options or by the
    names of its tensors; only ``veco.guess_by_tensors`` looks at values.
    """
    if roberta.recognises(checkpoint):
        return "xlmr"
    if checkpoint.is_folder:
        kinds = MODEL_TYPES.items()
        return next((kind for name, kind in kinds if name == checkpoint.model_type), "")
    if checkpoint.options.get(LAYOUT_ENTRY) is not None:
        return "own"
    if deltalm.recognises(checkpoint):
        return "deltalm"
    if veco.recognises(checkpoint):
        return "veco"
    if checkpoint.has_layers("encoder", "decoder"):
        return "bart"
    return "gpt" if checkpoint.has_layers("decoder") else ""


def _convert(path: PathLike, converters: Converters, expected: str) -> PretrainedFile:
    """Read a file and convert it. Raises CheckpointError if none of the converters is for it."""
    checkpoint = open_checkpoint(path, expected)
    kind = recognise(checkpoint)
    if kind not in converters:
        raise CheckpointError(_describe_unknown(checkpoint, kind, converters, expected))
    model = converters[kind](checkpoint)
    model.name_rows(entries_beside(checkpoint.file), DICTIONARY_NAME)
    return model


def _describe_unknown(
    checkpoint: Checkpoint, kind: str, converters: Converters, expected: str
) -> str:
    if checkpoint.is_folder:
        types = ", ".join(sorted(name for name in MODEL_TYPES if MODEL_TYPES[name] in converters))
        model_type = f"model_type = {checkpoint.model_type!r}"
        return f"{checkpoint.options_origin}: {model_type}, expected one of {types}"
    if kind:
        return f"{checkpoint.origin}: is {FAIRSEQ_KINDS[kind]}; expected {expected}"
    entries = listing(sorted(map(str, checkpoint.entries)))
    names = listing(list(map(str, checkpoint.tensors)), 4)
    return (
        f"{checkpoint.origin}: holds the entries {entries}; its tensors ({names}) are of no known "
        f"layout; expected {expected}"
    )


# ---- Masked LMs. ----

MASKED_LM = (
    "a masked LM of XLM-R's shape: a fairseq checkpoint, a VECO that was pre-trained here, or a "
    "folder of model_type xlm-roberta"
)
MASKED_LMS: Converters = {
    "veco": veco.convert_masked_lm,
    "xlmr": roberta.convert,
}


def read_masked_lm(
    path: PathLike, heads: Optional[int] = None, label: str = "heads=…"
) -> PretrainedFile:
    """Read a masked LM of XLM-R's shape, in the names of ``MaskedLM``, without the tied output.

    Args:
        path: a fairseq ``model.pt`` (XLM-R, InfoXLM, or a VECO that was pre-trained here) or its
            folder, or a Hugging Face XLM-RoBERTa folder (also a VECO's) or its weights file.
        heads: number of heads, for a file that does not state it.
        label: how the caller's user gives the heads, for messages.

    Returns:
        the file; its ``sizes`` are the fields of ``MaskedLMSizes``.

    Raises:
        CheckpointError: unreadable, untrusted, of another format, with tensors that are not
            accounted for, or contradictory.
    """
    model = _convert(path, MASKED_LMS, MASKED_LM)
    model.take({"encoder.": "sentence_encoder.", "lm_head.": "lm_head."}, "a masked LM")
    model.find_sizes(heads, label, "sentence_encoder.")
    check_shapes(model.tensors, masked_lm_shapes(model.sizes), model.origin, model.expected)
    return model


# ---- Encoders. ----

ENCODER = (
    "XLM-R, InfoXLM, mBART, mBART-50, NLLB, M2M-100, VECO (fairseq, Hugging Face), BERT (Hugging "
    "Face), DeltaLM or an nlu_encoder"
)
ENCODERS: Converters = {
    "veco": veco.convert_encoder,
    "xlmr": roberta.convert,
    "bert": roberta.convert_bert,
    "own": bart.convert_own,
    "deltalm": deltalm.convert_encoder,
    "bart": bart.convert,
}


def read_encoder(
    path: PathLike,
    heads: Optional[int] = None,
    label: str = "heads=…",
    languages: Sequence[str] = (),
) -> PretrainedFile:
    """Read the encoder of any known model, in the names of fairseq's ``TransformerEncoder``.

    Args:
        path: a checkpoint or a folder with one: fairseq's ``model.pt`` (``dict.txt``, or equal
            ``dict.LANG.txt``, beside it) or a Hugging Face folder.
        heads: number of heads; released DeltaLM and old XLM-R files do not state it.
        label: how the caller's user gives the heads, for messages.
        languages: in the order of their rows, for files that do not state them.

    Returns:
        the file; its ``layout`` is an ``EncoderLayout``. The rows of the embedding have the
        order that a fairseq dictionary forces. Segments are ``segment_embeddings.weight``.

    Raises:
        CheckpointError: as :func:`read_masked_lm`.
    """
    model = _convert(path, ENCODERS, ENCODER)
    model.take({"encoder.": ""}, "an encoder")
    name_rows(model, model.matrix(WORDS).size(0), languages)
    if not model.entries and model.padding_idx != PADDING_IDX:
        raise CheckpointError(
            f"{model.origin}: no vocabulary lies beside it; expected {model.expected}"
        )
    model.find_sizes(heads, label)
    layout = model.layout = EncoderLayout(**{**model.sizes, **model.wiring})
    check_shapes(model.tensors, expected_shapes(layout), model.origin, model.expected)
    order = fairseq_order(model.entries, layout.family, model.origin) if model.entries else []
    if order != list(range(len(order))):
        unnamed = range(len(order), layout.vocab_size)
        model.tensors[WORDS] = model.tensors[WORDS][[*order, *unnamed]]
        model.entries = tuple(model.entries[row] for row in order)
    return model


# ---- Causal language models. ----

CAUSAL_LM = "a Hugging Face GPT-2 (model_type gpt2) or a fairseq transformer_lm"
CAUSAL_LMS: Converters = {"gpt": gpt.convert}


def read_causal_lm(
    path: PathLike, heads: Optional[int] = None, label: str = "heads=…"
) -> PretrainedFile:
    """Read a causal language model, in the names of fairseq's ``TransformerDecoder``.

    Args:
        path: a Hugging Face GPT-2 folder or its weights file, or a fairseq ``transformer_lm``.
            ``dict.txt`` or the tokenizer's files beside it tell the vocabulary.
        heads: number of heads, for a file that does not state it.
        label: how the caller's user gives the heads, for messages.

    Returns:
        the file; its ``layout`` is a ``CausalLMLayout``. A tied output projection is left out.

    Raises:
        CheckpointError: as :func:`read_masked_lm`.
    """
    model = _convert(path, CAUSAL_LMS, CAUSAL_LM)
    model.take({"decoder.": ""}, "a language model")
    model.find_sizes(heads, label)
    is_tied = gpt.OUTPUT not in model.tensors
    layout = model.layout = CausalLMLayout(**{**model.sizes, **model.wiring}, tied=is_tied)
    check_shapes(model.tensors, expected_shapes(layout), model.origin, model.expected)
    model.entries = tuple(gpt.name_rows(model))
    return model
