"""Reads mBART, NLLB, M2M-100 and DeltaLM, and the encoders that this package trained.

Only the encoder of an mBART, NLLB or M2M-100 is read. Hugging Face's names differ from fairseq's
in ``model.`` and ``shared`` only. A DeltaLM is read as a whole, or its encoder alone.
"""

import logging
from dataclasses import asdict

from .inspection import CheckpointError
from .layouts import (
    LANGUAGES_ENTRY,
    LAYOUT_ENTRY,
    POSITIONS,
    SIZES,
    WORDS,
    layout_from,
    size_options,
)
from .opening import Checkpoint, differing, has_xlmr_shape, open_checkpoint
from .pretrained import PretrainedFile, convert_tensors
from .reading import PathLike
from .renaming import NameTable, stack_buffers, stack_renames
from .vocabulary import DICTIONARY_NAME, STYLES, Languages, as_dict, entries_beside, stock_languages

logger = logging.getLogger(__name__)

EXPECTED = (
    "an mBART (learned positions) or a dense NLLB or M2M-100 (sinusoidal positions, norms before "
    "the blocks): a fairseq checkpoint, or a Hugging Face folder of model_type mbart or m2m_100"
)
_FOLDER_FAMILIES = {"mbart": "mbart", "m2m_100": "nllb"}
"""``model_type`` of a Hugging Face folder -> family of its encoder."""

SHARED = "shared.weight"
_STACK = r"(?:model\.)?encoder\."
BUFFERS = {**stack_buffers(_STACK), r"_float_tensor": "buffer that is counted anew"}
NAMES = NameTable(
    renames={r"(?:model\.)?shared\.weight": SHARED, **stack_renames(_STACK, "encoder.")},
    dropped={
        **BUFFERS,
        r"(?:model\.)?decoder\..*": "decoder, unused by an encoder",
        r"lm_head\.weight|final_logits_bias": "output of the decoder, unused by an encoder",
        r"(?:classification_heads?|qa_outputs|score)\..*": "head of another task",
    },
    refused={
        r"(?:model\.)?(?:encoder|decoder)\.layers\.\d+\.(?:moe_layer|ffn)\..*": (
            "is a mixture of experts"
        ),
    },
)

SIZE_OPTIONS = size_options("encoder", "max_source_positions")
FOLDER_SIZES = {
    "vocab_size": "vocab_size",
    "layers": "encoder_layers",
    "embed_dim": "d_model",
    "ffn_dim": "encoder_ffn_dim",
    "max_positions": "max_position_embeddings",
    "heads": "encoder_attention_heads",
}
_FOLDER_WIRED = {
    "pad_token_id": 1,
    "eos_token_id": 2,
    "activation_function": ("gelu", "relu"),
}
_WIRING_OPTIONS = {
    "normalize_before": "encoder_normalize_before",
    "layernorm_embedding": "layernorm_embedding",
    "learned_positions": "encoder_learned_pos",
    "activation": "activation_fn",
}
"""Field of a layout -> option of fairseq."""


def convert_bart(checkpoint: Checkpoint) -> PretrainedFile:
    """Convert the encoder of an mBART, NLLB or M2M-100.

    Raises:
        CheckpointError: the options are not those of such a model, or do not tell which family it
            is of, while its tensors fit several.
    """
    if checkpoint.is_folder:
        return _convert_folder(checkpoint)
    tensors = checkpoint.tensors
    family = "mbart" if f"encoder.{POSITIONS}" in tensors else "nllb"
    if family == "nllb" and "encoder.layer_norm.weight" not in tensors:
        checkpoint.refuse(["has norms after the blocks and sinusoidal positions"], EXPECTED)
    unscaled = checkpoint.options.get("no_scale_embedding")
    if has_xlmr_shape(tensors) and not checkpoint.arch and unscaled is None:
        families = "BART, a post-norm mBART and a fine-tuned VECO"
        reason = f"tells neither arch nor no_scale_embedding, and its tensors fit {families}"
        checkpoint.refuse([reason], EXPECTED)
    model = convert_tensors(checkpoint, NAMES, SIZE_OPTIONS, EXPECTED, family)
    find_wiring(model)
    return model


def _convert_folder(checkpoint: Checkpoint) -> PretrainedFile:
    """Convert the encoder of a Hugging Face mBART or M2M-100 folder."""
    options = checkpoint.options
    checkpoint.refuse(differing(options, _FOLDER_WIRED), EXPECTED)
    family = _FOLDER_FAMILIES[str(checkpoint.model_type)]
    copies = ((SHARED, f"encoder.{WORDS}"),)  # (copy, original); a folder has one or both
    model = convert_tensors(checkpoint, NAMES, FOLDER_SIZES, EXPECTED, family, copies)
    default = family == "nllb"  # of transformers: True for M2M-100, False for mBART
    model.wiring["scale_embedding"] = bool(options.get("scale_embedding", default))
    if options.get("activation_function"):
        model.wiring["activation"] = options["activation_function"]
    model.stated_languages = Languages(style=STYLES[family])
    return model


def find_wiring(model: PretrainedFile) -> None:
    """Fill in wiring and languages of a fairseq encoder by its options and its tensors.

    If they contradict each other, the tensors are believed and a warning is logged: the options of
    released models are not always those of their training.

    Raises:
        CheckpointError: the model was trained without positions.
    """
    options, origin = model.checkpoint.options, model.origin
    if options.get("no_token_positional_embeddings"):
        reason = "was trained with no_token_positional_embeddings, expected positions"
        raise CheckpointError(f"{origin}: {reason}")
    if options.get("activation_fn") is None:
        logger.warning("%s: its options lack activation_fn: that of its family is taken", origin)
    if options.get("no_scale_embedding") is not None:
        model.wiring["scale_embedding"] = not options["no_scale_embedding"]
    actual = {
        # fairseq's encoder has a norm after its last layer if and only if it is pre-norm.
        "normalize_before": "encoder.layer_norm.weight" in model.tensors,
        "layernorm_embedding": "encoder.layernorm_embedding.weight" in model.tensors,
    }
    if f"encoder.{POSITIONS}" in model.tensors:
        # Without a table, the options tell whether positions are sinusoids or the table is lost.
        actual["learned_positions"] = True
    for field, option in _WIRING_OPTIONS.items():
        setting = options.get(option)
        if field in actual and setting is not None and bool(setting) != actual[field]:
            text = "%s: its options say %s = %s, its tensors %s"
            logger.warning(text, origin, option, not actual[field], actual[field])
        if field in actual or setting is not None:
            model.wiring[field] = actual.get(field, setting)
    style = STYLES.get(model.wiring["family"], "__{}__")
    model.stated_languages = stock_languages(model.checkpoint.entries, options, style)


# ---- DeltaLM: the release, whose embeddings have their own prefixes, and this package's. ----

DELTALM = (
    "a DeltaLM file: {'weights': …} with src_embedding.*, encoder.*, tgt_embedding.*, decoder.*; "
    "or a fairseq checkpoint"
)
_SOURCE, _TARGET = r"(?:encoder|src_embedding)\.", r"(?:decoder|tgt_embedding)\."
_LAYER = r"\.layers\.(\d+)\."
DELTALM_NAMES = NameTable(
    renames={
        **stack_renames(_SOURCE, "encoder."),
        **stack_renames(_TARGET, "decoder."),
        rf"(encoder|decoder){_LAYER}(ffn_layer_norm\.(?:weight|bias))": r"\1.layers.\2.\3",
        rf"encoder{_LAYER}ffn\.(fc1|fc2)\.(weight|bias)": r"encoder.layers.\1.\2.\3",
        # The bottom network of an interleaved decoder block is fc3, fc4, the top one fc1, fc2.
        rf"decoder{_LAYER}(?:ffn_1\.fc1|fc3)\.(weight|bias)": r"decoder.layers.\1.fc3.\2",
        rf"decoder{_LAYER}(?:ffn_1\.fc2|fc4)\.(weight|bias)": r"decoder.layers.\1.fc4.\2",
        rf"decoder{_LAYER}ffn_2\.(fc1|fc2)\.(weight|bias)": r"decoder.layers.\1.\2.\3",
        r"decoder\.output_projection\.weight": "decoder.output_projection.weight",
    },
    dropped={**stack_buffers(_SOURCE), **stack_buffers(_TARGET)},
)


def convert_deltalm(checkpoint: Checkpoint) -> PretrainedFile:
    """Convert a DeltaLM, and find the wiring of its encoder."""
    model = convert_tensors(checkpoint, DELTALM_NAMES, SIZE_OPTIONS, DELTALM, "deltalm")
    find_wiring(model)
    return model


def read_deltalm(path: PathLike) -> PretrainedFile:
    """Read a whole DeltaLM, in the names of this package's model.

    Returns:
        the file; its ``sizes`` are empty, because a released file does not state its heads.

    Raises:
        CheckpointError: the file is unreadable, or has tensors that are not accounted for.
    """
    checkpoint = open_checkpoint(path, DELTALM)
    model = convert_tensors(checkpoint, DELTALM_NAMES, SIZE_OPTIONS, DELTALM)
    model.name_rows(entries_beside(checkpoint.file), DICTIONARY_NAME)
    model.take({"encoder.": "encoder.", "decoder.": "decoder."}, "a DeltaLM")
    return model


# ---- Encoders that this package trained. ----

OWN = "an nlu_encoder checkpoint of this package"
OWN_NAMES = NameTable(
    renames={r"(encoder\.(?!version$).+)": r"\1"},
    dropped={
        r"encoder\.version": "format counter of fairseq",
        r"(?:classification_heads|token_heads)\..*": "head of a task",
    },
)


def convert_own(checkpoint: Checkpoint) -> PretrainedFile:
    """Convert an ``nlu_encoder`` checkpoint, whose options hold its whole layout."""
    # Messages name the option of the heads; the sizes themselves are taken from the layout below.
    size_names = {"layers": "", "heads": f"{LAYOUT_ENTRY}.heads"}
    model = convert_tensors(checkpoint, OWN_NAMES, size_names, OWN)
    options = checkpoint.options
    layout = asdict(layout_from(as_dict(options[LAYOUT_ENTRY]), model.origin))
    model.stated_sizes = {name: layout.pop(name) for name in SIZES}
    model.wiring, languages = layout, options.get(LANGUAGES_ENTRY)
    listed = tuple(map(str, languages)) if languages else None
    model.stated_languages = Languages(listed, style=STYLES.get(layout["family"], "[{}]"))
    return model
