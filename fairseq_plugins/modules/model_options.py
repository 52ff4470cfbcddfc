"""A model's options, as an argparse namespace or as a hydra configuration."""

from contextlib import nullcontext
from typing import Any, Mapping

from omegaconf import OmegaConf, open_dict


def writable(args: Any) -> Any:
    """A context in which new names may be set."""
    return open_dict(args) if OmegaConf.is_config(args) else nullcontext()


def set_architecture(args: Any, defaults: Mapping[str, Any]) -> None:
    """Fill what was left open; what the command line or the YAML says wins. Changes ``args``."""
    for name, value in defaults.items():
        if getattr(args, name, None) is None:
            setattr(args, name, value)
