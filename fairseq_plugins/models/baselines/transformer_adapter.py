"""``transformer_adapter``: language-specific adapters in a frozen multilingual transformer, for comparison with SGA."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Dict, List, Optional, Tuple

from fairseq.data.multilingual.multilingual_utils import get_lang_tok
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn

from ...checkpoints.starting import left_closed
from ...common.filled_model import FilledTransformer
from ...common.options import (
    as_namespace,
    check_choices,
    check_positive,
    defaults_of,
    option,
    register_architectures,
    same_sides,
    set_architecture,
    writable,
)
from ...modules.language_tags import read_together
from . import adapter_backbone
from .adapter_backbone import ADAPTERS, OPTION
from .adapter_sides import AdapterDecoder, AdapterEncoder, AdapterPlan

CHOICES: Any = ChoiceEnum(["target", "encoder"])


@dataclass
class TransformerAdapterOptions(FairseqDataclass):
    """What this model adds to the options of the stock transformer."""

    adapter_backbone: Optional[str] = option(
        None,
        "the multilingual transformer to adapt: a checkpoint of a stock transformer of the same sizes. Read when "
        "training starts; checkpoints of the run need it no more",
    )
    adapter_width: Optional[int] = option(None, "width of the bottleneck of every adapter; the paper has 1,024")
    encoder_adapters: Optional[str] = option(
        None,
        "comma-separated languages with adapters in the encoder; default: those that --encoder-langtok names in "
        "--lang-pairs",
    )
    decoder_adapters: Optional[str] = option(
        None, "comma-separated languages with adapters in the decoder; default: those of --lang-pairs"
    )
    decoder_adapter_language: CHOICES = option(
        "target",
        "whose adapters the decoder uses: target = of the language token of the target; encoder = of the language that "
        "the encoder's language token names, so that each X-en pair has its own in both",
    )


PAPER = same_sides(12, 1024, 4096, 16, dropout=0.3, adapter_width=1024)
ARCHITECTURES: Dict[str, Dict[str, Any]] = {
    "transformer_adapter_tiny": same_sides(3, 128, 512, 4, dropout=0.1, adapter_width=128),
    "transformer_adapter": PAPER,
}
"""Defaults of each --arch; transformer_adapter is the paper's: Transformer-big with 12 + 12 layers."""


@register_model("transformer_adapter")
class TransformerAdapterModel(FilledTransformer):
    """Stock transformer with one adapter per language after each block; only the adapters train.

    The language is read from each row's language token, so that a batch may mix pairs. The backbone's dropout stays what the
    options of the stock transformer say (``--dropout 0`` turns it off): it is what regularises the adapters. Adapters of languages
    that a batch lacks get no gradient, so several processes need ``--find-unused-parameters`` or ``--ddp-backend legacy_ddp``.

    Source: Bapna and Firat 2019, section 3; SGA section 5.2, "mTransformer + adapter".
    """

    own_options = TransformerAdapterOptions

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "TransformerAdapterModel":
        """Build, then fill from the backbone that ``args`` names, and freeze it; see ``start_from``.

        The languages are written down in ``args`` too, so that decoding needs no other list.
        """
        with writable(args):
            set_architecture(args, {**defaults_of(TransformerAdapterOptions), "adapter_width": PAPER["adapter_width"]})
            check_positive(args, "adapter_width")
            check_choices(args, {"decoder_adapter_language": CHOICES})
            if not args.adapter_backbone and not getattr(args, "initialised_from", None):
                raise ValueError(
                    f"{OPTION} is needed: adapters alone do not translate. Give a checkpoint of a stock multilingual transformer"
                )
            args.encoder_adapters, args.decoder_adapters = (",".join(names) for names in _languages(args, task))
        plain = as_namespace(args)
        plain.adapter_plans = {side: _plan(args, task, side) for side in ("encoder", "decoder")}
        try:
            model: TransformerAdapterModel = super().build_model(plain, task)
        finally:
            del plain.adapter_plans
        if args.adapter_backbone:
            absent = left_closed(OPTION, args.adapter_backbone, plain, task)
            model.start_from(args, "adapter_backbone", absent, partial(adapter_backbone.fill, model, plain, task))
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(ADAPTERS in name)
        return model

    def forward(self, src_tokens: Tensor, src_lengths: Any, prev_output_tokens: Tensor, **options: Any) -> Any:
        """Stock forward; the languages of both sides are read with one wait for the device."""
        if self.decoder.plan.by_encoder:
            return super().forward(src_tokens, src_lengths, prev_output_tokens, **options)
        with read_together([(self.encoder.tags, src_tokens), (self.decoder.tags, prev_output_tokens)]):
            return super().forward(src_tokens, src_lengths, prev_output_tokens, **options)

    @classmethod
    def build_encoder(cls, args: Any, src_dict: Any, embed_tokens: nn.Module) -> nn.Module:
        return AdapterEncoder(
            TransformerConfig.from_namespace(args), src_dict, embed_tokens, args.adapter_plans["encoder"]
        )

    @classmethod
    def build_decoder(cls, args: Any, tgt_dict: Any, embed_tokens: nn.Module) -> nn.Module:
        return AdapterDecoder(
            TransformerConfig.from_namespace(args), tgt_dict, embed_tokens, args.adapter_plans["decoder"]
        )


def _languages(args: Any, task: Any) -> Tuple[List[str], List[str]]:
    """Languages with adapters in the encoder and in the decoder; ValueError where task, pairs and options do not agree."""
    found = getattr(task, "args", None)
    by_encoder = str(args.decoder_adapter_language) == "encoder"
    if not hasattr(task, "langs") or not getattr(found, "encoder_langtok", None):
        raise ValueError(
            "transformer_adapter reads the language of a sentence from its language token: use --task "
            "translation_multi_simple_epoch (or translation_multi_temperature) with --encoder-langtok src or tgt"
        )
    if not by_encoder and not getattr(found, "decoder_langtok", False):
        raise ValueError(
            "--decoder-adapter-language target needs --decoder-langtok; without it, --decoder-adapter-language encoder"
        )
    # In decoding --lang-pairs has the pair that is decoded alone.
    extra = getattr(found, "extra_lang_pairs", None) or {}
    pairs = [*task.lang_pairs, *(pair for listed in extra.values() for pair in listed.split(","))]
    sources, targets = (sorted(set(side)) for side in zip(*(pair.split("-") for pair in pairs)))
    named = sources if str(getattr(found, "encoder_langtok", None)) == "src" else targets
    encoder = _listed(args.encoder_adapters) or named
    decoder = encoder if by_encoder else _listed(args.decoder_adapters) or targets
    by_side = (("encoder", encoder, named), ("decoder", decoder, named if by_encoder else targets))
    for side, languages, needed in by_side:
        if not set(languages) <= set(task.langs) or len(set(languages)) < len(languages):
            raise ValueError(
                f"--{side}-adapters {','.join(languages)}: valid are different languages of --langs, which has "
                f"{','.join(map(str, task.langs))}"
            )
        absent = [language for language in needed if language not in languages]
        if absent:
            raise ValueError(
                f"--{side}-adapters {','.join(languages)}: no adapters for {','.join(absent)} of the language pairs "
                f"{','.join(pairs)}; valid: a list with {','.join(needed)} (in training), or pairs of these languages"
            )
    return encoder, decoder


def _listed(text: Optional[str]) -> List[str]:
    return [name.strip() for name in text.split(",") if name.strip()] if text else []


def _plan(args: Any, task: Any, side: str) -> AdapterPlan:
    """Of one side; every language of the task has a token in its dictionary."""
    dictionary = task.source_dictionary if side == "encoder" else task.target_dictionary
    tokens = {
        str(language): dictionary.index(get_lang_tok(language, task.args.lang_tok_style)) for language in task.langs
    }
    by_encoder = side == "decoder" and str(args.decoder_adapter_language) == "encoder"
    return AdapterPlan(_listed(getattr(args, f"{side}_adapters")), tokens, args.adapter_width, by_encoder)


register_architectures("transformer_adapter", ARCHITECTURES)
