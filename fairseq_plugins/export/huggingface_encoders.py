"""Encoders with a head of a task, and fairseq's BERT, in the names of ``transformers``."""

import logging
import re
from typing import Any, Dict, Mapping, Optional, Tuple

import torch
from torch import Tensor

from ..checkpoints.encoders import read_encoder
from ..checkpoints.layouts import (
    LAYOUT_ENTRY,
    PADDING_IDX,
    POSITIONS,
    SIZES,
    WORDS,
    EncoderLayout,
    expected_shapes,
    family_layout,
)
from ..checkpoints.loading import check_shapes
from ..checkpoints.masked_lm import FOLDER_SIZES
from ..checkpoints.opening import Checkpoint, differing
from ..checkpoints.pretrained import PretrainedFile
from ..checkpoints.renaming import NameTable, rename_tensors, stack_buffers, stack_renames
from ..checkpoints.vocabulary import SPECIAL, as_dict, task_options
from ..checkpoints.writing import exported_name
from ..understanding.config import DEFAULT_POOLING
from .huggingface_layout import BERT_PAIR, PAIR, Exported

logger = logging.getLogger(__name__)

_HEAD = re.compile(r"(?P<kind>classification_heads|token_heads)\.(?P<name>.+)\.out_proj\.weight")
_SPANS = "span_qa"
_PLACES = {
    ("xlmr", "SequenceClassification"): {"dense": "classifier.dense", "out_proj": "classifier.out_proj"},
    ("bert", "SequenceClassification"): {"dense": "bert.pooler.dense", "out_proj": "classifier"},
    ("", "TokenClassification"): {"out_proj": "classifier"},
    ("", "QuestionAnswering"): {"out_proj": "qa_outputs"},
}
"""(family, what the class does) -> module of a head -> its place there."""
_MODELS = {"xlmr": ("roberta", "xlm-roberta", "XLMRoberta"), "bert": ("bert", "bert", "Bert")}
"""Family -> what names of the encoder begin with, model_type, and what names of classes do."""
_WIRING = ("normalize_before", "layernorm_embedding", "learned_positions", "activation")


def task_head(content: Checkpoint) -> str:
    """Name of the head that a checkpoint has for its task, as ``KIND.NAME``; empty where it has none.

    Raises ValueError: several, of which the task's options name none.
    """
    found = [match for match in map(_HEAD.fullmatch, map(str, content.tensors)) if match]
    wanted = {**content.options, **task_options(content.entries)}.get("classification_head_name")
    named = [match for match in found if match["name"] == wanted] if len(found) > 1 else found
    if found and len(named) != 1:
        listed = ", ".join(match["name"] for match in found)
        raise ValueError(f"{content.origin}: has the heads {listed}; transformers has models of one")
    return f"{named[0]['kind']}.{named[0]['name']}" if named else ""


def exported_encoder(content: Checkpoint, heads: Optional[int] = None) -> Exported:
    """An XLM-R or BERT of ``nlu_encoder``, or fairseq's RoBERTa with a head.

    A head that no class of ``transformers`` computes is left out, which is logged. Raises ValueError: another family or wiring.
    """
    found = read_encoder(content.file, heads, "--heads")
    layout, tensors = found.layout, dict(found.tensors)
    if layout.family not in _MODELS:
        raise ValueError(
            f"{content.origin}: is an encoder of the family {layout.family}; transformers has none without its decoder"
        )
    if layout.family == "xlmr" and layout.scale_embedding:
        tensors[WORDS] = tensors[WORDS] * layout.embed_dim**0.5
        logger.info("%s: its embeddings are scaled, which is in the written ones", content.origin)
    stem, model_type, prefix = _MODELS[layout.family]
    made = _renamed(tensors, layout, stem)
    config = configuration(layout)
    purpose, places = _purpose(content, layout)
    config.update(model_type=model_type, architectures=[f"{prefix}{'For' if purpose else ''}{purpose or 'Model'}"])
    if purpose:
        head = task_head(content)
        for ours, theirs in places.items():
            for kind in ("weight", "bias"):
                made[f"{theirs}.{kind}"] = content.tensors[f"{head}.{ours}.{kind}"].float()
        config.update(_labels(content, made, purpose))
    pair = BERT_PAIR if layout.family == "bert" else PAIR
    return Exported(made, config, pair=pair, longest=layout.max_positions)


def _renamed(tensors: Mapping[str, Tensor], layout: EncoderLayout, stem: str) -> Dict[str, Tensor]:
    """An encoder's tensors and what its counterpart has beside: XLM-R's token type; BERT has no rows before its positions."""
    changed = dict(tensors)
    if layout.family == "bert":
        changed[POSITIONS] = tensors[POSITIONS][PADDING_IDX + 1 :]
    changed.setdefault("segment_embeddings.weight", torch.zeros(1, layout.embed_dim))
    return {exported_name(f"sentence_encoder.{name}", stem): one for name, one in changed.items()}


def configuration(layout: EncoderLayout) -> Dict[str, Any]:
    """The options that an encoder has whatever its head. ValueError: wired as none of its family there."""
    usual = family_layout(layout.family, **{size: getattr(layout, size) for size in SIZES})
    other = differing(*({name: getattr(one, name) for name in _WIRING} for one in (layout, usual)))
    if other:
        raise ValueError(
            f"an encoder of the family {layout.family} with {'; '.join(other)}; transformers has no such one"
        )
    config = {theirs: getattr(layout, ours) for ours, theirs in FOLDER_SIZES.items()}
    config.update(hidden_act="gelu", layer_norm_eps=layout.epsilon, pad_token_id=PADDING_IDX, bos_token_id=0)
    config.update(eos_token_id=layout.eos_idx, type_vocab_size=max(layout.segments, 1))
    unused = PADDING_IDX + 1 if layout.family == "xlmr" else 0
    return {**config, "max_position_embeddings": layout.max_positions + unused}


def _purpose(content: Checkpoint, layout: EncoderLayout) -> Tuple[str, Mapping[str, str]]:
    """What the class of a head does, and the places of the head's modules; empty for an encoder alone."""
    head = task_head(content)
    if not head:
        return "", {}
    if head.startswith("token_heads"):
        purpose = "QuestionAnswering" if task_options(content.entries).get("_name") == _SPANS else "TokenClassification"
        return purpose, _PLACES["", purpose]
    options, reason = content.options, ""
    pooling = str(options.get("sentence_pooling") or DEFAULT_POOLING[layout.family])
    if content.tensors[f"{head}.dense.weight"].shape != (layout.embed_dim, layout.embed_dim):
        reason = "another width than the encoder's"
    elif options.get(LAYOUT_ENTRY) is not None and pooling != "first":
        reason = f"--sentence-pooling {pooling}"
    elif options.get("pooler_activation_fn") not in (None, "tanh"):
        reason = f"--pooler-activation-fn {options['pooler_activation_fn']}"
    if reason:
        logger.warning("%s: its head is left out, for transformers has none with %s", content.origin, reason)
        return "", {}
    return "SequenceClassification", _PLACES[layout.family, "SequenceClassification"]


def _labels(content: Checkpoint, made: Mapping[str, Tensor], purpose: str) -> Dict[str, Any]:
    """Number and names of the classes, where the checkpoint has them; spans have none."""
    if purpose == "QuestionAnswering":
        return {}
    projection = "classifier.out_proj.bias" if "classifier.out_proj.bias" in made else "classifier.bias"
    stored = as_dict(content.entries.get("task_state") or {}).get("labels") or ()
    labels = [str(one) for one in stored[len(SPECIAL) :] if not str(one).startswith("madeupword")]
    if len(labels) != made[projection].numel():
        labels = [f"LABEL_{number}" for number in range(made[projection].numel())]
    return {"id2label": dict(enumerate(labels)), "label2id": {label: number for number, label in enumerate(labels)}}


# ---- fairseq's BERT (--arch bert_base, masked_lm). ----

_TOP = r"encoder\."
_STACK = _TOP + r"sentence_encoder\."
_TRANSFORM = "cls.predictions.transform"
_BERT_NAMES = NameTable(
    renames={
        _STACK + r"(segment_embeddings\.weight)": r"\1",
        **stack_renames(_STACK, ""),
        _TOP + r"lm_head_transform_weight\.(weight|bias)": _TRANSFORM + r".dense.\1",
        _TOP + r"layer_norm\.(weight|bias)": _TRANSFORM + r".LayerNorm.\1",
        _TOP + r"lm_output_learned_bias": "cls.predictions.bias",
        _TOP + r"masked_lm_pooler\.(weight|bias)": r"bert.pooler.dense.\1",
        _TOP + r"sentence_projection_layer\.(weight)": r"cls.seq_relationship.\1",
    },
    dropped=stack_buffers(_STACK),
    refused={_TOP + r"embed_out\..*": "has an output projection of its own"},
)
_BERT = "a masked LM of fairseq's bert_base, its output tied to its embedding"


def is_bert(content: Checkpoint) -> bool:
    """Whether a checkpoint has the head of fairseq's own BERT."""
    return any(str(name).startswith("encoder.lm_head_transform_weight") for name in content.tensors)


def exported_bert(content: Checkpoint) -> Exported:
    """fairseq's BERT as ``BertForPreTraining``. Raises ValueError: other options or tensors than a BERT's."""
    options, origin = content.options, content.origin
    wanted = {"activation_fn": "gelu", "pooler_activation_fn": "tanh", "encoder_learned_pos": True}
    problems = differing(options, {**wanted, "encoder_normalize_before": True, "no_token_positional_embeddings": False})
    if problems:
        raise ValueError(f"{origin}: {'; '.join(problems)}; expected {_BERT}")
    tensors = rename_tensors(content.tensors, _BERT_NAMES, origin, _BERT).tensors
    head = {name: tensors.pop(name) for name in list(tensors) if name.startswith(("cls.", "bert."))}
    stated = {"heads": options.get("encoder_attention_heads")}
    encoder = PretrainedFile(content, _BERT, tensors, stated_sizes=stated)
    segments = tensors.get("segment_embeddings.weight")
    encoder.find_sizes(None, "encoder_attention_heads")
    count = 0 if segments is None else segments.size(0)
    wiring: Dict[str, Any] = {"family": "bert", "epsilon": 1e-5, "segments": count}
    layout = EncoderLayout(**{**encoder.sizes, **wiring})
    check_shapes(tensors, expected_shapes(layout), origin, _BERT)
    width, rows = layout.embed_dim, layout.vocab_size
    head.setdefault("cls.seq_relationship.weight", torch.zeros(2, width))
    head["cls.seq_relationship.bias"] = torch.zeros(len(head["cls.seq_relationship.weight"]))
    shapes: Dict[str, Tuple[int, ...]] = {"cls.predictions.bias": (rows,), "cls.seq_relationship.weight": (2, width)}
    shapes["cls.seq_relationship.bias"] = (2,)
    for module in ("cls.predictions.transform.dense", "bert.pooler.dense"):
        shapes.update({f"{module}.weight": (width, width), f"{module}.bias": (width,)})
    shapes.update({f"cls.predictions.transform.LayerNorm.{kind}": (width,) for kind in ("weight", "bias")})
    check_shapes(head, shapes, origin, _BERT)
    config = {**configuration(layout), "model_type": "bert", "architectures": ["BertForPreTraining"]}
    made = {**_renamed(tensors, layout, "bert"), **head}
    return Exported(made, config, pair=BERT_PAIR, longest=layout.max_positions)
