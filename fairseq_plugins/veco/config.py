"""Options of VECO beside those of the stock transformer, architectures, rules between options."""

import re
from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from ..common.options import (
    EMBEDDING_POLICIES,
    SIDES,
    XLMR_WIRING,
    Rule,
    check_choices,
    check_rules,
    check_wiring,
    embedding_mismatch_option,
    flag,
    option,
    sizes_of,
)

DECODER_LAYERS = 6
"""Decoder layers of a translator unless options say how many; the paper's main results have 6."""

RELEASED, PRETRAINING, RUN = "released", "pretraining", "run"
CHECKPOINT_KINDS: Any = ChoiceEnum([RELEASED, PRETRAINING, RUN])
"""Kinds of checkpoints; ``state.py`` says how each becomes a translation model."""


@dataclass
class VECOOptions(FairseqDataclass):
    """Options that VECO adds to those of the stock transformer."""

    keep_encoder_layers: Optional[str] = option(
        None,
        "layers of the encoder, chosen from the pretrained stack of --encoder-layers layers "
        "(default: all): a list from 0 such as 0,1,2,3, or last:N, or every:K = each K-th, ending "
        "with the last",
    )
    keep_decoder_layers: Optional[str] = option(
        None,
        "layers of the decoder, chosen alike: for example 18,19,20,21,22,23, last:6 or every:4",
    )
    init_from_mlm: Optional[str] = option(
        None,
        "masked LM to start from (XLM-R, InfoXLM): a fairseq model.pt or a Hugging Face folder. It "
        "fills everything but cross-attention, which stays random; a decoder takes the layers of "
        "--keep-decoder-layers, by default the last ones. Read when training starts; implies "
        "--no-scale-embedding",
    )
    embedding_mismatch: EMBEDDING_POLICIES = embedding_mismatch_option()


def _architecture(*sizes: int) -> Dict[str, Any]:
    wiring = dict(XLMR_WIRING)
    del wiring["no_scale_embedding"]  # its default depends on the task: see _fill_defaults
    return {
        **sizes_of("encoder", *sizes),
        **wiring,
        "max_source_positions": 512,
        "max_target_positions": 512,
        "share_all_embeddings": True,
        "dropout": 0.1,
    }


ARCHITECTURES: Dict[str, Dict[str, Any]] = {
    "veco_tiny": _architecture(4, 256, 1024, 4),
    "veco_base": _architecture(12, 768, 3072, 12),
    "veco_large": _architecture(24, 1024, 4096, 16),
}
"""Defaults of each --arch. The decoder's sizes are the encoder's."""


# ---- Rules between options. ----


def _refuse(name: str, reason: str) -> Rule:
    """Create the rule that an option must be left out."""
    return Rule(lambda o: getattr(o, name, None), f"{flag(name)} {{{name}}}: {reason}")


def _require_equal(decoder_option: str, encoder_option: str) -> Rule:
    """Create the rule that an option of the decoder has the value of the encoder's option."""

    def differs(options: Any) -> bool:
        """Return True if the values differ; None passes."""
        setting = getattr(options, decoder_option, None)
        return setting is not None and setting != getattr(options, encoder_option)

    return Rule(
        differs,
        f"{flag(decoder_option)} {{{decoder_option}}}: the decoder's layers and positions are the "
        f"encoder's in pre-training; valid here: {{{encoder_option}}}, as {flag(encoder_option)}",
    )


RULES = tuple(
    _refuse(f"{side}_layers_to_keep", f"this model has --keep-{side}-layers instead")
    for side in SIDES
)

_SIZES = ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")
_EQUAL = ("normalize_before", "learned_pos", *_SIZES)
_ONE_STACK = (
    "encoder and decoder are the same layers in pre-training, and all of them run; leave it out"
)
_WHOLE_STACK = "pre-training has the whole stack; choose layers when translating"
PRETRAINING_RULES = (
    *(_refuse(f"{side}_layerdrop", _ONE_STACK) for side in SIDES),
    _refuse("no_cross_attention", _ONE_STACK),
    _refuse("cross_self_attention", _ONE_STACK),
    _refuse("adaptive_input", _ONE_STACK),
    _refuse("adaptive_softmax_cutoff", _ONE_STACK),
    _refuse("character_embeddings", _ONE_STACK),
    *(_require_equal(f"decoder_{name}", f"encoder_{name}") for name in _EQUAL),
    _require_equal("decoder_input_dim", "encoder_embed_dim"),
    _require_equal("decoder_output_dim", "encoder_embed_dim"),
    _require_equal("max_target_positions", "max_source_positions"),
    *(_refuse(f"keep_{side}_layers", _WHOLE_STACK) for side in SIDES),
    Rule(
        lambda o: not o.no_scale_embedding,
        "--no-scale-embedding false: pre-training does not scale embeddings; leave it out",
    ),
    Rule(
        lambda o: not o.share_all_embeddings,
        "--share-all-embeddings false: pre-training has one embedding; leave it out",
    ),
)

_WIRING = {
    **{name: value for name, value in XLMR_WIRING.items() if not name.endswith("learned_pos")},
    "no_token_positional_embeddings": False,
}
"""Wiring of models that start from a masked LM or are pre-trained: that of XLM-R.

The weights of a masked LM work with no other, and a pre-trained VECO can be read as an XLM-R.
"""


# ---- Choice of layers. ----


class LayerChoice(NamedTuple):
    """Numbers (from 0) of the layers that encoder and decoder take from a pretrained stack."""

    stack: int  # layers of the stack
    encoder: Tuple[int, ...]
    decoder: Optional[Tuple[int, ...]]  # None = the stack's last, as many as the decoder has


def resolve(args: Any, pretrains: bool) -> LayerChoice:
    """Set defaults, check the options, and choose the layers of encoder and decoder.

    Args:
        args: options with the sizes of the architecture; changed.
        pretrains: True = the task pre-trains.

    Raises:
        ValueError: an option that breaks a rule.
    """
    check_choices(args, {"embedding_mismatch": EMBEDDING_POLICIES})
    check_rules(args, RULES)
    _fill_defaults(args, pretrains)
    if not pretrains:
        return _choose_layers(args)
    check_rules(args, PRETRAINING_RULES)
    check_wiring(args, _WIRING, "pre-training")
    args.decoder_layers = args.encoder_layers
    stack = tuple(range(args.encoder_layers))
    return LayerChoice(args.encoder_layers, stack, stack)


def _fill_defaults(args: Any, pretrains: bool) -> None:
    """Set the options whose default depends on others or on the task."""
    if getattr(args, "attention_dropout", None) is None:
        # As XLM-R; or as the authors' architecture (but their script passes 0.1).
        args.attention_dropout = 0.1 if pretrains else 0.0
    if getattr(args, "no_scale_embedding", None) is None:
        args.no_scale_embedding = pretrains or bool(args.init_from_mlm)
    for name in _SIZES[1:]:
        if getattr(args, f"decoder_{name}", None) is None:
            setattr(args, f"decoder_{name}", getattr(args, f"encoder_{name}"))


def _choose_layers(args: Any) -> LayerChoice:
    """Choose the layers of a translation model; set ``decoder_layers`` unless it is set."""
    if args.init_from_mlm:
        check_wiring(args, _WIRING, f"--init-from-mlm {args.init_from_mlm}")
    stack = args.encoder_layers
    encoder, decoder = tuple(range(stack)), None
    if args.keep_encoder_layers:
        encoder = tuple(parse_layers(args.keep_encoder_layers, stack, "--keep-encoder-layers"))
    if args.keep_decoder_layers:
        decoder = tuple(parse_layers(args.keep_decoder_layers, stack, "--keep-decoder-layers"))
    count = len(decoder) if decoder else min(DECODER_LAYERS, stack)
    if getattr(args, "decoder_layers", None) is None:
        args.decoder_layers = count
    elif decoder and args.decoder_layers != count:
        raise ValueError(
            f"--decoder-layers {args.decoder_layers}: --keep-decoder-layers "
            f"{args.keep_decoder_layers} are {count} layers; leave --decoder-layers out"
        )
    return LayerChoice(stack, encoder, decoder)


def parse_layers(text: str, stack: int, option: str) -> List[int]:
    """Read a choice among the layers of a pretrained stack, counted from 0.

    Args:
        text: a list such as ``18,19,20``; ``last:6``; or ``every:4``, which is each 4th layer,
            ending with the stack's last.
        stack: layers of the stack.
        option: name of the option, for messages.

    Raises:
        ValueError: a text of another form, or a layer out of range, repeated or out of order.

    Source: VECO section 5.2 and table 4, the last n layers against every k-th.
    """
    rule = re.fullmatch(r"(last|every):(\d+)", text)
    if rule:
        number = int(rule[2])
        if not 1 <= number <= stack:
            raise ValueError(
                f"{option} {text}: valid: a number from 1 to the {stack} layers of --encoder-layers"
            )
        if rule[1] == "last":
            return list(range(stack - number, stack))
        return list(range((stack - 1) % number, stack, number))
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise ValueError(f"{option} {text!r}: valid: a list such as 0,1,2, or last:N, or every:K")
    layers = [int(number) for number in text.split(",")]
    if max(layers) >= stack:
        first = next(layer for layer in layers if layer >= stack)
        raise ValueError(
            f"{option} {text}: layer {first} is out of range; valid: 0 to {stack - 1}, as "
            f"--encoder-layers is {stack}"
        )
    if layers != sorted(set(layers)):
        raise ValueError(f"{option} {text}: valid: each layer once, in increasing order")
    return layers
