"""DeltaLM (Ma et al. 2021): a stock transformer of XLM-R's shape whose decoder interleaves attention and feed-forward networks."""

from functools import partial
from typing import Any

from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase
from torch import nn

from ...checkpoints.starting import left_closed
from ...common.filled_model import FilledTransformer
from ...common.options import (
    EMBEDDING_POLICIES,
    as_namespace,
    check_choices,
    defaults_of,
    flag,
    register_architectures,
    set_architecture,
    writable,
)
from ...modules.interleaved_layer import InterleavedDecoderLayer
from ...modules.stock_layout import wrapped
from . import deltalm_pretrained
from .config import ARCHITECTURES, DECODER_BLOCKS, DeltaLMOptions

CHOICES = {"embedding_mismatch": EMBEDDING_POLICIES, "decoder_block": DECODER_BLOCKS}
SOURCES = ("pretrained_deltalm_checkpoint", "init_from_mlm")


class InterleavedDecoder(TransformerDecoderBase):
    """The stock decoder with :class:`InterleavedDecoderLayer`."""

    def build_decoder_layer(self, cfg: Any, no_encoder_attn: bool = False) -> nn.Module:
        return wrapped(InterleavedDecoderLayer(cfg, no_encoder_attn), cfg)


@register_model("deltalm")
class DeltaLMModel(FilledTransformer):
    """Encoder of XLM-R's shape and interleaved decoder; every option of the stock transformer holds."""

    own_options = DeltaLMOptions

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "DeltaLMModel":
        """Build, then fill from the pretrained file that ``args`` names; see ``start_from``."""
        with writable(args):
            set_architecture(args, defaults_of(DeltaLMOptions))
        check_choices(args, CHOICES)
        chosen = [name for name in SOURCES if getattr(args, name)]
        if len(chosen) > 1:
            raise ValueError("--pretrained-deltalm-checkpoint and --init-from-mlm exclude each other: give one")
        plain = as_namespace(args)
        model: DeltaLMModel = super().build_model(plain, task)
        for name in chosen:
            absent = left_closed(flag(name), getattr(args, name), plain, task)
            model.start_from(args, name, absent, partial(deltalm_pretrained.fill, model, plain, name))
        return model

    @classmethod
    def build_decoder(cls, args: Any, tgt_dict: Any, embed_tokens: nn.Module) -> nn.Module:
        """The interleaved decoder, or the stock one with ``--decoder-block vanilla``."""
        cfg = TransformerConfig.from_namespace(args)
        kind = TransformerDecoderBase if str(args.decoder_block) == "vanilla" else InterleavedDecoder
        return kind(cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention)


register_architectures("deltalm", ARCHITECTURES)
