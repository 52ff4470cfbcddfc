"""Filling the frozen part of ``transformer_adapter`` from a trained multilingual transformer."""

from pathlib import Path
from typing import Any, Mapping

from torch import Tensor

from ...checkpoints.fitting import Filler
from ...checkpoints.loading import LoadReport
from ...checkpoints.opening import find_settings
from ...checkpoints.reading import read_checkpoint
from ...checkpoints.starting import compare_order
from ...checkpoints.vocabulary import as_list, check_entries, entries_beside, stock_languages, task_options
from ...common.fit_options import FIT_OPTIONS
from ...common.options import USE_ITS_DICTIONARY, flag, sizes_of

OPTION = "--adapter-backbone"
ADAPTERS = ".adapters."
"""Part of the name of every parameter of an adapter."""
SAME = (
    *sizes_of("encoder", 0, 0, 0, 0),
    *sizes_of("decoder", 0, 0, 0, 0),
    *("encoder_normalize_before", "decoder_normalize_before", "encoder_learned_pos", "decoder_learned_pos"),
    *("share_all_embeddings", "share_decoder_input_output_embed", "activation_fn", "no_scale_embedding"),
    *("layernorm_embedding", "no_token_positional_embeddings", "no_cross_attention", "cross_self_attention"),
    *("max_source_positions", "max_target_positions"),
)
"""Options of the model that must be those of the backbone's training."""

SAME_TAGS = ("lang_tok_style", "encoder_langtok", "decoder_langtok", "lang_tok_replacing_bos_eos")
"""Options of the task that decide which language tokens stand where."""

_LEARNED_ONLY = {"max_source_positions": "encoder_learned_pos", "max_target_positions": "decoder_learned_pos"}


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
    if any(ADAPTERS in name for name in state):
        raise ValueError(f"{origin}: has adapters itself; expected the transformer that they were trained on")
    settings = find_settings(content)
    _compare(settings, args, SAME, origin)
    options = {**settings, **task_options(content)}
    _compare(options, task.args, SAME_TAGS, origin)
    # Without a list fairseq takes the languages of the pairs, sorted.
    of_pairs = sorted({language for pair in as_list(options.get("lang_pairs")) for language in pair.split("-")})
    listed = stock_languages(content, settings, "[{}]").listed
    compare_order([str(language) for language in task.langs], listed or of_pairs or None, origin, "--langs")
    for dictionary in (task.source_dictionary, task.target_dictionary):
        entries = entries_beside(Path(path))
        check_entries(entries, dictionary.symbols, origin, "the dict.txt beside it", USE_ITS_DICTIONARY)
    _check_rows(model, state, origin)
    filler = Filler(model, dict(state), FIT_OPTIONS, origin)
    return filler.load(random=(r".*\.adapters\..*",))


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
            wrong.append(f"{flag(name)} {found} (valid here: {stated})")
    if wrong:
        raise ValueError(f"{origin} was trained with other options: {', '.join(wrong)}")


def _check_rows(model: Any, state: Mapping[str, Tensor], origin: str) -> None:
    for side in ("encoder", "decoder"):
        words, own = state.get(f"{side}.embed_tokens.weight"), getattr(model, side).embed_tokens.weight
        if words is not None and words.size(0) != own.size(0):
            raise ValueError(
                f"the dictionary has {own.size(0):,} entries (language tokens counted), {origin} {words.size(0):,} rows for its "
                f"{side}; use the dictionary of its training"
            )
