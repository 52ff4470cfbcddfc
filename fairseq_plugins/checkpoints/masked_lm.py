"""Reads masked LMs, and converts XLM-R from every layout of fairseq and Hugging Face.

The layouts of fairseq's releases differ: ``decoder.sentence_encoder.`` (before 0.10) or
``encoder.sentence_encoder.``, ``emb_layer_norm`` or ``layernorm_embedding``, one
``in_proj_weight`` or three projections. InfoXLM's training files hold the model under
``model_fast.`` beside a momentum copy.
"""

import importlib
import logging
import re
from typing import Any, Iterable, List, Mapping, Optional

from .inspection import CheckpointError
from .layouts import (
    EPSILON_OPTION,
    PADDING_IDX,
    POSITIONS,
    WORDS,
    epsilon_problems,
    masked_lm_shapes,
    size_options,
)
from .loading import check_shapes
from .opening import Checkpoint, differing
from .pretrained import PretrainedFile, convert, convert_tensors
from .reading import PathLike
from .renaming import NameTable, Renames, stack_buffers, stack_renames
from .vocabulary import CONFIG_NAME, PAD

logger = logging.getLogger(__name__)

MASKED_LM = (
    "a masked LM: a fairseq checkpoint of XLM-R's shape, a VECO that was pre-trained here, or a "
    "Hugging Face folder of model_type xlm-roberta or bert"
)
CONVERTERS = {
    "xlmr": ".masked_lm:convert_xlmr",
    "bert": ".bert:convert_masked_lm",
    "veco": ".veco:convert_masked_lm",
}


def read_masked_lm(
    path: PathLike, heads: Optional[int] = None, label: str = "heads=…", needs_head: bool = True
) -> PretrainedFile:
    """Read a masked LM in the names of ``MaskedLM``, without the tied output.

    Args:
        path: a fairseq ``model.pt`` (XLM-R, InfoXLM, or a VECO that was pre-trained here) or its
            folder; or a Hugging Face folder (XLM-R, BERT, MiniLM, E5, VECO) or its weights file.
        heads: number of heads, for a file that does not state it.
        label: option or argument by which the user states the heads, for messages.
        needs_head: False accepts an encoder without the head of a masked LM (``lm_head.*``); see
            :func:`has_head`.

    Returns:
        the file; its ``sizes`` are the fields of ``MaskedLMSizes``.

    Raises:
        CheckpointError: the file is unreadable, untrusted or of another format, has tensors that
            are not accounted for, or contradicts itself.
    """
    model = convert(path, CONVERTERS, MASKED_LM)
    model.take({"encoder.": "sentence_encoder.", "lm_head.": "lm_head."}, "a masked LM")
    model.find_sizes(heads, label, "sentence_encoder.")
    model.sizes["epsilon"] = model.wiring.get("epsilon", FAIRSEQ_EPSILON)
    shapes = masked_lm_shapes(model.sizes)
    if not has_head(model):
        if needs_head:
            reason = "has no head of a masked LM (lm_head.*, or cls.predictions.* in a BERT)"
            raise CheckpointError(f"{model.origin}: {reason}; expected {model.expected}")
        shapes = {name: shape for name, shape in shapes.items() if not name.startswith(HEAD)}
    check_shapes(model.tensors, shapes, model.origin, model.expected)
    return model


def has_head(model: PretrainedFile) -> bool:
    """Return True if a file that was read has tensors of the head of a masked LM."""
    return any(name.startswith(HEAD) for name in model.tensors)


EXPECTED = (
    "a masked LM of XLM-R's shape: fairseq's (encoder.sentence_encoder.*, encoder.lm_head.* tied "
    "to the embedding) or Hugging Face's (model_type xlm-roberta, roberta or camembert; roberta.* "
    "and lm_head.*)"
)
MODEL_TYPE = "xlm-roberta"
HEAD = "lm_head."
OUTPUT = "lm_head.weight"
TIED = (OUTPUT, f"encoder.{WORDS}")  # copy, original
BIAS_COPY = ("lm_head.decoder.bias", "lm_head.bias")  # copy, original
TOKEN_TYPES = "encoder.segment_embeddings.weight"

# ---- Names in Hugging Face's folders. ----

_EMBEDDINGS = r"(?:(?:roberta|bert)\.)?embeddings\."
_LAYER = r"(?:(?:roberta|bert)\.)?encoder\.layer\.(\d+)\."
CROSS_ATTENTION = _LAYER + r"cross_?attention\."
"""Prefix of VECO's additional tensors; Hugging Face's own decoders spell it ``crossattention``."""
_CROSS_PARTS = r"(?:self\.(?:query|key|value)|output\.(?:dense|LayerNorm))"

ATTENTION = {
    "self.query": "q_proj",
    "self.key": "k_proj",
    "self.value": "v_proj",
    "output.dense": "out_proj",
}
EMBEDDING_NAMES = {
    "word_embeddings": "embed_tokens",
    "position_embeddings": "embed_positions",
    "token_type_embeddings": "segment_embeddings",
    "LayerNorm": "layernorm_embedding",
}
LAYER_NAMES = {
    **{f"attention.{theirs}": f"self_attn.{ours}" for theirs, ours in ATTENTION.items()},
    "attention.output.LayerNorm": "self_attn_layer_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_layer_norm",
}
"""Module in a folder -> module in fairseq's encoder."""


def module_renames(source: str, target: str, modules: Mapping[str, str]) -> Renames:
    """Return the renames of modules' weights and biases; old files call a norm's gamma and beta.

    Args:
        source: pattern of the prefix in the folder.
        target: prefix in this package.
        modules: module in the folder -> module in this package.
    """
    renames: Renames = {}
    for theirs, ours in modules.items():
        is_norm = theirs.endswith(("LayerNorm", "layer_norm"))
        weight, bias = ("weight|gamma", "bias|beta") if is_norm else ("weight", "bias")
        module = source + re.escape(theirs)
        renames[rf"{module}\.(?:{weight})"] = f"{target}{ours}.weight"
        renames[rf"{module}\.(?:{bias})"] = f"{target}{ours}.bias"
    return renames


STACK_RENAMES = {
    **module_renames(_EMBEDDINGS, "encoder.", EMBEDDING_NAMES),
    **module_renames(_LAYER, r"encoder.layers.\1.", LAYER_NAMES),
}
FOLDER_NAMES = NameTable(
    renames={
        **STACK_RENAMES,
        **module_renames(r"lm_head\.", "lm_head.", {"dense": "dense", "layer_norm": "layer_norm"}),
        r"lm_head\.(bias|decoder\.bias)": r"lm_head.\1",
        r"lm_head\.decoder\.weight": OUTPUT,
    },
    dropped={
        _EMBEDDINGS + r"(?:position_ids|token_type_ids)": "buffer that is counted anew",
        r"(?:classifier|qa_outputs)\..*": "head of another task",
        r"(?:(?:roberta|bert)\.)?pooler\.dense\.(?:weight|bias)": "pooler, unused by a masked LM",
        CROSS_ATTENTION + _CROSS_PARTS + r"\.(?:weight|bias|gamma|beta)": (
            "cross-attention of a VECO, unused by an encoder"
        ),
    },
)

FOLDER_SIZES = {
    "vocab_size": "vocab_size",
    "layers": "num_hidden_layers",
    "embed_dim": "hidden_size",
    "ffn_dim": "intermediate_size",
    "max_positions": "max_position_embeddings",
    "heads": "num_attention_heads",
}
FOLDER_WIRED = {"hidden_act": "gelu", "position_embedding_type": "absolute"}
FOLDER_EPSILON = 1e-12
"""Epsilon of layer norms where ``config.json`` does not state it, as in transformers."""
FAIRSEQ_EPSILON = 1e-5
"""Epsilon of layer norms in stock fairseq."""

# ---- Names in fairseq's files. ----

_TOP = r"(?:model_fast\.)?(?:(?:encoder|decoder)\.)?"
_STACK = _TOP + r"sentence_encoder\."
_STACK_PARTS = r"(?:embed_(?:tokens|positions)|layers|layernorm_embedding|layer_norm)"
_BERT_PARTS = r"(?:masked_lm_pooler|lm_head_transform_weight|lm_output_learned_bias)"
FAIRSEQ_NAMES = NameTable(
    renames={
        **stack_renames(_STACK, "encoder."),
        _TOP + r"lm_head\.((?:dense|layer_norm)\.(?:weight|bias)|weight|bias)": r"lm_head.\1",
    },
    dropped={
        **stack_buffers(_STACK),
        _TOP + r"classification_heads\..*": "classification head, unused by a masked LM",
        r"model_slow\..*": "InfoXLM's momentum copy",
        r"queue|enqueue_cnt|queue_ptr|proj_matrix_(?:fast|slow)": "InfoXLM's training state",
    },
    refused={
        _STACK + r"layer_norm\.(?:weight|bias)": "is a pre-norm model, as XLM-R XL and XXL are",
        _STACK + r"segment_embeddings\.weight": "is a BERT with segment embeddings",
        rf"encoder\.{_BERT_PARTS}\b.*": "is a fairseq BERT",
        rf"(?:encoder|decoder)\.(?:{_STACK_PARTS}|output_projection)\b.*": (
            "is an encoder-decoder or language model such as mBART"
        ),
    },
)
WIRED = {
    "activation_fn": "gelu",
    "encoder_normalize_before": False,
    "encoder_learned_pos": True,
    "no_scale_embedding": True,
    "layernorm_embedding": True,
    "no_token_positional_embeddings": False,
}
"""Option of a fairseq model of XLM-R's shape -> its only valid value."""

# ---- Convert an XLM-R. ----


def convert_xlmr(checkpoint: Checkpoint) -> PretrainedFile:
    """Convert an XLM-R.

    Raises:
        CheckpointError: the options are not XLM-R's, or ``<pad>`` has another row.
    """
    if checkpoint.is_folder:
        return convert_folder(checkpoint, FOLDER_NAMES, EXPECTED)
    checkpoint.refuse(wiring_problems(checkpoint.options), EXPECTED)
    sizes = size_options("encoder", "max_positions")
    model = convert_tensors(checkpoint, FAIRSEQ_NAMES, sizes, EXPECTED, "xlmr", (TIED,))
    model.wiring["epsilon"] = recorded_epsilon(checkpoint.options)
    model.mask_is_last = True
    return model


def wiring_problems(options: Mapping[str, Any]) -> List[str]:
    """Describe the options of a fairseq checkpoint that are not those of XLM-R's shape."""
    return [*epsilon_problems(options, EPSILON_OPTION), *differing(options, WIRED)]


def recorded_epsilon(options: Mapping[str, Any]) -> float:
    """Return the epsilon of layer norms that a fairseq checkpoint records, else fairseq's own."""
    epsilon = options.get(EPSILON_OPTION)
    return FAIRSEQ_EPSILON if epsilon is None else float(epsilon)


def convert_folder(checkpoint: Checkpoint, table: NameTable, expected: str) -> PretrainedFile:
    """Convert a Hugging Face folder of an XLM-R, or of a VECO.

    The single token-type row is added to every position, so that logits stay the same.

    Args:
        table: names in the folder -> new names.
        expected: description of the kind of file, for messages.
    """
    problems = [*epsilon_problems(checkpoint.options, "layer_norm_eps")]
    problems += differing(checkpoint.options, {**FOLDER_WIRED, "pad_token_id": (PADDING_IDX, 0)})
    checkpoint.refuse([*problems, *_decoder_problems(checkpoint)], expected)
    copies = (TIED, BIAS_COPY)
    model = convert_tensors(checkpoint, table, FOLDER_SIZES, expected, "xlmr", copies)
    model.wiring["epsilon"] = folder_epsilon(checkpoint.options)
    model.mask_is_last = True
    _check_padding_row(model)
    rows = model.stated_sizes["max_positions"]  # counts the unused rows up to that of <pad>
    longest = rows - PADDING_IDX - 1 if isinstance(rows, int) else None
    model.stated_sizes["max_positions"] = longest
    add_token_type(model, rows=1)
    return model


def folder_epsilon(config: Mapping[str, Any]) -> float:
    """Return the epsilon of layer norms that ``config.json`` states, else transformers' default."""
    epsilon = config.get("layer_norm_eps")
    return FOLDER_EPSILON if epsilon is None else float(epsilon)


def has_cross_attention(names: Iterable[str]) -> bool:
    """Return True if these names in a Hugging Face folder include a VECO's cross-attention."""
    return any(re.match(CROSS_ATTENTION, name) for name in names)


def _decoder_problems(checkpoint: Checkpoint) -> List[str]:
    """Describe the flags of a decoder in ``config.json`` that do not suit the tensors.

    Deviations that are accepted are logged.
    """
    config, origin = checkpoint.options, checkpoint.options_origin
    problems = []
    is_veco = has_cross_attention(checkpoint.tensors)
    for flag in ("is_decoder", "add_cross_attention"):
        if config.get(flag) and not is_veco:
            reason = "expected false without the cross_attention.* of a VECO"
            problems.append(f"{flag} = {config[flag]!r}, {reason}")
    if config.get("is_decoder") and any(".crossattention." in name for name in checkpoint.tensors):
        logger.warning("%s: is_decoder = true with crossattention.*: taken to be a VECO", origin)
    if checkpoint.model_type is None:
        logger.warning("%s: has no model_type: %s is taken", origin, MODEL_TYPE)
    return problems


def _check_padding_row(model: PretrainedFile) -> None:
    """Check the row of ``<pad>`` in a folder whose ``pad_token_id`` is 0.

    transformers wrote 0 for every model in January 2020, so 0 does not tell the row. It is taken
    to be 1, as in every XLM-R, unless a tokenizer in the folder contradicts.

    Raises:
        CheckpointError: the tokenizer has ``<pad>`` in another row.

    Source: the authors' ``RobertaEmbeddings``, whose ``padding_idx`` is 1.
    """
    if model.checkpoint.options.get("pad_token_id") != 0:
        return
    rows = model.matrix(f"encoder.{WORDS}").size(0)
    tokenizers = importlib.import_module(".tokenizers", __package__)  # only needed here
    entries = tokenizers.tokenizer_entries(model.checkpoint.folder, None, rows)
    tokenizers.check_padding(entries or (), model.origin)
    row = f"row {PADDING_IDX} is taken for {PAD}, as in every XLM-R"
    logger.warning("%s: pad_token_id = 0 in %s: %s", model.origin, CONFIG_NAME, row)


def add_token_type(model: PretrainedFile, rows: int) -> None:
    """Add token type 0 to every position, and drop the token types; logits stay the same.

    Args:
        rows: token types that the family has.

    Raises:
        CheckpointError: the token types have another shape.
    """
    positions = model.matrix(f"encoder.{POSITIONS}")
    token_types = model.tensors.pop(TOKEN_TYPES, None)
    if token_types is None:
        return
    source = model.sources["(added to the positions)"] = model.sources.pop(TOKEN_TYPES)
    if token_types.shape != (rows, positions.size(1)):
        expected = f"expected ({rows}, {positions.size(1)}), of the positions' width"
        shape = tuple(token_types.shape)
        raise CheckpointError(f"{model.origin}: {source} has shape {shape}, {expected}")
    if bool(token_types[0].any()):  # adding zeros would turn -0.0 into 0.0: another fingerprint
        model.tensors[f"encoder.{POSITIONS}"] = positions + token_types[0]
