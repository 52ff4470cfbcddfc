"""DeltaLM's model: a stock transformer of XLM-R's shape with the interleaved decoder layer."""

from functools import partial
from typing import Any

from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase
from torch import nn

from ..checkpoints.starting import explain_unread
from ..common.filled_model import FilledTransformer
from ..common.options import (
    as_namespace,
    check_choices,
    check_rules,
    defaults_of,
    flag,
    register_architectures,
    set_architecture,
    writable,
)
from ..common.stock_layout import wrapped
from .config import ARCHITECTURES, MODEL_CHOICES, MODEL_RULES, DeltaLMOptions
from .layer import InterleavedDecoderLayer
from .pretrained import fill_from_deltalm, fill_from_masked_lm, is_vanilla

FILLS = {
    "pretrained_deltalm_checkpoint": fill_from_deltalm,
    "init_from_mlm": fill_from_masked_lm,
}
"""Option that gives a file -> function that fills a model from it."""


class InterleavedDecoder(TransformerDecoderBase):
    """The stock decoder with :class:`InterleavedDecoderLayer`."""

    def build_decoder_layer(self, cfg: Any, no_encoder_attn: bool = False) -> nn.Module:
        """Build a layer, wrapped as the stock decoder wraps its own."""
        return wrapped(InterleavedDecoderLayer(cfg, no_encoder_attn), cfg)


@register_model("deltalm")
class DeltaLMModel(FilledTransformer):
    """Encoder of XLM-R's shape and interleaved decoder; every parameter trains.

    All options of the stock transformer apply.

    Source: DeltaLM section 2.2.
    """

    own_options = DeltaLMOptions

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "DeltaLMModel":
        """Build the model, then fill it from the pretrained file that ``args`` name, if any.

        Once the run has a checkpoint, the file is not needed: see :meth:`start_from`.

        Raises:
            ValueError: a broken rule of ``config.py``, or a file that does not fit.
        """
        with writable(args):
            set_architecture(args, defaults_of(DeltaLMOptions))
        check_choices(args, MODEL_CHOICES)
        check_rules(args, MODEL_RULES)
        options = as_namespace(args)
        model: DeltaLMModel = super().build_model(options, task)
        for name, fill in FILLS.items():
            path = getattr(options, name)
            if path:
                absent = explain_unread(flag(name), path, options, task)
                model.start_from(args, name, absent, partial(fill, model, options, path))
        return model

    @classmethod
    def build_decoder(cls, args: Any, tgt_dict: Any, embed_tokens: nn.Module) -> nn.Module:
        """Build the interleaved decoder, or the stock one with ``--decoder-block vanilla``."""
        cfg = TransformerConfig.from_namespace(args)
        decoder_class = TransformerDecoderBase if is_vanilla(args) else InterleavedDecoder
        return decoder_class(cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention)


register_architectures("deltalm", ARCHITECTURES)
