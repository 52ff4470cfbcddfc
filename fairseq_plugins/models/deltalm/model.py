"""DeltaLM (Ma et al. 2021): a stock transformer of XLM-R's shape whose decoder interleaves attention and feed-forward networks."""

from typing import Any

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.distributed import fsdp_wrap
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase, TransformerModel
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from torch import nn

from ...checkpoints.fitting import left_closed
from ...modules.filled_model import FilledModel
from ...modules.interleaved_layer import InterleavedDecoderLayer
from ...modules.model_options import as_namespace, register_architectures, set_architecture, writable
from ...modules.option_checks import EMBEDDING_POLICIES, check_choices, defaults_of, flag
from . import deltalm_pretrained
from .config import ARCHITECTURES, DECODER_BLOCKS, DeltaLMOptions

CHOICES = {"embedding_mismatch": EMBEDDING_POLICIES, "decoder_block": DECODER_BLOCKS}
SOURCES = ("pretrained_deltalm_checkpoint", "init_from_mlm")


class InterleavedDecoder(TransformerDecoderBase):
    """The stock decoder with :class:`InterleavedDecoderLayer`."""

    def build_decoder_layer(self, cfg: Any, no_encoder_attn: bool = False) -> nn.Module:
        """One block, wrapped for ``--checkpoint-activations`` and FSDP as the stock one."""
        layer: nn.Module = InterleavedDecoderLayer(cfg, no_encoder_attn)
        if cfg.checkpoint_activations:
            layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
        return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)


@register_model("deltalm")
class DeltaLMModel(FilledModel, TransformerModel):
    """Encoder of XLM-R's shape and interleaved decoder; every option of the stock transformer holds."""

    @classmethod
    def add_args(cls, parser: Any) -> None:
        TransformerModel.add_args(parser)
        gen_parser_from_dataclass(parser, DeltaLMOptions())

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "DeltaLMModel":
        """Build, then fill from the pretrained file that ``args`` names.

        ``args`` is what checkpoints of the run keep: the path moves to ``initialised_from``, so that decoding opens no other file.
        """
        with writable(args):
            set_architecture(args, defaults_of(DeltaLMOptions))
        check_choices(args, CHOICES)
        chosen = [name for name in SOURCES if getattr(args, name)]
        if len(chosen) > 1:
            raise ValueError("--pretrained-deltalm-checkpoint and --init-from-mlm exclude each other: give one")
        plain = as_namespace(args)
        model: DeltaLMModel = super().build_model(plain, task)
        for name in chosen:
            path = getattr(args, name)
            model.absent_source = left_closed(flag(name), path, plain, task)
            if model.absent_source is None:
                deltalm_pretrained.fill(model, plain, name)
            with writable(args):
                args.initialised_from = path
                setattr(args, name, None)
        return model

    @classmethod
    def build_decoder(cls, args: Any, tgt_dict: Any, embed_tokens: nn.Module) -> nn.Module:
        """The interleaved decoder, or the stock one with ``--decoder-block vanilla``."""
        cfg = TransformerConfig.from_namespace(args)
        kind = TransformerDecoderBase if str(args.decoder_block) == "vanilla" else InterleavedDecoder
        return kind(cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention)


register_architectures("deltalm", ARCHITECTURES)
