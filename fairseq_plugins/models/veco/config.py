"""Options and architectures of VECO, beside those of the stock transformer."""

from dataclasses import dataclass, field
from typing import Any, Dict, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from .layer_choice import LayerChoice, parse_layers

EMBEDDING_POLICIES: Any = ChoiceEnum(["error", "extend", "truncate"])
DECODER_LAYERS = 6
"""Decoder layers of a model that translates, where nothing says how many: those of the paper's main results."""


@dataclass
class VECOOptions(FairseqDataclass):
    """What VECO adds to the options of the stock transformer."""

    keep_encoder_layers: Optional[str] = field(
        default=None,
        metadata={
            "help": "layers of the pretrained stack of --encoder-layers layers that the encoder has (default: all): a list from 0 "
            "such as 0,1,2,3, or last:N, or every:K = each K-th, ending with the last"
        },
    )
    keep_decoder_layers: Optional[str] = field(
        default=None,
        metadata={"help": "the same of the decoder, for example 18,19,20,21,22,23, last:6 or every:4"},
    )
    init_from_mlm: Optional[str] = field(
        default=None,
        metadata={
            "help": "start from a masked LM (XLM-R, InfoXLM): a fairseq model.pt or a Hugging Face folder; everything but "
            "cross-attention, which stays random. A decoder takes the layers of --keep-decoder-layers, without it the last ones. "
            "Read when training starts; implies --no-scale-embedding"
        },
    )
    embedding_mismatch: EMBEDDING_POLICIES = field(
        default="error",
        metadata={
            "help": "where dictionary and pretrained file have different numbers of rows: error; extend = rows beyond the file's "
            "(language tags) get random values; truncate = the file's rows beyond the dictionary's are left out"
        },
    )


_SHAPE: Dict[str, Any] = {
    "encoder_normalize_before": False,
    "decoder_normalize_before": False,
    "encoder_learned_pos": True,
    "decoder_learned_pos": True,
    "activation_fn": "gelu",
    "layernorm_embedding": True,
    "share_all_embeddings": True,
    "max_source_positions": 512,
    "max_target_positions": 512,
    "dropout": 0.1,
}


def _sizes(layers: int, embed_dim: int, ffn_embed_dim: int, attention_heads: int) -> Dict[str, Any]:
    return {
        **_SHAPE,
        "encoder_layers": layers,
        "encoder_embed_dim": embed_dim,
        "encoder_ffn_embed_dim": ffn_embed_dim,
        "encoder_attention_heads": attention_heads,
    }


ARCHITECTURES: Dict[str, Dict[str, Any]] = {
    "veco_tiny": _sizes(4, 256, 1024, 4),
    "veco_base": _sizes(12, 768, 3072, 12),
    "veco_large": _sizes(24, 1024, 4096, 16),
}
"""Defaults of each --arch; what the command line or the YAML says wins. The decoder's sizes are the encoder's."""


def resolve(args: Any, pretrains: bool) -> LayerChoice:
    """Check the options, and fill those whose default depends on the task; changes ``args``.

    Args:
        args: options after the architecture has set its sizes.
        pretrains: True for the task that pre-trains.

    Returns:
        The layers that encoder and decoder take.

    Raises:
        ValueError: naming option, value and what is valid.
    """
    valid = [str(policy) for policy in EMBEDDING_POLICIES]
    if str(args.embedding_mismatch) not in valid:
        raise ValueError(f"--embedding-mismatch must be one of {', '.join(valid)}; got {args.embedding_mismatch}")
    for name in ("encoder_layers_to_keep", "decoder_layers_to_keep"):
        if getattr(args, name, None):
            option, ours = name.replace("_", "-"), name.replace("_layers_to_keep", "-layers")
            raise ValueError(f"--{option} {getattr(args, name)}: this model has --keep-{ours} instead; write that")
    if getattr(args, "attention_dropout", None) is None:
        args.attention_dropout = (
            0.1 if pretrains else 0.0
        )  # XLM-R's; that of the authors' architecture (their script gives 0.1)
    if getattr(args, "no_scale_embedding", None) is None:
        args.no_scale_embedding = pretrains or bool(args.init_from_mlm)
    for name in ("embed_dim", "ffn_embed_dim", "attention_heads"):
        if getattr(args, f"decoder_{name}", None) is None:
            setattr(args, f"decoder_{name}", getattr(args, f"encoder_{name}"))
    if pretrains:
        return _resolve_pretraining(args)
    if args.init_from_mlm:
        _check_wiring(args, f"--init-from-mlm {args.init_from_mlm}")
    stack = args.encoder_layers
    keep = {
        side: parse_layers(getattr(args, f"keep_{side}_layers"), stack, f"--keep-{side}-layers")
        for side in ("encoder", "decoder")
        if getattr(args, f"keep_{side}_layers")
    }
    given = getattr(args, "decoder_layers", None)
    if given is None:
        args.decoder_layers = len(keep["decoder"]) if "decoder" in keep else min(DECODER_LAYERS, stack)
    elif "decoder" in keep and given != len(keep["decoder"]):
        raise ValueError(
            f"--decoder-layers {given}: --keep-decoder-layers {args.keep_decoder_layers} are {len(keep['decoder'])} layers; "
            "leave --decoder-layers out"
        )
    decoder = tuple(keep["decoder"]) if "decoder" in keep else None
    return LayerChoice(stack, tuple(keep.get("encoder", range(stack))), decoder)


_WIRING = {
    "activation_fn": "gelu",
    "encoder_normalize_before": False,
    "decoder_normalize_before": False,
    "no_token_positional_embeddings": False,
    "layernorm_embedding": True,
    "no_scale_embedding": True,
}
"""XLM-R's: the weights of a masked LM work with no other, and what is pre-trained is read again as an XLM-R."""


def _check_wiring(args: Any, origin: str) -> None:
    """Raise ValueError where the command line asks for another wiring than XLM-R's."""
    for name, value in _WIRING.items():
        found = getattr(args, name, None)
        if found is not None and found != value:
            option = name.replace("_", "-")
            raise ValueError(
                f"{origin}: --{option} {found} is not how XLM-R and VECO are wired; valid: {value}, as without this option"
            )


_EQUAL = ("normalize_before", "learned_pos")
"""Options of encoder and decoder that are one in pre-training."""
_OFF = (
    "encoder_layerdrop",
    "decoder_layerdrop",
    "cross_self_attention",
    "no_cross_attention",
    "adaptive_input",
    "adaptive_softmax_cutoff",
    "character_embeddings",
)
"""Options of the stock transformer with which encoder and decoder would not be the same layers, or CS-MLM not what it is."""


def _resolve_pretraining(args: Any) -> LayerChoice:
    for name in _OFF:
        value = getattr(args, name, None)
        if value:
            raise ValueError(
                f"--{name.replace('_', '-')} {value}: encoder and decoder are the same layers in pre-training, and all of them "
                "run; leave it out"
            )
    for name in _EQUAL:
        ours, theirs = getattr(args, f"encoder_{name}", None), getattr(args, f"decoder_{name}", None)
        if bool(ours) != bool(theirs):
            option = name.replace("_", "-")
            raise ValueError(
                f"--decoder-{option} {theirs}: the decoder's layers are the encoder's in pre-training; valid here: {ours}, as "
                f"--encoder-{option}"
            )
    for name in ("decoder_input_dim", "decoder_output_dim"):
        value = getattr(args, name, None)
        if value is not None and value != args.encoder_embed_dim:
            raise ValueError(
                f"--{name.replace('_', '-')} {value}: the decoder's layers are the encoder's in pre-training; valid here: "
                f"{args.encoder_embed_dim}, as --encoder-embed-dim"
            )
    for side in ("encoder", "decoder"):
        if getattr(args, f"keep_{side}_layers"):
            raise ValueError(f"--keep-{side}-layers: pre-training has the whole stack; choose layers when translating")
    if not args.no_scale_embedding:
        raise ValueError("--no-scale-embedding false: pre-training does not scale embeddings; leave it out")
    _check_wiring(args, "pre-training")
    for name in ("layers", "embed_dim", "ffn_embed_dim", "attention_heads"):
        wanted = getattr(args, f"encoder_{name}")
        if getattr(args, f"decoder_{name}", None) is None:
            setattr(args, f"decoder_{name}", wanted)
        found = getattr(args, f"decoder_{name}")
        if found != wanted:
            option = name.replace("_", "-")
            raise ValueError(
                f"--decoder-{option} {found}: the decoder's layers are the encoder's in pre-training; valid here: {wanted}, "
                f"as --encoder-{option}"
            )
    if args.max_source_positions != args.max_target_positions:
        raise ValueError(
            f"--max-target-positions {args.max_target_positions}: encoder and decoder have the same positions in pre-training; "
            f"valid here: {args.max_source_positions}, as --max-source-positions"
        )
    if not args.share_all_embeddings:
        raise ValueError("--share-all-embeddings false: pre-training has one embedding; leave it out")
    whole = tuple(range(args.encoder_layers))
    return LayerChoice(args.encoder_layers, whole, whole)
