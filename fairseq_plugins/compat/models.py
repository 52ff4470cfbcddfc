"""Build models for decoding: without their pretrained file, and in 0.12.2 without its fast path."""

from typing import Any, Dict

from torch.nn import Module

from .patch import Harm, Patch, source_has

DECODING_BUILDS = Patch(
    name="decoding_builds",
    harm=Harm.PAPER_BLOCKED,
    defect="a model is not told that a checkpoint will fill it, so a fine-tuned one opens the "
    "pretrained file of its training and cannot be decoded where that file is gone",
)
ENCODER_FAST_PATH = Patch(
    name="encoder_fast_path",
    harm=Harm.PAPER_BLOCKED,
    defect="no trained transformer of 0.12.2 can decode (Mask Type should be defined)",
    upstream="facebookresearch/fairseq#4858, #4899",
)
LAYER = "fairseq.modules.transformer_layer:TransformerEncoderLayerBase"
MATRICES = ("in_proj", "out_proj", "fc1", "fc2")
COPIES = [f"{matrix}_{kind}" for matrix in MATRICES for kind in ("weight", "bias")]
"""Second names of the matrices of an encoder layer, which only the fast path reads."""


@DECODING_BUILDS.replace("fairseq.models:build_model")
def build_model(stock: Any, cfg: Any, task: Any, from_checkpoint: bool = False) -> Any:
    """Write ``from_checkpoint`` into the task, which the model sees."""
    task.from_checkpoint = from_checkpoint
    return stock(cfg, task, from_checkpoint)


@ENCODER_FAST_PATH.probe
def _takes_fast_path() -> bool:
    from fairseq.modules import transformer_layer

    forward = transformer_layer.TransformerEncoderLayerBase.forward
    return source_has(forward, "torch._transformer_encoder_layer_fwd(")


@ENCODER_FAST_PATH.replace(f"{LAYER}.__init__")
def make_layer(stock: Any, layer: Any, *args: Any, **kwargs: Any) -> None:
    """Make a layer without the copies; the encoder reads ``can_use_fastpath`` too."""
    stock(layer, *args, **kwargs)
    layer.can_use_fastpath = False
    for name in COPIES:
        delattr(layer, name)


@ENCODER_FAST_PATH.replace(f"{LAYER}._load_from_state_dict")
def load_layer(stock: Any, layer: Any, state: Dict[str, Any], prefix: str, *args: Any) -> None:
    """Load a layer and leave out the copies of a file that holds them."""
    for name in COPIES:
        state.pop(prefix + name, None)
    Module._load_from_state_dict(layer, state, prefix, *args)
