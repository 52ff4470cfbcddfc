"""Encoders with a head of a task, and fairseq's BERT, in the names of ``transformers``."""

import logging
import re
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

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

HEAD = re.compile(r"(?P<kind>classification_heads|token_heads)\.(?P<name>.+)\.out_proj\.weight")
SPANS = "span_qa"
SENTENCES, TOKENS = "SequenceClassification", "TokenClassification"
QUESTIONS = "QuestionAnswering"


class Family(NamedTuple):
    """Names of a family in ``transformers``."""

    stem: str  # beginning of the names of tensors
    model_type: str
    prefix: str  # of the names of classes
    pair: Tuple[str, ...]  # symbols around two texts
    sentence_head: Dict[str, str]  # module of our head of sentences -> its name there


FAMILIES = {
    "xlmr": Family(
        "roberta",
        "xlm-roberta",
        "XLMRoberta",
        PAIR,
        {"dense": "classifier.dense", "out_proj": "classifier.out_proj"},
    ),
    "bert": Family(
        "bert",
        "bert",
        "Bert",
        BERT_PAIR,
        {"dense": "bert.pooler.dense", "out_proj": "classifier"},
    ),
}


class Head(NamedTuple):
    """A head in ``transformers``."""

    purpose: str  # end of the name of the class
    modules: Dict[str, str]  # module here -> its name there


def task_head(content: Checkpoint) -> str:
    """Return the name of a checkpoint's head, as ``KIND.NAME``; empty if it has none.

    Raises:
        ValueError: several heads, and the task's options name none of them.
    """
    matches = [match for match in map(HEAD.fullmatch, map(str, content.tensors)) if match]
    if not matches:
        return ""
    choices = matches
    if len(matches) > 1:
        options = {**content.options, **task_options(content.entries)}
        name = options.get("classification_head_name")
        choices = [match for match in matches if match["name"] == name]
    if len(choices) != 1:
        names = ", ".join(match["name"] for match in matches)
        raise ValueError(f"{content.origin}: has the heads {names}; transformers has models of one")
    return f"{choices[0]['kind']}.{choices[0]['name']}"


def exported_encoder(content: Checkpoint, heads: Optional[int] = None) -> Exported:
    """Convert an XLM-R or BERT of ``nlu_encoder``, or fairseq's RoBERTa with a head.

    A head that ``transformers`` does not have is left out with a warning.

    Args:
        heads: attention heads, for files that do not tell.

    Raises:
        ValueError: ``transformers`` has no encoder of this family or wiring.
    """
    file = read_encoder(content.file, heads, "--heads")
    layout, tensors = file.layout, dict(file.tensors)
    if layout.family not in FAMILIES:
        raise ValueError(
            f"{content.origin}: is an encoder of the family {layout.family}; transformers has none "
            "without its decoder"
        )
    if layout.family == "xlmr" and layout.scale_embedding:
        tensors[WORDS] = tensors[WORDS] * layout.embed_dim**0.5
        text = "%s: its embeddings are scaled, which is in the written ones"
        logger.info(text, content.origin)
    family = FAMILIES[layout.family]
    exported = _rename(tensors, layout, family.stem)
    config = {**configuration(layout), "model_type": family.model_type}
    head = _supported_head(content, layout)
    if head is None:
        config["architectures"] = [f"{family.prefix}Model"]
    else:
        config["architectures"] = [f"{family.prefix}For{head.purpose}"]
        name = task_head(content)
        for ours, theirs in head.modules.items():
            for kind in ("weight", "bias"):
                exported[f"{theirs}.{kind}"] = content.tensors[f"{name}.{ours}.{kind}"].float()
        if head.purpose != QUESTIONS:
            classes = exported[f"{head.modules['out_proj']}.bias"].numel()
            config.update(_labels(content, classes))
    return Exported(exported, config, pair=family.pair, max_tokens=layout.max_positions)


def _rename(tensors: Mapping[str, Tensor], layout: EncoderLayout, stem: str) -> Dict[str, Tensor]:
    """Rename an encoder's tensors to those of ``transformers``.

    An encoder without segments gets the one token type that XLM-R has there. BERT's table of
    positions loses the rows before the first position.
    """
    changed = dict(tensors)
    if layout.family == "bert":
        changed[POSITIONS] = tensors[POSITIONS][PADDING_IDX + 1 :]
    changed.setdefault("segment_embeddings.weight", torch.zeros(1, layout.embed_dim))
    return {
        exported_name(f"sentence_encoder.{name}", stem): tensor for name, tensor in changed.items()
    }


def configuration(layout: EncoderLayout) -> Dict[str, Any]:
    """Make the entries of ``config.json`` that do not depend on the head.

    Raises:
        ValueError: norms, positions or activation are not those of the family.
    """
    usual = family_layout(layout.family, **{size: getattr(layout, size) for size in SIZES})
    names = ("normalize_before", "layernorm_embedding", "learned_positions", "activation")
    wiring = {name: getattr(layout, name) for name in names}
    deviations = differing(wiring, {name: getattr(usual, name) for name in names})
    if deviations:
        raise ValueError(
            f"an encoder of the family {layout.family} with {'; '.join(deviations)}; transformers "
            "has no such one"
        )
    config = {theirs: getattr(layout, ours) for ours, theirs in FOLDER_SIZES.items()}
    unused = PADDING_IDX + 1 if layout.family == "xlmr" else 0
    return {
        **config,
        "hidden_act": "gelu",
        "layer_norm_eps": layout.epsilon,
        "pad_token_id": PADDING_IDX,
        "bos_token_id": 0,
        "eos_token_id": layout.eos_idx,
        "type_vocab_size": max(layout.segments, 1),
        "max_position_embeddings": layout.max_positions + unused,
    }


def _supported_head(content: Checkpoint, layout: EncoderLayout) -> Optional[Head]:
    """Find a head's counterpart in ``transformers``; None without a head or a counterpart."""
    name = task_head(content)
    if not name:
        return None
    if name.startswith("token_heads"):
        if task_options(content.entries).get("_name") == SPANS:
            return Head(QUESTIONS, {"out_proj": "qa_outputs"})
        return Head(TOKENS, {"out_proj": "classifier"})
    options, reason = content.options, ""
    pooling = str(options.get("sentence_pooling") or DEFAULT_POOLING[layout.family])
    if content.tensors[f"{name}.dense.weight"].shape != (layout.embed_dim, layout.embed_dim):
        reason = "another width than the encoder's"
    elif options.get(LAYOUT_ENTRY) is not None and pooling != "first":
        reason = f"--sentence-pooling {pooling}"
    elif options.get("pooler_activation_fn") not in (None, "tanh"):
        reason = f"--pooler-activation-fn {options['pooler_activation_fn']}"
    if reason:
        text = "%s: its head is left out, for transformers has none with %s"
        logger.warning(text, content.origin, reason)
        return None
    return Head(SENTENCES, FAMILIES[layout.family].sentence_head)


def _labels(content: Checkpoint, classes: int) -> Dict[str, Any]:
    """Name the classes as the checkpoint does, or else by their numbers."""
    entries = as_dict(content.entries.get("task_state") or {}).get("labels") or ()
    labels = [str(entry) for entry in entries[len(SPECIAL) :]]
    labels = [label for label in labels if not label.startswith("madeupword")]
    if len(labels) != classes:
        labels = [f"LABEL_{number}" for number in range(classes)]
    return {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
    }


# ---- fairseq's BERT (--arch bert_base, masked_lm). ----

TOP = r"encoder\."
STACK = TOP + r"sentence_encoder\."
TRANSFORM = "cls.predictions.transform"
BERT_NAMES = NameTable(
    renames={
        STACK + r"(segment_embeddings\.weight)": r"\1",
        **stack_renames(STACK, ""),
        TOP + r"lm_head_transform_weight\.(weight|bias)": TRANSFORM + r".dense.\1",
        TOP + r"layer_norm\.(weight|bias)": TRANSFORM + r".LayerNorm.\1",
        TOP + r"lm_output_learned_bias": "cls.predictions.bias",
        TOP + r"masked_lm_pooler\.(weight|bias)": r"bert.pooler.dense.\1",
        TOP + r"sentence_projection_layer\.(weight)": r"cls.seq_relationship.\1",
    },
    dropped=stack_buffers(STACK),
    refused={TOP + r"embed_out\..*": "has an output projection of its own"},
)
BERT_OPTIONS = {
    "activation_fn": "gelu",
    "pooler_activation_fn": "tanh",
    "encoder_learned_pos": True,
    "encoder_normalize_before": True,
    "no_token_positional_embeddings": False,
}
BERT = "a masked LM of fairseq's bert_base, its output tied to its embedding"


def is_bert(content: Checkpoint) -> bool:
    """Return True for a checkpoint that has the head of fairseq's BERT."""
    start = "encoder.lm_head_transform_weight"
    return any(str(name).startswith(start) for name in content.tensors)


def exported_bert(content: Checkpoint) -> Exported:
    """Convert fairseq's BERT to ``BertForPreTraining``.

    Raises:
        ValueError: options or tensors are not those of a BERT.
    """
    options, origin = content.options, content.origin
    problems = differing(options, BERT_OPTIONS)
    if problems:
        raise ValueError(f"{origin}: {'; '.join(problems)}; expected {BERT}")
    tensors = rename_tensors(content.tensors, BERT_NAMES, origin, BERT).tensors
    names = [name for name in tensors if name.startswith(("cls.", "bert."))]
    head = {name: tensors.pop(name) for name in names}
    sizes = {"heads": options.get("encoder_attention_heads")}
    encoder = PretrainedFile(content, BERT, tensors, stated_sizes=sizes)
    encoder.find_sizes(None, "encoder_attention_heads")
    segments = tensors.get("segment_embeddings.weight")
    rows = 0 if segments is None else segments.size(0)
    wiring: Dict[str, Any] = {"family": "bert", "epsilon": 1e-5, "segments": rows}
    layout = EncoderLayout(**{**encoder.sizes, **wiring})
    check_shapes(tensors, expected_shapes(layout), origin, BERT)
    # fairseq's projection has no bias, and a model without the sentence task has no projection.
    head.setdefault("cls.seq_relationship.weight", torch.zeros(2, layout.embed_dim))
    classes = len(head["cls.seq_relationship.weight"])
    head["cls.seq_relationship.bias"] = torch.zeros(classes)
    check_shapes(head, _bert_head_shapes(layout), origin, BERT)
    config = configuration(layout)
    config.update(model_type="bert", architectures=["BertForPreTraining"])
    exported = {**_rename(tensors, layout, "bert"), **head}
    return Exported(exported, config, pair=BERT_PAIR, max_tokens=layout.max_positions)


def _bert_head_shapes(layout: EncoderLayout) -> Dict[str, Tuple[int, ...]]:
    """Return the shapes of the tensors of ``BertForPreTraining`` above the encoder."""
    width = layout.embed_dim
    return {
        "cls.predictions.bias": (layout.vocab_size,),
        "cls.seq_relationship.weight": (2, width),
        "cls.seq_relationship.bias": (2,),
        "cls.predictions.transform.dense.weight": (width, width),
        "cls.predictions.transform.dense.bias": (width,),
        "cls.predictions.transform.LayerNorm.weight": (width,),
        "cls.predictions.transform.LayerNorm.bias": (width,),
        "bert.pooler.dense.weight": (width, width),
        "bert.pooler.dense.bias": (width,),
    }
