"""DeltaLM (Ma et al. 2021): a stock transformer of XLM-R's shape whose decoder interleaves attention and feed-forward networks."""

from argparse import Namespace
from dataclasses import fields
from typing import Any, Dict

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.distributed import fsdp_wrap
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase, TransformerModel
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from omegaconf import OmegaConf
from torch import nn

from ...checkpoints.starting import left_closed
from ...modules.filled_model import FilledModel
from ...modules.interleaved_layer import InterleavedDecoderLayer
from ...modules.model_options import set_architecture, writable
from . import deltalm_pretrained
from .config import ARCHITECTURES, DECODER_BLOCKS, EMBEDDING_POLICIES, DeltaLMOptions

OPTIONS = [one.name for one in fields(DeltaLMOptions) if one.name != "_name"]
CHOICES = {
    "embedding_mismatch": [str(one) for one in EMBEDDING_POLICIES],
    "decoder_block": [str(one) for one in DECODER_BLOCKS],
}
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
        """Options of the stock transformer and :class:`DeltaLMOptions`."""
        TransformerModel.add_args(parser)
        gen_parser_from_dataclass(parser, DeltaLMOptions())

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "DeltaLMModel":
        """Build, then fill from the pretrained file that ``args`` names.

        ``args`` is what checkpoints of the run keep: the path moves to ``initialised_from``, so that decoding opens no other file.

        Raises:
            ValueError: sizes, positions or dictionary that do not fit the file; naming option, value and what is valid.
        """
        with writable(args):
            set_architecture(args, {name: getattr(DeltaLMOptions, name) for name in OPTIONS})
        for name, valid in CHOICES.items():
            if str(getattr(args, name)) not in valid:
                option = f"--{name.replace('_', '-')}"
                raise ValueError(f"{option} must be one of {', '.join(valid)}; got {getattr(args, name)}")
        chosen = [name for name in SOURCES if getattr(args, name)]
        if len(chosen) > 1:
            raise ValueError("--pretrained-deltalm-checkpoint and --init-from-mlm exclude each other: give one")
        # A namespace in any case: the stock model loses what it does not know of a hydra configuration.
        plain = Namespace(**dict(OmegaConf.to_container(args))) if OmegaConf.is_config(args) else args  # type: ignore[arg-type]
        model: DeltaLMModel = super().build_model(plain, task)
        for name in chosen:
            path = getattr(args, name)
            model.absent_source = left_closed(f"--{name.replace('_', '-')}", path, plain, task)
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


def _register(name: str, defaults: Dict[str, Any]) -> None:
    @register_model_architecture("deltalm", name)
    def architecture(args: Any) -> None:
        set_architecture(args, defaults)


for _name, _defaults in ARCHITECTURES.items():
    _register(_name, _defaults)
