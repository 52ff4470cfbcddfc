"""Stock tasks and models: denoising with permuted sentences, models filled from a checkpoint, 0.12.2's encoder."""

from typing import Any, Dict

from torch.nn import Module

from .patch import Patch, source_has

PERMUTE_SENTENCES = Patch(
    name="permute_sentences",
    reason="--permute-sentences of denoising, a share in [0, 1], is typed int: 0.5 is refused",
    upstream="facebookresearch/fairseq#4828",
)
DECODING_BUILDS = Patch(
    name="decoding_builds",
    reason="a model is not told that it will be filled from a checkpoint, and opens the pretrained file of its training again",
)
ENCODER_FAST_PATH = Patch(
    name="encoder_fast_path",
    reason='in 0.12.2 a trained transformer cannot decode: "Mask Type should be defined" (torch >= 1.13); encoders and their '
    "checkpoints hold each matrix twice",
    upstream="facebookresearch/fairseq#4858, #4899",
)
UNSET_NUMBERS = Patch(
    name="unset_numbers",
    reason="in 0.12.2 a checkpoint with sinusoidal positions holds numbers that nobody set: --half may refuse them as too large",
)
COPIES = [f"{stem}_{end}" for stem in ("in_proj", "out_proj", "fc1", "fc2") for end in ("weight", "bias")]


@PERMUTE_SENTENCES.probe
def _is_int() -> bool:
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    config = TASK_DATACLASS_REGISTRY.get("denoising")  # absent in 0.12.2, where the option is a float
    return config is not None and config.__dataclass_fields__["permute_sentences"].type is int


@PERMUTE_SENTENCES.step
def retype() -> None:
    """Change the annotation, which omegaconf reads, and the field, which fairseq's argument parser reads."""
    from fairseq.tasks import TASK_DATACLASS_REGISTRY
    from hydra.core.config_store import ConfigStore

    config = TASK_DATACLASS_REGISTRY["denoising"]
    config.__dataclass_fields__["permute_sentences"].type = float  # subclasses share it
    config.__annotations__["permute_sentences"] = float
    for name, registered in TASK_DATACLASS_REGISTRY.items():
        if issubclass(registered, config):
            node = registered()
            node._name = name
            ConfigStore.instance().store(name=name, group="task", node=node, provider="fairseq")


@DECODING_BUILDS.replace("fairseq.models:build_model")
def build_model(stock: Any, cfg: Any, task: Any, from_checkpoint: bool = False) -> Any:
    """Tell the task, which the model sees."""
    task.from_checkpoint = from_checkpoint
    return stock(cfg, task, from_checkpoint)


@ENCODER_FAST_PATH.probe
def _takes_fast_path() -> bool:
    from fairseq.modules import transformer_layer

    forward = transformer_layer.TransformerEncoderLayerBase.forward
    return source_has(forward, "torch._transformer_encoder_layer_fwd(")


@ENCODER_FAST_PATH.replace("fairseq.modules.transformer_layer:TransformerEncoderLayerBase.__init__")
def make_layer(stock: Any, layer: Any, *args: Any, **kwargs: Any) -> None:
    """The encoder reads the attribute too. No other version has the copies that this path needs."""
    stock(layer, *args, **kwargs)
    layer.can_use_fastpath = False
    for name in COPIES:
        delattr(layer, name)


@ENCODER_FAST_PATH.replace("fairseq.modules.transformer_layer:TransformerEncoderLayerBase._load_from_state_dict")
def load_layer(stock: Any, layer: Any, state: Dict[str, Any], prefix: str, *args: Any) -> None:
    """Stock fills the copies. A file that holds them is read without them."""
    for name in COPIES:
        state.pop(prefix + name, None)
    Module._load_from_state_dict(layer, state, prefix, *args)


@UNSET_NUMBERS.probe
def _stores_unset_numbers() -> bool:
    from fairseq.modules import SinusoidalPositionalEmbedding

    return source_has(SinusoidalPositionalEmbedding.__init__, 'register_buffer("_float_tensor"')


@UNSET_NUMBERS.replace("fairseq.modules.sinusoidal_positional_embedding:SinusoidalPositionalEmbedding.__init__")
def make_positions(stock: Any, positions: Any, *args: Any, **kwargs: Any) -> None:
    """The buffer only tells the device."""
    stock(positions, *args, **kwargs)
    positions._non_persistent_buffers_set.add("_float_tensor")


@UNSET_NUMBERS.replace(
    "fairseq.modules.sinusoidal_positional_embedding:SinusoidalPositionalEmbedding._load_from_state_dict"
)
def load_positions(stock: Any, positions: Any, state: Dict[str, Any], prefix: str, *args: Any) -> None:
    """Encoders and decoders put one into every state that is loaded."""
    state.pop(prefix + "_float_tensor", None)
    stock(positions, state, prefix, *args)
