"""``transformer_adapter``: adapters per language in a frozen multilingual transformer."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional

from fairseq.data.multilingual.multilingual_utils import get_lang_tok
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn

from ..checkpoints.fitting import Filler
from ..checkpoints.loading import LoadReport
from ..checkpoints.opening import find_settings
from ..checkpoints.reading import read_checkpoint
from ..checkpoints.starting import compare_order, explain_unread
from ..checkpoints.vocabulary import (
    as_list,
    check_entries,
    entries_beside,
    stock_languages,
    task_options,
)
from ..common.filled_model import FilledTransformer
from ..common.fit_options import FIT_OPTIONS
from ..common.options import (
    USE_ITS_DICTIONARY,
    Rule,
    as_namespace,
    check_choices,
    check_rules,
    defaults_of,
    flag,
    in_range,
    option,
    register_architectures,
    same_sides,
    set_architecture,
    sizes_of,
    writable,
)
from .adapter_layers import AdapterDecoder, AdapterEncoder, AdapterPlan
from .language_tags import read_together

OPTION = "--adapter-backbone"
ADAPTERS = ".adapters."
"""Part of the name of every parameter of an adapter."""
CHOICES: Any = ChoiceEnum(["target", "encoder"])


# ---- Options. ----


@dataclass
class TransformerAdapterOptions(FairseqDataclass):
    """Options beside those of the stock transformer."""

    adapter_backbone: Optional[str] = option(
        None,
        "the multilingual transformer to adapt: a checkpoint of a stock transformer of the same "
        "sizes. Read when training starts; checkpoints of the run need it no more",
    )
    adapter_width: Optional[int] = option(
        None, "width of the bottleneck of every adapter; the paper has 1,024"
    )
    encoder_adapters: Optional[str] = option(
        None,
        "comma-separated languages with adapters in the encoder; default: those that "
        "--encoder-langtok names in --lang-pairs",
    )
    decoder_adapters: Optional[str] = option(
        None,
        "comma-separated languages with adapters in the decoder; default: those of --lang-pairs",
    )
    decoder_adapter_language: CHOICES = option(
        "target",
        "language whose adapters the decoder uses: target = of the language token of the target; "
        "encoder = of the language that the encoder's language token names, so that each X-en "
        "pair has its own adapters on both sides",
    )


PAPER = same_sides(12, 1024, 4096, 16, dropout=0.3, adapter_width=1024)
ARCHITECTURES: Dict[str, Dict[str, Any]] = {
    "transformer_adapter_tiny": same_sides(3, 128, 512, 4, dropout=0.1, adapter_width=128),
    "transformer_adapter": PAPER,
}
"""Defaults of each --arch; transformer_adapter is the paper's Transformer-big, 12 + 12 layers."""

RULES = (
    in_range("adapter_width", "[1, inf)"),
    Rule(
        lambda o: not o.adapter_backbone and not getattr(o, "initialised_from", None),
        f"{OPTION} is needed: adapters alone do not translate. Give a checkpoint of a stock "
        "multilingual transformer",
    ),
)


# ---- Model. ----


@register_model("transformer_adapter")
class TransformerAdapterModel(FilledTransformer):
    """Stock transformer with one adapter per language after each block; only the adapters train.

    The language is read from each row's language token, so that a batch may mix pairs. The
    backbone's dropout is that of the stock options: it is what regularises the adapters
    (``--dropout 0`` turns it off). Adapters of languages that a batch lacks get no gradient, so
    several processes need ``--find-unused-parameters`` or ``--ddp-backend legacy_ddp``.

    Source: Bapna and Firat 2019, section 3; SGA section 5.2, "mTransformer + adapter".
    """

    own_options = TransformerAdapterOptions

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "TransformerAdapterModel":
        """Build, fill from the backbone that ``args`` names, and freeze it; see ``start_from``.

        The languages are written into ``args``, so that decoding needs no other list.

        Raises:
            ValueError: options break a rule, or the task or the backbone does not fit.
        """
        defaults = defaults_of(TransformerAdapterOptions)
        with writable(args):
            set_architecture(args, {**defaults, "adapter_width": PAPER["adapter_width"]})
            check_choices(args, {"decoder_adapter_language": CHOICES})
            check_rules(args, RULES)
            languages = choose_languages(args, task)
            args.encoder_adapters = ",".join(languages.encoder)
            args.decoder_adapters = ",".join(languages.decoder)
        plain = as_namespace(args)
        # build_encoder and build_decoder get no task, so the plans travel with the options.
        plain.adapter_plans = {side: make_plan(args, task, side) for side in ("encoder", "decoder")}
        try:
            model: TransformerAdapterModel = super().build_model(plain, task)
        finally:
            del plain.adapter_plans
        if args.adapter_backbone:
            absent = explain_unread(OPTION, args.adapter_backbone, plain, task)
            fill = partial(fill_backbone, model, plain, task)
            model.start_from(args, "adapter_backbone", absent, fill)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(ADAPTERS in name)
        return model

    @classmethod
    def build_encoder(cls, args: Any, src_dict: Any, embed_tokens: nn.Module) -> nn.Module:
        """Build the encoder with its adapters."""
        config, plan = TransformerConfig.from_namespace(args), args.adapter_plans["encoder"]
        return AdapterEncoder(config, src_dict, embed_tokens, plan)

    @classmethod
    def build_decoder(cls, args: Any, tgt_dict: Any, embed_tokens: nn.Module) -> nn.Module:
        """Build the decoder with its adapters."""
        config, plan = TransformerConfig.from_namespace(args), args.adapter_plans["decoder"]
        return AdapterDecoder(config, tgt_dict, embed_tokens, plan)

    def forward(
        self, src_tokens: Tensor, src_lengths: Any, prev_output_tokens: Tensor, **options: Any
    ) -> Any:
        """Run the stock forward; the languages of both sides cost one wait for the device."""
        if self.decoder.plan.by_encoder:
            return super().forward(src_tokens, src_lengths, prev_output_tokens, **options)
        sides = (self.encoder.tags, src_tokens, self.decoder.tags, prev_output_tokens)
        with read_together(*sides):
            return super().forward(src_tokens, src_lengths, prev_output_tokens, **options)


register_architectures("transformer_adapter", ARCHITECTURES)


# ---- Languages. ----


class AdapterLanguages(NamedTuple):
    """Languages with adapters on each side, in the order of their numbers."""

    encoder: List[str]
    decoder: List[str]


def choose_languages(args: Any, task: Any) -> AdapterLanguages:
    """Choose the languages with adapters: those of the options, else those of the pairs.

    Raises:
        ValueError: the task has no language tokens, or does not have the languages of the options.
    """
    task_args: Any = getattr(task, "args", None)
    by_encoder = str(args.decoder_adapter_language) == "encoder"
    if not hasattr(task, "langs") or not getattr(task_args, "encoder_langtok", None):
        raise ValueError(
            "transformer_adapter reads the language of a sentence from its language token: use "
            "--task translation_multi_simple_epoch (or translation_multi_temperature) with "
            "--encoder-langtok src or tgt"
        )
    if not by_encoder and not getattr(task_args, "decoder_langtok", False):
        raise ValueError(
            "--decoder-adapter-language target needs --decoder-langtok; without it, "
            "--decoder-adapter-language encoder"
        )
    pairs = all_pairs(task)
    sources = sorted({pair.split("-")[0] for pair in pairs})
    targets = sorted({pair.split("-")[1] for pair in pairs})
    encoder_required = sources if str(task_args.encoder_langtok) == "src" else targets
    decoder_required = encoder_required if by_encoder else targets

    encoder = split_list(args.encoder_adapters) or encoder_required
    decoder = encoder if by_encoder else split_list(args.decoder_adapters) or targets
    check_languages("encoder", encoder, encoder_required, task.langs, pairs)
    check_languages("decoder", decoder, decoder_required, task.langs, pairs)
    return AdapterLanguages(encoder, decoder)


def all_pairs(task: Any) -> List[str]:
    """List the language pairs of a task; in decoding, ``--lang-pairs`` has only the decoded one."""
    extra = getattr(task.args, "extra_lang_pairs", None) or {}
    return [*task.lang_pairs, *(pair for pairs in extra.values() for pair in pairs.split(","))]


def check_languages(
    side: str,
    languages: List[str],
    required: List[str],
    task_languages: List[str],
    pairs: List[str],
) -> None:
    """Raise ValueError unless ``languages`` are distinct, of the task, and include ``required``."""
    options = f"--{side}-adapters {','.join(languages)}"
    if not set(languages) <= set(task_languages) or len(set(languages)) < len(languages):
        raise ValueError(
            f"{options}: valid are different languages of --langs, which has "
            f"{','.join(map(str, task_languages))}"
        )
    absent = [language for language in required if language not in languages]
    if absent:
        raise ValueError(
            f"{options}: no adapters for {','.join(absent)} of the language pairs "
            f"{','.join(pairs)}; valid: a list with {','.join(required)} (in training), or pairs "
            "of these languages"
        )


def split_list(text: Optional[str]) -> List[str]:
    """Split a comma-separated option; None and empty parts give nothing."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def make_plan(args: Any, task: Any, side: str) -> AdapterPlan:
    """Describe the adapters of one side; its dictionary has a token for every language."""
    dictionary = task.source_dictionary if side == "encoder" else task.target_dictionary
    style = task.args.lang_tok_style
    tokens = {str(name): dictionary.index(get_lang_tok(name, style)) for name in task.langs}
    by_encoder = side == "decoder" and str(args.decoder_adapter_language) == "encoder"
    languages = split_list(getattr(args, f"{side}_adapters"))
    return AdapterPlan(languages, tokens, args.adapter_width, by_encoder)


# ---- The backbone's file. ----

MODEL_OPTIONS = (
    *sizes_of("encoder", 0, 0, 0, 0),
    *sizes_of("decoder", 0, 0, 0, 0),
    "encoder_normalize_before",
    "decoder_normalize_before",
    "encoder_learned_pos",
    "decoder_learned_pos",
    "share_all_embeddings",
    "share_decoder_input_output_embed",
    "activation_fn",
    "no_scale_embedding",
    "layernorm_embedding",
    "no_token_positional_embeddings",
    "no_cross_attention",
    "cross_self_attention",
    "max_source_positions",
    "max_target_positions",
)
"""Options of the model that must be those of the backbone's training."""

TASK_OPTIONS = (
    "lang_tok_style",
    "encoder_langtok",
    "decoder_langtok",
    "lang_tok_replacing_bos_eos",
)
"""Options of the task that decide which language tokens stand where."""

LEARNED_POSITIONS = {
    "max_source_positions": "encoder_learned_pos",
    "max_target_positions": "decoder_learned_pos",
}
"""Option of a longest input -> option that makes positions learned. Otherwise any length fits."""


def fill_backbone(model: Any, args: Any, task: Any) -> LoadReport:
    """Fill everything but the adapters from the checkpoint that ``args`` names.

    Returns:
        A report of every tensor.

    Raises:
        ValueError: the checkpoint is no transformer, or its sizes, wiring, languages or dictionary
            are others.
    """
    path = args.adapter_backbone
    origin = f"{OPTION} {path}"
    checkpoint = read_checkpoint(path)
    state = checkpoint.get("model")
    if not isinstance(state, Mapping) or not any(
        key.startswith("decoder.layers.") for key in state
    ):
        raise ValueError(
            f"{origin}: expected a checkpoint of fairseq's transformer (encoder.layers.*, "
            "decoder.layers.*)"
        )
    if any(ADAPTERS in name for name in state):
        raise ValueError(
            f"{origin}: has adapters itself; expected the transformer that they were trained on"
        )
    settings = find_settings(checkpoint)
    options = {**settings, **task_options(checkpoint)}
    compare_options(settings, args, MODEL_OPTIONS, origin)
    compare_options(options, task.args, TASK_OPTIONS, origin)
    # Without a list fairseq takes the languages of the pairs, sorted.
    pairs = as_list(options.get("lang_pairs"))
    paired = sorted({language for pair in pairs for language in pair.split("-")})
    languages = stock_languages(checkpoint, settings, "[{}]").listed or paired or None
    compare_order([str(language) for language in task.langs], languages, origin, "--langs")
    entries = entries_beside(Path(path))
    for dictionary in (task.source_dictionary, task.target_dictionary):
        beside = "the dict.txt beside it"
        check_entries(entries, dictionary.symbols, origin, beside, USE_ITS_DICTIONARY)
    check_rows(model, state, origin)
    filler = Filler(model, dict(state), FIT_OPTIONS, origin)
    return filler.load(random=(r".*\.adapters\..*",))


def compare_options(
    trained: Mapping[str, Any], args: Any, names: Iterable[str], origin: str
) -> None:
    """Raise ValueError for options that the checkpoint states and that differ in ``args``."""
    wrong = []
    for name in names:
        expected = trained.get(name)
        if expected is None or not hasattr(args, name):
            continue
        if name in LEARNED_POSITIONS and not trained.get(LEARNED_POSITIONS[name]):
            continue
        setting = getattr(args, name)
        if expected != setting and (expected or setting):  # None and False are equal
            wrong.append(f"{flag(name)} {setting} (valid here: {expected})")
    if wrong:
        raise ValueError(f"{origin} was trained with other options: {', '.join(wrong)}")


def check_rows(model: Any, state: Mapping[str, Tensor], origin: str) -> None:
    """Raise ValueError unless dictionary and checkpoint have the same number of entries."""
    for side in ("encoder", "decoder"):
        rows = getattr(model, side).embed_tokens.weight.size(0)
        words = state.get(f"{side}.embed_tokens.weight")
        if words is not None and words.size(0) != rows:
            raise ValueError(
                f"the dictionary has {rows:,} entries (language tokens counted), {origin} "
                f"{words.size(0):,} rows for its {side}; use the dictionary of its training"
            )
