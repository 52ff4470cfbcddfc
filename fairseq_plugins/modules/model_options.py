"""A model's options, as an argparse namespace or as a hydra configuration."""

from contextlib import nullcontext
from typing import Any, Mapping

from fairseq.tasks import FairseqTask
from omegaconf import OmegaConf, open_dict


def writable(args: Any) -> Any:
    """A context in which new names may be set."""
    return open_dict(args) if OmegaConf.is_config(args) else nullcontext()


def check_slots_task(task: Any, arch: str) -> None:
    """Models that fill slots are trained and decoded with the tasks for them.

    Args:
        task: that the model is built for.
        arch: name of the architecture, for the message.

    Raises:
        ValueError: another task, whose generator writes from left to right.
    """
    if isinstance(task, FairseqTask) and not getattr(task, "fills_slots", False):
        raise ValueError(
            f"--arch {arch} needs --task sga_translation or sga_translation_multi, in training as in decoding; got "
            f"{type(task).__name__}"
        )


def set_architecture(args: Any, defaults: Mapping[str, Any]) -> None:
    """Fill what was left open; what the command line or the YAML says wins. Changes ``args``."""
    for name, value in defaults.items():
        if getattr(args, name, None) is None:
            setattr(args, name, value)
