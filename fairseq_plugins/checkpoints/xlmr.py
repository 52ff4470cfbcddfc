"""Masked LMs of XLM-R's shape, in fairseq's files (XLM-R, InfoXLM, RoBERTa-era, ``xlmr_mlm`` of this package) and in Hugging Face
folders, which are also written; and BERT.

Layouts met in the wild: ``decoder.sentence_encoder.`` (fairseq < 0.10) against ``encoder.sentence_encoder.``, ``emb_layer_norm``
against ``layernorm_embedding``, one fused ``in_proj_weight`` against ``q_proj``, ``k_proj`` and ``v_proj``, and InfoXLM's training
files with the model under ``model_fast.`` beside a momentum copy. The vocabulary order is fairseq's in Hugging Face's XLM-R too
(``<s>`` 0, ``<pad>`` 1, ``</s>`` 2, ``<unk>`` 3).
"""

import dataclasses
import json
import logging
import re
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

import torch
from torch import Tensor

from .encoders import padding_contradiction, tokenizer_entries
from .errors import CheckpointError
from .layouts import FAMILIES, PADDING_IDX, masked_lm_shapes
from .loading import Rule, apply_rules, drop, listing, refuse, rename, stack_rules
from .pipeline import ENCODER, MASKED_LM, POSITIONS, WORDS, Content, FileLayout, Kind, PretrainedFile, check_shapes
from .reading import PathLike, fingerprint
from .vocabulary import CONFIG_NAME, PAD, find_dictionary
from .writing import atomic_path, save_tensors

logger = logging.getLogger(__name__)

OUTPUT = "lm_head.weight"
TIED = (OUTPUT, f"encoder.{WORDS}")

# ---- fairseq's XLM-R. ----

_TOP = r"(?:model_fast\.)?(?:(?:encoder|decoder)\.)?"
_STACK = _TOP + r"sentence_encoder\."
_FAIRSEQ_RULES: Tuple[Rule, ...] = (
    refuse(_STACK + r"layer_norm\.(?:weight|bias)", "is a pre-norm model, as XLM-R XL and XXL are"),
    refuse(_STACK + r"segment_embeddings\.weight", "is a BERT with segment embeddings"),
    *stack_rules(_STACK, "encoder."),
    rename(_TOP + r"lm_head\.((?:dense|layer_norm)\.(?:weight|bias)|weight|bias)", r"lm_head.\1"),
    drop(_STACK + r"_float_tensor", "dtype marker of fairseq"),
    drop(_TOP + r"classification_heads\..*", "classification head, unused by a masked LM"),
    drop(r"model_slow\..*", "InfoXLM's momentum copy"),
    drop(r"queue|enqueue_cnt|queue_ptr|proj_matrix_(?:fast|slow)", "InfoXLM's contrastive training state"),
    refuse(r"encoder\.(?:masked_lm_pooler|lm_head_transform_weight|lm_output_learned_bias)\b.*", "is a fairseq BERT"),
    refuse(
        r"(?:encoder|decoder)\.(?:embed_tokens|embed_positions|layers|layernorm_embedding|layer_norm|output_projection)\b.*",
        "is an encoder-decoder or language model such as mBART",
    ),
)
WIRED = {
    "activation_fn": "gelu",
    "encoder_normalize_before": False,
    "encoder_learned_pos": True,
    "no_scale_embedding": True,
    "layernorm_embedding": True,
    "no_token_positional_embeddings": False,
}
"""What the options of a fairseq model of XLM-R's shape say."""


def _settle(found: PretrainedFile, kind: Kind) -> None:
    found.wiring = {"family": "xlmr"} if kind is ENCODER else {}
    found.mask_last = True


_FAIRSEQ = FileLayout(
    "a fairseq masked LM of XLM-R's shape (post-norm encoder, learned positions, layer norm after the embedding, GELU, lm_head "
    "tied to the embedding; names encoder.sentence_encoder.* and encoder.lm_head.*)",
    lambda content: not content.is_folder and any("sentence_encoder." in name for name in content.tensors),
    _FAIRSEQ_RULES,
    {
        "layers": "encoder_layers",
        "embed_dim": "encoder_embed_dim",
        "ffn_dim": "encoder_ffn_embed_dim",
        "max_positions": "max_positions",
        "heads": "encoder_attention_heads",
    },
    (ENCODER, MASKED_LM),
    WIRED,
    settle=_settle,
    tied=(TIED,),
)


# ---- Names and sizes in Hugging Face folders. ----

_EMBEDDINGS = r"(?:(?:roberta|bert)\.)?embeddings\."
_LAYER = r"(?:(?:roberta|bert)\.)?encoder\.layer\.(\d+)\."
CROSS_ATTENTION = _LAYER + r"cross_?attention\."
"""What VECO has beside XLM-R, also in one word, as a decoder of the library has it."""

ATTENTION = {"self.query": "q_proj", "self.key": "k_proj", "self.value": "v_proj", "output.dense": "out_proj"}
"""Projection of an attention block -> fairseq's name."""

_LAYER_NAMES = {
    **{f"attention.{theirs}": f"self_attn.{ours}" for theirs, ours in ATTENTION.items()},
    "attention.output.LayerNorm": "self_attn_layer_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_layer_norm",
}
_EMBEDDING_NAMES = {
    "word_embeddings": "embed_tokens",
    "position_embeddings": "embed_positions",
    "token_type_embeddings": "segment_embeddings",
    "LayerNorm": "layernorm_embedding",
}
_SIZES = {
    "vocab_size": "vocab_size",
    "layers": "num_hidden_layers",
    "embed_dim": "hidden_size",
    "ffn_dim": "intermediate_size",
    "max_positions": "max_position_embeddings",
    "heads": "num_attention_heads",
}


def renames_of(source: str, target: str) -> Tuple[Rule, Rule]:
    """Rules for weight and bias, which old files call ``gamma`` and ``beta`` in layer norms."""
    old = ("|gamma", "|beta") if source.endswith(("LayerNorm", "layer_norm")) else ("", "")
    return (
        rename(rf"{source}\.(?:weight{old[0]})", f"{target}.weight"),
        rename(rf"{source}\.(?:bias{old[1]})", f"{target}.bias"),
    )


_STACK_RULES: Tuple[Rule, ...] = (
    *(rule for name, ours in _EMBEDDING_NAMES.items() for rule in renames_of(_EMBEDDINGS + name, f"encoder.{ours}")),
    *(
        rule
        for name, ours in _LAYER_NAMES.items()
        for rule in renames_of(_LAYER + re.escape(name), rf"encoder.layers.\1.{ours}")
    ),
    drop(_EMBEDDINGS + r"(?:position_ids|token_type_ids)", "buffer that is counted anew"),
    drop(r"(?:(?:roberta|bert)\.)?pooler\.dense\.(?:weight|bias)", "pooler, unused by a masked LM"),
)
"""What XLM-R and BERT have in common."""


# ---- Hugging Face's XLM-R. ----

MODEL_TYPES = ("xlm-roberta", "roberta", "camembert")
_EPSILON = 1e-5
_TOKEN_TYPES = "encoder.segment_embeddings.weight"
_BIAS_COPY = "lm_head.decoder.bias"
FOLDER_RULES: Tuple[Rule, ...] = (
    *_STACK_RULES,
    *renames_of(r"lm_head\.dense", "lm_head.dense"),
    *renames_of(r"lm_head\.layer_norm", "lm_head.layer_norm"),
    rename(r"lm_head\.(bias|decoder\.bias)", r"lm_head.\1"),
    rename(r"lm_head\.decoder\.weight", OUTPUT),
    drop(
        CROSS_ATTENTION + r"(?:self\.(?:query|key|value)|output\.(?:dense|LayerNorm))\.(?:weight|bias|gamma|beta)",
        "cross-attention of a VECO, unused by an encoder",
    ),
)


def has_cross_attention(names: Iterable[str]) -> bool:
    """Whether these are the tensors of a VECO."""
    return any(re.match(CROSS_ATTENTION, name) for name in names)


def _is_folder(content: Content) -> bool:
    """Whether a configuration says so, or says nothing and the tensors are ``roberta.*``.

    transformers wrote no ``model_type`` before 2.3 (January 2020); VECO was made with a version of those weeks.
    """
    stated = content.options.get("model_type")
    unsaid = stated is None and any(name.startswith("roberta.embeddings.") for name in content.tensors)
    return content.is_folder and (stated in MODEL_TYPES or unsaid)


def check_folder(content: Content) -> List[str]:
    """What of a configuration is not XLM-R's."""
    config, names, problems = content.options, content.tensors, []
    stated = config.get("layer_norm_eps")
    epsilon = 1e-12 if stated is None else stated
    if not isinstance(epsilon, (int, float)) or abs(epsilon - _EPSILON) > 1e-3 * _EPSILON:
        missing = " (the default when the entry is missing)" if stated is None else ""
        problems.append(f"layer_norm_eps = {epsilon!r}{missing}, expected {_EPSILON!r}")
    padding = config.get("pad_token_id")
    if padding is not None and (not isinstance(padding, int) or padding < 0):
        problems.append(f"pad_token_id = {padding!r}, expected the index of <pad>")
    for flag in ("is_decoder", "add_cross_attention"):
        if config.get(flag) and not has_cross_attention(names):
            problems.append(
                f"{flag} = {config[flag]!r}, expected false (there are no cross_attention.* tensors, as VECO has)"
            )
    if config.get("is_decoder") and any(".crossattention." in name for name in names):
        logger.warning(
            "%s: is_decoder = true with crossattention.*: taken to be a VECO, whose encoder reads in both directions; a "
            "decoder of transformers, which reads to the left alone, has these names too",
            content.options_origin,
        )
    if config.get("model_type") is None:
        logger.warning(
            "%s: has no model_type: its tensors are roberta.*, so %s is taken", content.options_origin, MODEL_TYPES[0]
        )
    return problems


def settle_folder(found: PretrainedFile, kind: Kind) -> None:
    """Find the row of ``<pad>``, and add the one token-type row to every position, so that logits stay the same."""
    _settle(found, kind)
    words = found.tensors.get(f"encoder.{WORDS}")
    found.padding_idx = _padding_row(found.content, words.size(0) if words is not None and words.dim() else 0)
    stated = found.stated["max_positions"]
    found.stated["max_positions"] = stated - found.padding_idx - 1 if isinstance(stated, int) else None
    if _TOKEN_TYPES not in found.tensors:
        return
    token_types, positions = found.tensors.pop(_TOKEN_TYPES), found.tensors.get(f"encoder.{POSITIONS}")
    source = found.sources.pop(_TOKEN_TYPES)
    found.sources["(added to the positions)"] = source
    if token_types.dim() != 2 or token_types.size(0) != 1:
        raise CheckpointError(
            f"{found.origin}: {source} has shape {tuple(token_types.shape)}, expected one row; expected {found.source.expected}"
        )
    if positions is None or not bool(token_types.any()):  # adding zeros could turn -0.0 into 0.0, and the fingerprint
        return
    if positions.dim() != 2 or positions.size(1) != token_types.size(1):
        shapes = f"{tuple(token_types.shape)} and {tuple(positions.shape)}"
        raise CheckpointError(f"{found.origin}: {source} and position embedding have shapes {shapes}, not one width")
    found.tensors[f"encoder.{POSITIONS}"] = positions + token_types


def _padding_row(content: Content, rows: int) -> int:
    """Row of ``<pad>`` in a folder of XLM-R's layout with an embedding of so many rows.

    Where ``pad_token_id`` is not 1, the tokenizer or dictionary beside it is asked. A 0 counts as not said, unless a file beside it
    says 0 too: transformers wrote it for every model in January 2020, while XLM-R's own code had 1 as a constant.

    Raises CheckpointError: configuration and the file beside it contradict each other, or that file is damaged.

    Source: the authors' ``RobertaEmbeddings``, whose ``padding_idx`` is the constant 1.
    """
    stated = content.options.get("pad_token_id")
    if stated is None or stated == PADDING_IDX:
        return PADDING_IDX
    entries, file = tokenizer_entries(content.folder, None, rows), "the tokenizer"
    if entries is not None:
        row: Optional[int] = entries.index(PAD) if PAD in entries else None
    else:
        dictionary = find_dictionary(content.folder)
        row, file = (None, "") if dictionary is None else (PADDING_IDX, dictionary.name)
    if stated == 0 and row in (None, PADDING_IDX):
        logger.warning(
            "%s: pad_token_id = 0 in %s: row %d is taken for %s, as in every XLM-R, and positions are counted from row %d",
            content.origin,
            CONFIG_NAME,
            PADDING_IDX,
            PAD,
            PADDING_IDX + 1,
        )
        return PADDING_IDX
    if row not in (None, stated):
        raise padding_contradiction(stated, int(row or 0), file, content.origin)
    return int(stated)


FOLDER = FileLayout(
    "a Hugging Face XLM-RoBERTa masked LM (model_type xlm-roberta, roberta or camembert, hidden_act gelu, layer_norm_eps 1e-05, "
    "one token type, tensors roberta.* and lm_head.*)",
    _is_folder,
    FOLDER_RULES,
    _SIZES,
    (ENCODER, MASKED_LM),
    {"hidden_act": "gelu", "position_embedding_type": "absolute"},
    check_folder,
    settle_folder,
    tied=(TIED, (_BIAS_COPY, "lm_head.bias")),
    model_types=MODEL_TYPES,
)


# ---- BERT. ----

_BERT_RULES: Tuple[Rule, ...] = (
    *_STACK_RULES,
    drop(r"cls\..*", "heads of the pre-training, unused by an encoder"),
    drop(r"(?:classifier|qa_outputs)\..*", "head of another task"),
)


def _bert_epsilon(config: Mapping[str, Any]) -> Any:
    stated = config.get("layer_norm_eps")
    return FAMILIES["bert"]["epsilon"] if stated is None else stated


def _check_bert(content: Content) -> List[str]:
    epsilon, flags = _bert_epsilon(content.options), ("is_decoder", "add_cross_attention")
    problems = [f"{flag} = true, expected false" for flag in flags if content.options.get(flag)]
    if not isinstance(epsilon, (int, float)) or not 0 < epsilon < 1:
        problems.append(f"layer_norm_eps = {epsilon!r}, expected a small number above 0")
    return problems


def _settle_bert(found: PretrainedFile, kind: Kind) -> None:
    segments = found.tensors.get(_TOKEN_TYPES)
    found.padding_idx = -1
    found.wiring = {
        "family": "bert",
        "epsilon": float(_bert_epsilon(found.content.options)),
        "segments": segments.size(0) if segments is not None and segments.dim() else 0,
    }


_BERT = FileLayout(
    "a Hugging Face BERT (model_type bert, hidden_act gelu, absolute positions, tensors bert.*), with vocab.txt or tokenizer.json",
    lambda content: content.is_folder and content.options.get("model_type") == "bert",
    _BERT_RULES,
    {**_SIZES, "segments": "type_vocab_size"},
    wired=FOLDER.wired,
    check=_check_bert,
    settle=_settle_bert,
    model_types=("bert",),
)
LAYOUTS = (_FAIRSEQ, FOLDER, _BERT)


# ---- XLM-R's way back. ----

_WORDS = "sentence_encoder." + WORDS
_EXPORTED = {
    **{ours: f"roberta.embeddings.{name}" for name, ours in _EMBEDDING_NAMES.items()},
    **{rf"layers.(\d+).{ours}": rf"roberta.encoder.layer.\1.{name}" for name, ours in _LAYER_NAMES.items()},
}
_EXPORT_RULES: Tuple[Rule, ...] = (
    *(
        rename(
            rf"sentence_encoder.{ours}.".replace(".", r"\.") + r"(\w+)",
            theirs + (r".\2" if r"\1" in theirs else r".\1"),
        )
        for ours, theirs in _EXPORTED.items()
    ),
    rename(r"(lm_head\.(?:dense|layer_norm)\.\w+|lm_head\.bias)", r"\1"),
)


def write_masked_lm(
    folder: PathLike, sizes: Any, tensors: Mapping[str, Tensor], dtype: torch.dtype = torch.float16
) -> str:
    """Write a Hugging Face XLM-RoBERTa folder: ``config.json`` and ``model.safetensors``, each replaced atomically.

    Args:
        sizes: ``MaskedLMSizes``, or a mapping with its fields.
        tensors: name -> floating-point tensor in the names of ``MaskedLM``; the tied ``lm_head.weight`` may be there.
        dtype: of the stored tensors; values are rounded to it.

    Returns the fingerprint that :func:`.pipeline.read_masked_lm` will give for the folder, i.e. of the *rounded* tensors. Raises
    CheckpointError: names or shapes that are not those of a masked LM of these sizes, or values beyond ``dtype``.
    """
    origin = f"masked LM for {folder}"
    numbers: Dict[str, int] = dict(sizes if isinstance(sizes, Mapping) else dataclasses.asdict(sizes))
    kept = dict(tensors)
    output = kept.pop(OUTPUT, None)
    check_shapes(kept, masked_lm_shapes(numbers), origin, "the tensors of modules.prefix_masked_lm.MaskedLM")
    if output is not None and not torch.equal(output, kept[_WORDS]):
        raise CheckpointError(f"{origin}: {OUTPUT} differs from the token embedding, expected a tie")
    rounded = {name: tensor.detach().to("cpu", dtype, copy=True).contiguous() for name, tensor in kept.items()}
    overflown = [name for name, tensor in rounded.items() if not bool(torch.isfinite(tensor).all())]
    if overflown:
        raise CheckpointError(f"{origin}: values that are not finite in {dtype}: {listing(overflown)}")
    stored = apply_rules(rounded, _EXPORT_RULES, origin, "a masked LM").tensors
    stored["roberta.embeddings.token_type_embeddings.weight"] = torch.zeros(1, numbers["embed_dim"], dtype=dtype)
    Path(folder).mkdir(parents=True, exist_ok=True)
    save_tensors(stored, Path(folder) / "model.safetensors")
    with atomic_path(Path(folder) / CONFIG_NAME) as temporary:
        config = json.dumps(_export_config(numbers, dtype), indent=2, sort_keys=True)
        temporary.write_text(config + "\n", encoding="utf-8")
    return fingerprint(rounded)


def _export_config(sizes: Mapping[str, int], dtype: torch.dtype) -> Dict[str, Any]:
    """``config.json`` of a masked LM of these sizes (names of ``MaskedLMSizes``)."""
    return {
        **{theirs: sizes[ours] for ours, theirs in _SIZES.items()},
        "architectures": ["XLMRobertaForMaskedLM"],
        "attention_probs_dropout_prob": 0.1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "initializer_range": 0.02,
        "layer_norm_eps": _EPSILON,
        "max_position_embeddings": sizes["max_positions"] + sizes["padding_idx"] + 1,
        "model_type": MODEL_TYPES[0],
        "pad_token_id": sizes["padding_idx"],
        "tie_word_embeddings": True,
        "torch_dtype": str(dtype).rsplit(".", 1)[-1],
        "type_vocab_size": 1,
    }
