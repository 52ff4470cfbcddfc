"""A sub-model that is never trained and, by default, never written into checkpoints."""

import logging
from typing import Any, Dict, List

import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)

MARKER = "fingerprint."
"""Key prefix of the empty tensor whose *name* carries the fingerprint of the frozen weights."""


class Frozen(nn.Module):
    """Wrap a pretrained module: no gradients, no dropout by default, no weights in checkpoints.

    The state dict holds an empty tensor named after the fingerprint of the weights instead of the
    weights themselves: an empty tensor survives averaging, exponential moving averages and half
    precision unchanged, where a tensor with values would not. Loading a state dict that was made
    with other frozen weights raises ValueError.

    Args:
        module: the pretrained module, with its weights.
        fingerprint: hex digest of the weights; empty = the weights and their fingerprint come with
            the state dict that is loaded.
        source: where the weights came from, for messages.
        save_weights: write the weights into the state dict as well.
        train_dropout: let the module's dropout act during training.
        option: option that names the pretrained model, for messages.
    """

    def __init__(
        self,
        module: nn.Module,
        fingerprint: str,
        source: str,
        save_weights: bool = False,
        train_dropout: bool = False,
        option: str = "--pretrained-mlm",
    ):
        super().__init__()
        self.module = module.requires_grad_(False)
        self.fingerprint, self.source, self.option = fingerprint, source, option
        self.save_weights, self.train_dropout = save_weights, train_dropout
        self.register_state_dict_post_hook(_drop_weights)
        self.register_load_state_dict_pre_hook(_accept_without_weights)
        self.module.train(False)

    def train(self, mode: bool = True) -> "Frozen":
        """Set the mode; the frozen module enters training mode only with ``train_dropout``."""
        self.training = mode
        self.module.train(mode and self.train_dropout)
        return self

    def __deepcopy__(self, memo: Dict[int, Any]) -> "Frozen":
        """Return itself: copies of a model (moving averages) share the frozen weights."""
        return self

    def requires_grad_(self, requires_grad: bool = True) -> "Frozen":
        """Leave the weights frozen."""
        return self


def log_sizes(model: nn.Module) -> None:
    """Log how many parameters of a model are trained and how many are not."""
    total = sum(parameter.numel() for parameter in model.parameters())
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    logger.info("%d trainable parameters, %d frozen", trained, total - trained)


def _drop_weights(module: nn.Module, state: Dict[str, Tensor], prefix: str, _: Any) -> None:
    """Remove the frozen weights from a state dict and add the marker.

    torch calls this hook with the state dict, in which all keys of ``module`` have the prefix.
    """
    assert isinstance(module, Frozen)
    if not module.save_weights:
        for key in [key for key in state if key.startswith(prefix + "module.")]:
            del state[key]
    state[prefix + MARKER + module.fingerprint] = torch.empty(0)


def _accept_without_weights(
    module: nn.Module,
    state: Dict[str, Tensor],
    prefix: str,
    _: Any,
    strict: bool,
    missing: List[str],
    *__: Any,
) -> None:
    """Compare the fingerprint of a state dict, and complete the dict for strict loading.

    torch calls this hook before it loads ``state``. The marker is removed, because no parameter has
    its name. Weights that the state dict lacks are added from the module, so that they stay as they
    are.

    Raises:
        ValueError: the state dict was made with other frozen weights, or has weights of other
            shapes.
    """
    assert isinstance(module, Frozen)
    markers = [key for key in state if key.startswith(prefix + MARKER)]
    for marker in markers:
        fingerprint = marker[len(prefix + MARKER) :]
        module.fingerprint = module.fingerprint or fingerprint
        if fingerprint != module.fingerprint:
            name = module.option[2:].replace("-", "_")
            raise ValueError(
                "this checkpoint was trained on another frozen model: its fingerprint is "
                f"{fingerprint}, that of {module.source} is {module.fingerprint}; give the model "
                f"it was trained on with {module.option} (when decoding: --model-overrides "
                f"\"{{'{name}': 'PATH'}}\"), and the same dictionary"
            )
        del state[marker]
    if strict and not markers:
        missing.append(prefix + MARKER + module.fingerprint)
    weights = {f"{prefix}module.{key}": value for key, value in module.module.state_dict().items()}
    if not any(key in state for key in weights):
        state.update(weights)
    for key, weight in weights.items():
        if key in state and state[key].shape != weight.shape:
            raise ValueError(
                f"this checkpoint's frozen model has {key[len(prefix + 'module.') :]} of shape "
                f"{tuple(state[key].shape)}, expected {tuple(weight.shape)} by its recorded sizes "
                "and the dictionary: give the data-bin, or the dict.txt, of its training"
            )
