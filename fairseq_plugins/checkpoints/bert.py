"""Hugging Face folders of BERT."""

from typing import Any, Mapping, Tuple

from .encoder_layout import FAMILIES
from .huggingface import EMBEDDINGS, SIZES, STACK_RULES
from .loading import Rule, drop, rename
from .pipeline import Content, FileLayout, PretrainedFile, differing, refuse_config
from .xlmr import STACK, shift_positions

EXPECTED = (
    "a Hugging Face BERT (model_type bert, hidden_act gelu, absolute positions, tensors bert.*), with vocab.txt or "
    "tokenizer.json"
)

RULES: Tuple[Rule, ...] = (
    rename(EMBEDDINGS + r"token_type_embeddings\.weight", STACK + "segment_embeddings.weight"),
    *STACK_RULES,
    drop(r"cls\..*", "heads of the pre-training, unused by an encoder"),
    drop(r"(?:classifier|qa_outputs)\..*", "head of another task"),
)


def _check_bert(content: Content) -> None:
    config = content.options
    problems = differing(config, {"hidden_act": "gelu", "position_embedding_type": "absolute"})
    epsilon = _bert_epsilon(config)
    if not isinstance(epsilon, (int, float)) or not 0 < epsilon < 1:
        problems.append(f"layer_norm_eps = {epsilon!r}, expected a small number above 0")
    problems += [f"{flag} = true, expected false" for flag in ("is_decoder", "add_cross_attention") if config.get(flag)]
    refuse_config(problems, content)


def _bert_epsilon(config: Mapping[str, Any]) -> Any:
    stated = config.get("layer_norm_eps")
    return FAMILIES["bert"]["epsilon"] if stated is None else stated


def _settle_bert(content: Content, found: PretrainedFile) -> None:
    found.renamed.move(STACK, "")
    found.rows_unordered = True
    segments = found.tensors.get("segment_embeddings.weight")
    found.wiring = {
        "family": "bert",
        "epsilon": float(_bert_epsilon(content.options)),
        "segments": segments.size(0) if segments is not None and segments.dim() else 0,
    }
    shift_positions(found, first=0)


ENCODERS = (
    FileLayout(
        EXPECTED,
        lambda content: content.is_folder and content.options.get("model_type") == "bert",
        RULES,
        {**SIZES, "segments": "type_vocab_size"},
        _check_bert,
        _settle_bert,
        model_types=("bert",),
    ),
)
