"""Hugging Face folders of XLM-RoBERTa: names and configurations, reading and writing.

The vocabulary order is fairseq's in XLM-R (``<s>`` 0, ``<pad>`` 1, ``</s>`` 2, ``<unk>`` 3): no row is permuted.
"""

import dataclasses
import json
import logging
import re
from pathlib import Path
from typing import Any, Dict, Iterable, Mapping, Optional, Tuple

import torch
from torch import Tensor

from .dictionaries import CONFIG_NAME, PAD, find_dictionary
from .errors import CheckpointError
from .loading import Rule, apply_rules, drop, listing, rename
from .pipeline import (
    PADDING_IDX,
    POSITIONS,
    WORDS,
    Content,
    FileLayout,
    PretrainedFile,
    check_shapes,
    differing,
    refuse_config,
)
from .reading import PathLike, fingerprint
from .vocabularies import padding_contradiction, tokenizer_entries
from .writing import atomic_path, save_tensors
from .xlmr import OUTPUT_WEIGHT, STACK, encoder_of, masked_lm_shapes

logger = logging.getLogger(__name__)

EXPECTED = (
    "a Hugging Face XLM-RoBERTa masked LM (model_type xlm-roberta, roberta or camembert, hidden_act gelu, "
    "layer_norm_eps 1e-05, one token type, tensors roberta.* and lm_head.*)"
)
WEIGHTS_NAME = "model.safetensors"
MODEL_TYPES = ("xlm-roberta", "roberta", "camembert")
LAYER_NORM_EPS = 1e-5
TOKEN_TYPES = "token_type_embeddings.weight"
STORED_TOKEN_TYPES = "roberta.embeddings.token_type_embeddings.weight"
OUTPUT_BIAS = "lm_head.bias"
OUTPUT_BIAS_COPY = "lm_head.decoder.bias"

_ROBERTA = r"roberta\.embeddings\."
_TOP = r"(?:(?:roberta|bert)\.)?"
EMBEDDINGS = _TOP + r"embeddings\."
_LAYER = _TOP + r"encoder\.layer\.(\d+)\."
CROSS_ATTENTION = _LAYER + r"cross_?attention\."
"""What VECO has beside XLM-R, also in one word, as a decoder of the library has it."""

ATTENTION = {"self.query": "q_proj", "self.key": "k_proj", "self.value": "v_proj", "output.dense": "out_proj"}
"""Projection of an attention block -> fairseq's name."""

_PARTS = {
    **{f"attention.{theirs}": f"self_attn.{ours}" for theirs, ours in ATTENTION.items()},
    "attention.output.LayerNorm": "self_attn_layer_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_layer_norm",
}
"""Part of a layer -> fairseq's name."""

_STACK_PARTS = {
    "word_embeddings": "embed_tokens",
    "position_embeddings": "embed_positions",
    "LayerNorm": "layernorm_embedding",
}


def renames_of(source: str, target: str) -> Tuple[Rule, ...]:
    """Rules for weight and bias, which old files call ``gamma`` and ``beta`` in layer norms."""
    if not source.endswith(("LayerNorm", "layer_norm")):
        return (rename(source + r"\.weight", target + ".weight"), rename(source + r"\.bias", target + ".bias"))
    return (
        rename(source + r"\.(?:weight|gamma)", target + ".weight"),
        rename(source + r"\.(?:bias|beta)", target + ".bias"),
    )


STACK_RULES: Tuple[Rule, ...] = (
    *(rule for name, ours in _STACK_PARTS.items() for rule in renames_of(EMBEDDINGS + name, STACK + ours)),
    *(
        rule
        for name, ours in _PARTS.items()
        for rule in renames_of(_LAYER + re.escape(name), rf"{STACK}layers.\1.{ours}")
    ),
    drop(EMBEDDINGS + r"(?:position_ids|token_type_ids)", "buffer that is counted anew"),
    drop(_TOP + r"pooler\.dense\.(?:weight|bias)", "pooler, unused by a masked LM"),
)
"""What XLM-R and BERT have in common."""

RULES: Tuple[Rule, ...] = (
    rename(EMBEDDINGS + r"token_type_embeddings\.weight", TOKEN_TYPES),
    *STACK_RULES,
    *renames_of(r"lm_head\.dense", "lm_head.dense"),
    *renames_of(r"lm_head\.layer_norm", "lm_head.layer_norm"),
    rename(r"lm_head\.bias", OUTPUT_BIAS),
    rename(r"lm_head\.decoder\.weight", OUTPUT_WEIGHT),
    rename(r"lm_head\.decoder\.bias", OUTPUT_BIAS_COPY),
    drop(
        CROSS_ATTENTION + r"(?:self\.(?:query|key|value)|output\.(?:dense|LayerNorm))\.(?:weight|bias|gamma|beta)",
        "cross-attention of a VECO, unused by an encoder",
    ),
)

_EXPORT = {
    **{f"{STACK}{ours}": f"roberta.embeddings.{name}" for name, ours in _STACK_PARTS.items()},
    **{rf"{STACK}layers.(\d+).{ours}": rf"roberta.encoder.layer.\1.{name}" for name, ours in _PARTS.items()},
}
EXPORT_RULES: Tuple[Rule, ...] = (
    *(
        rename(ours.replace(".", r"\.") + r"\.(weight|bias)", theirs + (r".\2" if r"\1" in theirs else r".\1"))
        for ours, theirs in _EXPORT.items()
    ),
    rename(r"(lm_head\.(?:dense|layer_norm)\.\w+|lm_head\.bias)", r"\1"),
)

SIZES = {
    "vocab_size": "vocab_size",
    "layers": "num_hidden_layers",
    "embed_dim": "hidden_size",
    "ffn_dim": "intermediate_size",
    "max_positions": "max_position_embeddings",
    "heads": "num_attention_heads",
}


# ---- XLM-R. ----


def has_cross_attention(names: Iterable[str]) -> bool:
    """Whether these are the tensors of a VECO."""
    return any(re.match(CROSS_ATTENTION, name) for name in names)


def model_type(content: Content) -> Optional[str]:
    """What a configuration says, or XLM-R where it says nothing and the tensors are ``roberta.*``.

    transformers wrote no ``model_type`` before 2.3 (January 2020); VECO was made with a version of those weeks.
    """
    stated: Optional[str] = content.options.get("model_type")
    if stated is None and any(re.match(_ROBERTA, name) for name in content.tensors):
        return MODEL_TYPES[0]
    return stated


def _check_config(content: Content) -> None:
    config, names = content.options, content.tensors
    problems = []
    if model_type(content) not in MODEL_TYPES:
        problems.append(f"model_type = {config.get('model_type')!r}, expected one of {', '.join(MODEL_TYPES)}")
    problems += differing(config, {"hidden_act": "gelu", "position_embedding_type": "absolute"})
    stated = config.get("layer_norm_eps")
    epsilon = 1e-12 if stated is None else stated
    if not isinstance(epsilon, (int, float)) or abs(epsilon - LAYER_NORM_EPS) > 1e-3 * LAYER_NORM_EPS:
        missing = " (the default when the entry is missing)" if stated is None else ""
        problems.append(f"layer_norm_eps = {epsilon!r}{missing}, expected {LAYER_NORM_EPS!r}")
    padding = config.get("pad_token_id")
    if padding is not None and (not isinstance(padding, int) or padding < 0):
        problems.append(f"pad_token_id = {padding!r}, expected the index of <pad>")
    for flag in ("is_decoder", "add_cross_attention"):
        if config.get(flag) and not has_cross_attention(names):
            problems.append(
                f"{flag} = {config[flag]!r}, expected false (there are no cross_attention.* tensors, as VECO has)"
            )
    refuse_config(problems, content)
    if config.get("is_decoder") and any(".crossattention." in name for name in names):
        logger.warning(
            "%s: is_decoder = true with crossattention.*: taken to be a VECO, whose encoder reads in both directions; a "
            "decoder of transformers, which reads to the left alone, has these names too",
            content.config_origin,
        )
    if config.get("model_type") is None:
        logger.warning(
            "%s: has no model_type: its tensors are roberta.*, so %s is taken", content.config_origin, MODEL_TYPES[0]
        )


def settle(content: Content, found: PretrainedFile) -> None:
    """Find the row of ``<pad>``, and merge what XLM-R's layout has no place for."""
    words = found.tensors.get(STACK + WORDS, found.tensors.get(OUTPUT_WEIGHT))
    merge(found)
    found.padding_idx = padding_row(content, words.size(0) if words is not None and words.dim() else 0)
    positions = found.stated["max_positions"]
    found.stated["max_positions"] = positions - found.padding_idx - 1 if isinstance(positions, int) else None
    found.mask_last = True


def merge(found: PretrainedFile) -> None:
    """Merge what XLM-R's layout has no place for.

    The one token-type row is added to every position row (not to the word embedding, which is also the output
    projection), so that logits stay the same. A tied tensor of which only the output's copy was stored takes its place.

    Raises CheckpointError: several token types, or an output bias stored twice with different values.
    """
    renamed = found.renamed
    if TOKEN_TYPES in found.tensors:
        _merge_token_types(found.tensors, found.origin)
        renamed.sources["(added to the positions)"] = renamed.sources.pop(TOKEN_TYPES)
    for kept, copy in ((STACK + WORDS, OUTPUT_WEIGHT), (OUTPUT_BIAS, OUTPUT_BIAS_COPY)):
        if kept not in found.tensors and copy in found.tensors:
            renamed.move(copy, kept)
    if OUTPUT_BIAS_COPY in found.tensors:
        if not torch.equal(found.tensors[OUTPUT_BIAS], found.tensors[OUTPUT_BIAS_COPY]):
            raise CheckpointError(
                f"{found.origin}: {OUTPUT_BIAS_COPY} differs from {OUTPUT_BIAS}, expected them to be tied"
            )
        renamed.discard(OUTPUT_BIAS_COPY, f"equal to {OUTPUT_BIAS}")


def _merge_token_types(tensors: Dict[str, Tensor], origin: str) -> None:
    token_types, positions = tensors.pop(TOKEN_TYPES), tensors.get(STACK + POSITIONS)
    if token_types.dim() != 2 or token_types.size(0) != 1:
        raise CheckpointError(
            f"{origin}: {TOKEN_TYPES} has shape {tuple(token_types.shape)}, expected one row; expected {EXPECTED}"
        )
    if positions is None or not bool(token_types.any()):  # adding zeros could turn -0.0 into 0.0, and the fingerprint
        return
    if positions.dim() != 2 or positions.size(1) != token_types.size(1):
        shapes = f"{tuple(token_types.shape)} and {tuple(positions.shape)}"
        raise CheckpointError(f"{origin}: {TOKEN_TYPES} and position embedding have shapes {shapes}, not one width")
    tensors[STACK + POSITIONS] = positions + token_types


FOLDER = FileLayout(
    EXPECTED, lambda content: content.is_folder, RULES, SIZES, _check_config, settle, model_types=MODEL_TYPES
)


# ---- The row of <pad>, behind which the positions are counted. ----

_UNSAID = 0
"""What transformers wrote as ``pad_token_id`` for every model in January 2020, while XLM-R's own code had 1 as a constant."""


def padding_row(content: Content, rows: int) -> int:
    """Row of ``<pad>`` in a folder of XLM-R's layout.

    Where ``pad_token_id`` is not 1, the tokenizer or dictionary beside it is asked. A 0 counts as not said,
    unless a file beside it says 0 too.

    Args:
        rows: of the embedding.

    Raises:
        CheckpointError: configuration and the file beside it contradict each other, or that file is damaged.

    Source: the authors' ``RobertaEmbeddings``, whose ``padding_idx`` is the constant 1.
    """
    stated = content.options.get("pad_token_id")
    if stated is None or stated == PADDING_IDX:
        return PADDING_IDX
    file, found = _padding_beside(content.file.parent, rows)
    if found == stated:
        return int(stated)
    if stated == _UNSAID and found in (None, PADDING_IDX):
        logger.warning(
            "%s: pad_token_id = %d in %s: row %d is taken for %s, as in every XLM-R, and positions are counted from row %d",
            content.origin,
            stated,
            CONFIG_NAME,
            PADDING_IDX,
            PAD,
            PADDING_IDX + 1,
        )
        return PADDING_IDX
    if found is not None:
        raise padding_contradiction(stated, found, file, content.origin)
    return int(stated)


def _padding_beside(folder: Path, rows: int) -> Tuple[str, Optional[int]]:
    """The file that names the rows, and which of them is that of ``<pad>``; None where no file tells."""
    entries = tokenizer_entries(folder, "xlmr", rows)
    if entries is not None:
        return "the tokenizer", entries.index(PAD) if PAD in entries else None
    file = find_dictionary(folder)
    return ("", None) if file is None else (file.name, PADDING_IDX)


MASKED_LMS = (FOLDER,)
ENCODERS = (
    dataclasses.replace(
        encoder_of(FOLDER), recognised=lambda content: content.is_folder and model_type(content) in MODEL_TYPES
    ),
)


# ---- XLM-R's way back. ----


def write_masked_lm(
    folder: PathLike,
    sizes: Any,
    tensors: Mapping[str, Tensor],
    dtype: torch.dtype = torch.float16,
) -> str:
    """Write a Hugging Face XLM-RoBERTa folder: ``config.json`` and ``model.safetensors``.

    Args:
        folder: made when missing; both files are replaced one by one, each atomically.
        sizes: ``MaskedLMSizes``, or a mapping with its fields.
        tensors: name -> floating-point tensor in the names of ``MaskedLM``; the tied ``lm_head.weight`` may be there.
        dtype: of the stored tensors; values are rounded to it.

    Returns:
        The fingerprint that :func:`.xlmr.read_masked_lm` will give for the folder, i.e. of the *rounded* tensors.

    Raises:
        CheckpointError: names or shapes that are not those of a masked LM of these sizes, or values beyond ``dtype``.
    """
    origin = f"masked LM for {folder}"
    numbers: Dict[str, int] = dict(sizes if isinstance(sizes, Mapping) else dataclasses.asdict(sizes))
    kept = dict(tensors)
    output = kept.pop(OUTPUT_WEIGHT, None)
    check_shapes(kept, masked_lm_shapes(numbers), origin, "the tensors of modules.prefix_masked_lm.MaskedLM")
    if output is not None and not torch.equal(output, kept[STACK + WORDS]):
        raise CheckpointError(f"{origin}: {OUTPUT_WEIGHT} differs from the token embedding, expected a tie")
    rounded = _round(kept, dtype, origin)
    stored = apply_rules(rounded, EXPORT_RULES, origin, "a masked LM").tensors
    stored[STORED_TOKEN_TYPES] = torch.zeros(1, numbers["embed_dim"], dtype=dtype)
    Path(folder).mkdir(parents=True, exist_ok=True)
    save_tensors(stored, Path(folder) / WEIGHTS_NAME)
    with atomic_path(Path(folder) / CONFIG_NAME) as temporary:
        config = json.dumps(export_config(numbers, dtype), indent=2, sort_keys=True)
        temporary.write_text(config + "\n", encoding="utf-8")
    return fingerprint(rounded)


def _round(tensors: Mapping[str, Tensor], dtype: torch.dtype, origin: str) -> Dict[str, Tensor]:
    rounded = {name: tensor.detach().to("cpu", dtype, copy=True).contiguous() for name, tensor in tensors.items()}
    overflown = [name for name, tensor in rounded.items() if not bool(torch.isfinite(tensor).all())]
    if overflown:
        raise CheckpointError(f"{origin}: values that are not finite in {dtype}: {listing(overflown)}")
    return rounded


def export_config(sizes: Mapping[str, int], dtype: torch.dtype) -> Dict[str, Any]:
    """``config.json`` of a masked LM of these sizes (names of ``MaskedLMSizes``)."""
    return {
        "architectures": ["XLMRobertaForMaskedLM"],
        "attention_probs_dropout_prob": 0.1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": sizes["embed_dim"],
        "initializer_range": 0.02,
        "intermediate_size": sizes["ffn_dim"],
        "layer_norm_eps": LAYER_NORM_EPS,
        "max_position_embeddings": sizes["max_positions"] + sizes["padding_idx"] + 1,
        "model_type": MODEL_TYPES[0],
        "num_attention_heads": sizes["heads"],
        "num_hidden_layers": sizes["layers"],
        "pad_token_id": sizes["padding_idx"],
        "tie_word_embeddings": True,
        "torch_dtype": str(dtype).rsplit(".", 1)[-1],
        "type_vocab_size": 1,
        "vocab_size": sizes["vocab_size"],
    }
