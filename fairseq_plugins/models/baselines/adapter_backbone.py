"""Filling the frozen part of ``transformer_adapter`` from a trained multilingual transformer."""

import logging
from typing import Any, List, Mapping, Optional

from torch import Tensor

from ...checkpoints.fitting import check_dictionary, load_fitted
from ...checkpoints.loading import LoadReport
from ...checkpoints.pipeline import find_settings
from ...checkpoints.reading import read_checkpoint
from ...checkpoints.vocabulary import stock_languages, task_options

logger = logging.getLogger(__name__)

OPTION = "--adapter-backbone"
_ADAPTER = ".adapters."
SAME = (
    *(f"{side}_{name}" for side in ("encoder", "decoder") for name in ("layers", "embed_dim", "ffn_embed_dim")),
    *(
        f"{side}_{name}"
        for side in ("encoder", "decoder")
        for name in ("attention_heads", "normalize_before", "learned_pos")
    ),
    *("share_all_embeddings", "share_decoder_input_output_embed", "activation_fn", "no_scale_embedding"),
    *("layernorm_embedding", "no_token_positional_embeddings", "no_cross_attention", "cross_self_attention"),
    *("max_source_positions", "max_target_positions"),
)
"""Options of the model that must be those of the backbone's training."""

SAME_TAGS = ("lang_tok_style", "encoder_langtok", "decoder_langtok", "lang_tok_replacing_bos_eos")
"""Options of the task that decide which language tokens stand where."""

_LEARNED_ONLY = {"max_source_positions": "encoder_learned_pos", "max_target_positions": "decoder_learned_pos"}


def is_adapter(name: str) -> bool:
    """Whether a parameter belongs to an adapter."""
    return _ADAPTER in name


def fill(model: Any, args: Any, task: Any) -> LoadReport:
    """Fill everything but the adapters from the checkpoint that ``args`` names; returns what became of every tensor.

    Raises ValueError: no transformer, other sizes, wiring, languages or dictionary; naming option, value and what is valid.
    """
    path = args.adapter_backbone
    origin = f"{OPTION} {path}"
    content = read_checkpoint(path)
    state = content.get("model")
    if not isinstance(state, Mapping) or not any(name.startswith("decoder.layers.") for name in state):
        raise ValueError(
            f"{origin}: expected a checkpoint of fairseq's transformer (encoder.layers.*, decoder.layers.*)"
        )
    if any(is_adapter(name) for name in state):
        raise ValueError(f"{origin}: has adapters itself; expected the transformer that they were trained on")
    settings = find_settings(content)
    _compare(settings, args, SAME, origin)
    _compare({**settings, **task_options(content)}, task.args, SAME_TAGS, origin)
    _compare_languages(_languages(content, settings), [str(language) for language in task.langs], origin)
    for dictionary in (task.source_dictionary, task.target_dictionary):
        check_dictionary(path, dictionary, origin)
    _check_rows(model, state, origin)
    return load_fitted(model, state, origin, random=(r".*\.adapters\..*",))


def _compare(settings: Mapping[str, Any], args: Any, names: Any, origin: str) -> None:
    """Options that the checkpoint states and that are others here."""
    wrong = []
    for name in names:
        if settings.get(name) is None or not hasattr(args, name):
            continue
        if name in _LEARNED_ONLY and not settings.get(_LEARNED_ONLY[name]):
            continue
        stated, found = settings[name], getattr(args, name)
        if stated != found and (stated or found):
            wrong.append(f"--{name.replace('_', '-')} {found} (valid here: {stated})")
    if wrong:
        raise ValueError(f"{origin} was trained with other options: {', '.join(wrong)}")


def _languages(content: Mapping[str, Any], settings: Mapping[str, Any]) -> Optional[List[str]]:
    """Languages of the backbone in the order of their tokens, where it tells."""
    found = stock_languages(content, settings, "[{}]")
    languages = found.listed or found.guessed
    return list(languages) if languages else None


def _compare_languages(trained: Optional[List[str]], found: List[str], origin: str) -> None:
    if trained is None:
        logger.warning(
            "%s does not tell its languages: make sure that --langs has them in the order of its training", origin
        )
    elif trained != found:
        raise ValueError(
            f"{origin} was trained with the languages {','.join(trained)}, --langs has {','.join(found)}; the rows of the language "
            "tokens follow from that list: give it as it was"
        )


def _check_rows(model: Any, state: Mapping[str, Tensor], origin: str) -> None:
    for side in ("encoder", "decoder"):
        words, own = state.get(f"{side}.embed_tokens.weight"), getattr(model, side).embed_tokens.weight
        if words is not None and words.size(0) != own.size(0):
            raise ValueError(
                f"the dictionary has {own.size(0):,} entries (language tokens counted), {origin} {words.size(0):,} rows for its "
                f"{side}; use the dictionary of its training"
            )
