"""Options and architectures of VECO, beside those of the stock transformer."""

from dataclasses import dataclass
from typing import Any, Dict, Optional

from fairseq.dataclass import FairseqDataclass

from ...common.options import (
    EMBEDDING_POLICIES,
    XLMR_WIRING,
    check_choices,
    check_wiring,
    embedding_mismatch_option,
    flag,
    option,
    sizes_of,
)
from .layer_choice import LayerChoice, parse_layers

DECODER_LAYERS = 6
"""Decoder layers of a model that translates, where nothing says how many: those of the paper's main results."""


@dataclass
class VECOOptions(FairseqDataclass):
    """What VECO adds to the options of the stock transformer."""

    keep_encoder_layers: Optional[str] = option(
        None,
        "layers of the pretrained stack of --encoder-layers layers that the encoder has (default: all): a list from 0 such as "
        "0,1,2,3, or last:N, or every:K = each K-th, ending with the last",
    )
    keep_decoder_layers: Optional[str] = option(
        None, "the same of the decoder, for example 18,19,20,21,22,23, last:6 or every:4"
    )
    init_from_mlm: Optional[str] = option(
        None,
        "start from a masked LM (XLM-R, InfoXLM): a fairseq model.pt or a Hugging Face folder; everything but cross-attention, "
        "which stays random. A decoder takes the layers of --keep-decoder-layers, without it the last ones. Read when training "
        "starts; implies --no-scale-embedding",
    )
    embedding_mismatch: EMBEDDING_POLICIES = embedding_mismatch_option()


def _sizes(*sizes: int) -> Dict[str, Any]:
    # Whether the embedding is scaled follows from the task: see resolve().
    wiring = {name: value for name, value in XLMR_WIRING.items() if name != "no_scale_embedding"}
    positions = {"max_source_positions": 512, "max_target_positions": 512}
    return {**sizes_of("encoder", *sizes), **wiring, **positions, "share_all_embeddings": True, "dropout": 0.1}


ARCHITECTURES: Dict[str, Dict[str, Any]] = {
    "veco_tiny": _sizes(4, 256, 1024, 4),
    "veco_base": _sizes(12, 768, 3072, 12),
    "veco_large": _sizes(24, 1024, 4096, 16),
}
"""Defaults of each --arch; what the command line or the YAML says wins. The decoder's sizes are the encoder's."""


def resolve(args: Any, pretrains: bool) -> LayerChoice:
    """Check the options, fill those whose default depends on the task, and find the layers that encoder and decoder take.

    ``args`` has the architecture's sizes and is changed; ``pretrains``: for the task that pre-trains.
    """
    check_choices(args, {"embedding_mismatch": EMBEDDING_POLICIES})
    for side in ("encoder", "decoder"):
        stock = getattr(args, f"{side}_layers_to_keep", None)
        if stock:
            raise ValueError(
                f"--{side}-layers-to-keep {stock}: write --keep-{side}-layers, which this model has instead"
            )
    if getattr(args, "attention_dropout", None) is None:
        # XLM-R's; that of the authors' architecture (their script gives 0.1).
        args.attention_dropout = 0.1 if pretrains else 0.0
    if getattr(args, "no_scale_embedding", None) is None:
        args.no_scale_embedding = pretrains or bool(args.init_from_mlm)
    for name in ("embed_dim", "ffn_embed_dim", "attention_heads"):
        if getattr(args, f"decoder_{name}", None) is None:
            setattr(args, f"decoder_{name}", getattr(args, f"encoder_{name}"))
    return _resolve_pretraining(args) if pretrains else _resolve_translation(args)


def _resolve_translation(args: Any) -> LayerChoice:
    if args.init_from_mlm:
        check_wiring(args, _WIRING, f"--init-from-mlm {args.init_from_mlm}")
    stack = args.encoder_layers
    encoder, decoder = (
        tuple(parse_layers(getattr(args, name), stack, flag(name))) if getattr(args, name) else None
        for name in ("keep_encoder_layers", "keep_decoder_layers")
    )
    given = getattr(args, "decoder_layers", None)
    if given is None:
        args.decoder_layers = len(decoder) if decoder else min(DECODER_LAYERS, stack)
    elif decoder and given != len(decoder):
        raise ValueError(
            f"--decoder-layers {given}: --keep-decoder-layers {args.keep_decoder_layers} are {len(decoder)} layers; "
            "leave --decoder-layers out"
        )
    return LayerChoice(stack, encoder or tuple(range(stack)), decoder)


_WIRING = {
    **{name: value for name, value in XLMR_WIRING.items() if not name.endswith("learned_pos")},
    "no_token_positional_embeddings": False,
}
"""XLM-R's: the weights of a masked LM work with no other, and what is pre-trained is read again as an XLM-R."""


_ALIKE = ("normalize_before", "learned_pos", "layers", "embed_dim", "ffn_embed_dim", "attention_heads")
_SAME = {**dict(zip(_ALIKE, _ALIKE)), "input_dim": "embed_dim", "output_dim": "embed_dim"}
"""Options of the decoder that are those of the encoder in pre-training."""
_OFF = (
    *("encoder_layerdrop", "decoder_layerdrop", "cross_self_attention", "no_cross_attention"),
    *("adaptive_input", "adaptive_softmax_cutoff", "character_embeddings"),
)
"""Options of the stock transformer with which encoder and decoder would not be the same layers, or CS-MLM not what it is."""


def _resolve_pretraining(args: Any) -> LayerChoice:
    for name in _OFF:
        value = getattr(args, name, None)
        if value:
            raise ValueError(
                f"{flag(name)} {value}: encoder and decoder are the same layers in pre-training, and all of them run; leave it out"
            )
    if getattr(args, "decoder_layers", None) is None:
        args.decoder_layers = args.encoder_layers
    pairs = [(f"decoder_{theirs}", f"encoder_{ours}") for theirs, ours in _SAME.items()]
    for theirs, ours in [*pairs, ("max_target_positions", "max_source_positions")]:
        found, wanted = getattr(args, theirs, None), getattr(args, ours)
        if found is not None and found != wanted:
            raise ValueError(
                f"{flag(theirs)} {found}: the decoder's layers and positions are the encoder's in pre-training; valid here: "
                f"{wanted}, as {flag(ours)}"
            )
    for name in ("keep_encoder_layers", "keep_decoder_layers"):
        if getattr(args, name):
            raise ValueError(f"{flag(name)}: pre-training has the whole stack; choose layers when translating")
    needed = {"no_scale_embedding": "does not scale embeddings", "share_all_embeddings": "has one embedding"}
    for name, because in needed.items():
        if not getattr(args, name):
            raise ValueError(f"{flag(name)} false: pre-training {because}; leave it out")
    check_wiring(args, _WIRING, "pre-training")
    whole = tuple(range(args.encoder_layers))
    return LayerChoice(args.encoder_layers, whole, whole)
