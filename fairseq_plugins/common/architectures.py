"""A model's options, as an argparse namespace or as a hydra configuration, and its architectures."""

from argparse import Namespace
from contextlib import nullcontext
from dataclasses import fields
from typing import Any, Dict, Mapping

from fairseq.models import ARCH_MODEL_REGISTRY, register_model_architecture
from omegaconf import OmegaConf, open_dict

XLMR_WIRING: Dict[str, Any] = {
    "encoder_normalize_before": False,
    "decoder_normalize_before": False,
    "encoder_learned_pos": True,
    "decoder_learned_pos": True,
    "activation_fn": "gelu",
    "no_scale_embedding": True,
    "layernorm_embedding": True,
}
"""Options with which a stock transformer is wired as XLM-R."""


def writable(args: Any) -> Any:
    """A context in which new names may be set."""
    return open_dict(args) if OmegaConf.is_config(args) else nullcontext()


def as_namespace(args: Any) -> Namespace:
    """Options for a stock model that loses what it does not know of a hydra configuration; a namespace is not copied."""
    options: Any = OmegaConf.to_container(args) if OmegaConf.is_config(args) else None
    return args if options is None else Namespace(**options)


def fill_missing(args: Any, config: type) -> None:
    """Give options that are newer than the checkpoint ``args`` comes from the defaults of their dataclass. Changes ``args``."""
    with writable(args):
        for field in fields(config):
            if not hasattr(args, field.name):
                setattr(args, field.name, field.default)


def set_architecture(args: Any, defaults: Mapping[str, Any]) -> None:
    """Fill what was left open; what the command line or the YAML says wins. Changes ``args``."""
    for name, value in defaults.items():
        if getattr(args, name, None) is None:
            setattr(args, name, value)


def register_architectures(model: str, architectures: Mapping[str, Mapping[str, Any]]) -> None:
    """Register each --arch of a model with its defaults; fairseq has done so for a model of the same name with a dataclass."""
    for name, defaults in architectures.items():
        if name not in ARCH_MODEL_REGISTRY:
            _register(model, name, defaults)


def _register(model: str, name: str, defaults: Mapping[str, Any]) -> None:
    @register_model_architecture(model, name)
    def architecture(args: Any) -> None:
        set_architecture(args, defaults)


def sizes_of(side: str, *sizes: Any) -> Dict[str, Any]:
    """Options of one side of a stock transformer: layers, width, feed-forward width, attention heads."""
    return dict(zip((f"{side}_{name}" for name in ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")), sizes))


def same_sides(*sizes: Any, **more: Any) -> Dict[str, Any]:
    """Defaults of a stock transformer whose encoder and decoder have the same sizes, and ``more`` defaults."""
    return {**sizes_of("encoder", *sizes), **sizes_of("decoder", *sizes), **more}
