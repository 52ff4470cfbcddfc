"""Masked LMs of XLM-R's shape, in fairseq's files (XLM-R, InfoXLM, ``xlmr_mlm``) and in Hugging Face folders, which are also
written; and BERT.

Layouts met in the wild: ``decoder.sentence_encoder.`` (fairseq < 0.10) against ``encoder.sentence_encoder.``, ``emb_layer_norm``
against ``layernorm_embedding``, one fused ``in_proj_weight`` against three projections, and InfoXLM's training files with the
model under ``model_fast.`` beside a momentum copy.
"""

import dataclasses
import json
import logging
import re
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Tuple

import torch
from torch import Tensor

from data_prep.files import atomic_path

from .encoders import check_padding, tokenizer_entries
from .inspection import CheckpointError
from .layouts import PADDING_IDX, masked_lm_shapes, size_options, wrong_epsilon
from .loading import Rule, drop, listing, refuse, rename, stack_rules
from .pipeline import ENCODER, MASKED_LM, POSITIONS, WORDS, Content, FileLayout, Kind, PretrainedFile, check_shapes
from .reading import PathLike, fingerprint
from .vocabulary import CONFIG_NAME, PAD
from .writing import save_tensors

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


_FAIRSEQ = FileLayout(
    "a fairseq masked LM of XLM-R's shape (encoder.sentence_encoder.*, encoder.lm_head.* tied to the embedding)",
    lambda content: not content.is_folder and any("sentence_encoder." in name for name in content.tensors),
    _FAIRSEQ_RULES,
    size_options("encoder", "max_positions"),
    (ENCODER, MASKED_LM),
    WIRED,
    family="xlmr",
    mask_last=True,
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
    drop(r"(?:classifier|qa_outputs)\..*", "head of another task"),
    drop(r"(?:(?:roberta|bert)\.)?pooler\.dense\.(?:weight|bias)", "pooler, unused by a masked LM"),
)
"""What XLM-R and BERT have in common."""


_WIRED = {"hidden_act": "gelu", "position_embedding_type": "absolute"}


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
    """Whether a configuration says so, or has no ``model_type``, as before transformers 2.3 (VECO), and tensors ``roberta.*``."""
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
    for flag in ("is_decoder", "add_cross_attention"):
        if config.get(flag) and not has_cross_attention(names):
            problems.append(f"{flag} = {config[flag]!r}, expected false without the cross_attention.* of a VECO")
    if config.get("is_decoder") and any(".crossattention." in name for name in names):
        logger.warning("%s: is_decoder = true with crossattention.*: taken to be a VECO", content.options_origin)
    if config.get("model_type") is None:
        logger.warning("%s: has no model_type: %s is taken", content.options_origin, MODEL_TYPES[0])
    return problems


def settle_folder(found: PretrainedFile, kind: Kind) -> None:
    """Check the row of ``<pad>``, and add the one token-type row to every position, so that logits stay the same.

    A ``pad_token_id`` of 0 counts as not said, unless the tokenizer beside it says otherwise: transformers wrote it for every model
    in January 2020. Source: the authors' ``RobertaEmbeddings``, whose ``padding_idx`` is 1.
    """
    if found.content.options.get("pad_token_id") == 0:
        rows = found.matrix(f"encoder.{WORDS}").size(0)
        check_padding(tokenizer_entries(found.content.folder, None, rows) or (), found.origin)
        shown = f"row {PADDING_IDX} is taken for {PAD}, as in every XLM-R"
        logger.warning("%s: pad_token_id = 0 in %s: %s", found.origin, CONFIG_NAME, shown)
    stated, positions = found.stated["max_positions"], found.matrix(f"encoder.{POSITIONS}")
    found.stated["max_positions"] = stated - PADDING_IDX - 1 if isinstance(stated, int) else None
    token_types = found.tensors.pop(_TOKEN_TYPES, None)
    if token_types is None:
        return
    source = found.sources["(added to the positions)"] = found.sources.pop(_TOKEN_TYPES)
    if token_types.shape != positions[:1].shape:
        raise CheckpointError(
            f"{found.origin}: {source} has shape {tuple(token_types.shape)}, expected one row of the positions' width; expected "
            f"{found.source.expected}"
        )
    if bool(token_types.any()):  # adding zeros could turn -0.0 into 0.0, and the fingerprint
        found.tensors[f"encoder.{POSITIONS}"] = positions + token_types


FOLDER = FileLayout(
    "a Hugging Face XLM-RoBERTa masked LM (model_type xlm-roberta, roberta or camembert; roberta.* and lm_head.*)",
    _is_folder,
    FOLDER_RULES,
    _SIZES,
    (ENCODER, MASKED_LM),
    {**_WIRED, "pad_token_id": (PADDING_IDX, 0)},
    check_folder,
    settle_folder,
    family="xlmr",
    mask_last=True,
    tied=(TIED, (_BIAS_COPY, "lm_head.bias")),
    model_types=MODEL_TYPES,
)


# ---- BERT. ----

_BERT_RULES: Tuple[Rule, ...] = (
    *_STACK_RULES,
    drop(r"cls\..*", "heads of the pre-training, unused by an encoder"),
)


def _settle_bert(found: PretrainedFile, kind: Kind) -> None:
    segments = found.tensors.get(_TOKEN_TYPES)
    found.padding_idx = -1
    found.wiring["epsilon"] = float(found.content.options.get("layer_norm_eps", found.wiring["epsilon"]))
    found.wiring["segments"] = segments.size(0) if segments is not None and segments.dim() else 0


_BERT = FileLayout(
    "a Hugging Face BERT (model_type bert, hidden_act gelu, absolute positions, tensors bert.*), with vocab.txt or tokenizer.json",
    lambda content: content.is_folder and content.options.get("model_type") == "bert",
    _BERT_RULES,
    {**_SIZES, "segments": "type_vocab_size"},
    wired={**_WIRED, "is_decoder": False, "add_cross_attention": False},
    check=lambda content: wrong_epsilon(content.options, "layer_norm_eps"),
    settle=_settle_bert,
    family="bert",
    model_types=("bert",),
)
LAYOUTS = (_FAIRSEQ, FOLDER, _BERT)


# ---- XLM-R's way back. ----

_WORDS = "sentence_encoder." + WORDS
_THEIRS = {ours: theirs for names in (_EMBEDDING_NAMES, _LAYER_NAMES) for theirs, ours in names.items()}


def exported(name: str, model: str = "roberta") -> str:
    """The name of a tensor of ``MaskedLM`` in a folder; ``model``: what names of the encoder begin with."""
    stack, _, rest = name.partition(".")
    if stack == "lm_head":
        return name
    module, _, kind = rest.rpartition(".")
    found = re.fullmatch(r"layers\.(\d+)\.(.+)", module)
    place = f"encoder.layer.{found[1]}.{_THEIRS[found[2]]}" if found else f"embeddings.{_THEIRS[module]}"
    return f"{model}.{place}.{kind}"


def write_masked_lm(
    folder: PathLike, sizes: Any, tensors: Mapping[str, Tensor], dtype: torch.dtype = torch.float16
) -> str:
    """Write a Hugging Face XLM-RoBERTa folder: ``config.json`` and ``model.safetensors``, each replaced atomically.

    ``sizes``: ``MaskedLMSizes``, or a mapping with its fields. ``tensors``: in the names of ``MaskedLM``; the tied
    ``lm_head.weight`` may be there. ``dtype``: to which values are rounded.

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
    stored = {exported(name): tensor for name, tensor in rounded.items()}
    stored["roberta.embeddings.token_type_embeddings.weight"] = torch.zeros(1, numbers["embed_dim"], dtype=dtype)
    Path(folder).mkdir(parents=True, exist_ok=True)
    save_tensors(stored, Path(folder) / "model.safetensors")
    config = {
        **{theirs: numbers[ours] for ours, theirs in _SIZES.items()},
        "architectures": ["XLMRobertaForMaskedLM"],
        "hidden_act": "gelu",
        "layer_norm_eps": _EPSILON,
        "max_position_embeddings": numbers["max_positions"] + numbers["padding_idx"] + 1,
        "model_type": MODEL_TYPES[0],
        "pad_token_id": numbers["padding_idx"],
        "torch_dtype": str(dtype).rsplit(".", 1)[-1],
        "type_vocab_size": 1,
    }
    with atomic_path(Path(folder) / CONFIG_NAME) as temporary:
        temporary.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return fingerprint(rounded)
