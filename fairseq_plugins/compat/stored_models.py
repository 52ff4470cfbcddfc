"""Build the task and the model that a checkpoint records, also where fairseq could not decode."""

from contextlib import nullcontext
from typing import Any, Dict, Tuple

from omegaconf import OmegaConf, open_dict
from torch.nn import Module

from .patch import Harm, Patch, source_has

DECODING_BUILDS = Patch(
    name="decoding_builds",
    harm=Harm.PAPER_BLOCKED,
    defect="a model is not told that a checkpoint will fill it, so a fine-tuned model opens its "
    "pretrained file again and cannot be decoded if that file is gone",
)
ENCODER_FAST_PATH = Patch(
    name="encoder_fast_path",
    harm=Harm.PAPER_BLOCKED,
    defect="in 0.12.2 no trained transformer can decode on today's torch: its encoder calls a "
    "fused layer of torch without a mask type (Mask Type should be defined)",
    upstream="facebookresearch/fairseq#4858, #4899",
)
RETIRED_OPTIONS = Patch(
    name="retired_options",
    harm=Harm.PAPER_BLOCKED,
    defect="in 0.12.2 a checkpoint that records a retired option cannot be decoded",
    upstream="fixed after 0.12.2: setup_task(from_checkpoint=True)",
)
RETIRED: Dict[str, Tuple[str, ...]] = {
    "denoise_start": (),
    "pack_weights": (),
    "glancing": ("sga_ctc", "sga_mask_predict"),
}
"""Retired option -> criterions that no longer accept it (empty: no class accepts it).

Version 0.1.0 had all of these options."""
LAYER = "fairseq.modules.transformer_layer:TransformerEncoderLayerBase"
MATRICES = ("in_proj", "out_proj", "fc1", "fc2")
COPIES = [f"{matrix}_{kind}" for matrix in MATRICES for kind in ("weight", "bias")]
"""Parameters of a layer of 0.12.2 that repeat its matrices, for the fast path alone."""


@DECODING_BUILDS.replace("fairseq.models:build_model")
def build_model(stock: Any, cfg: Any, task: Any, from_checkpoint: bool = False) -> Any:
    """Store ``from_checkpoint`` in the task: a model's ``build_model`` gets the task alone.

    fairseq hands a copy of the options to a model whose ``--arch`` is its own name. What the model
    took from a file (``recorded_options``) is written to the options that checkpoints store.
    """
    task.from_checkpoint = from_checkpoint
    model = stock(cfg, task, from_checkpoint)
    with open_dict(cfg) if OmegaConf.is_config(cfg) else nullcontext():
        for name, setting in getattr(model, "recorded_options", {}).items():
            setattr(cfg, name, setting)
    return model


@ENCODER_FAST_PATH.probe
def _takes_fast_path() -> bool:
    """Return True if the encoder layer calls torch's fused layer."""
    from fairseq.modules import transformer_layer

    forward = transformer_layer.TransformerEncoderLayerBase.forward
    return source_has(forward, "torch._transformer_encoder_layer_fwd(")


@ENCODER_FAST_PATH.replace(f"{LAYER}.__init__")
def make_layer(stock: Any, layer: Any, *args: Any, **kwargs: Any) -> None:
    """Make a layer without the fast path and without its copies of the matrices."""
    stock(layer, *args, **kwargs)
    layer.can_use_fastpath = False  # read by the layer and by the encoder
    for name in COPIES:
        delattr(layer, name)


@ENCODER_FAST_PATH.replace(f"{LAYER}._load_from_state_dict")
def load_layer(stock: Any, layer: Any, state: Dict[str, Any], prefix: str, *args: Any) -> None:
    """Load a layer, and ignore the copies in a file that stock 0.12.2 wrote."""
    for name in COPIES:
        state.pop(prefix + name, None)
    Module._load_from_state_dict(layer, state, prefix, *args)


def drop_retired(cfg: Any) -> Any:
    """Delete the retired options of a stored configuration. Changes and returns ``cfg``."""
    with open_dict(cfg) if OmegaConf.is_config(cfg) else nullcontext():
        for name, criterions in RETIRED.items():
            if name in cfg and (not criterions or getattr(cfg, "_name", None) in criterions):
                delattr(cfg, name)
    return cfg


@RETIRED_OPTIONS.probe
def _refuses_unknown_options() -> bool:
    """Return True if fairseq sets up a task from all stored options, known or not."""
    from fairseq import tasks

    return not source_has(tasks.setup_task, "remove_missing")


@RETIRED_OPTIONS.replace("fairseq.tasks:setup_task")
def setup_task(stock: Any, cfg: Any, **kwargs: Any) -> Any:
    """Set up a task without the retired options: 0.12.2 refuses an option that it does not know."""
    return stock(drop_retired(cfg), **kwargs)
