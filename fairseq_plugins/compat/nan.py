"""Gradients that are NaN or infinite end a training with an error that says so, whatever the model."""

import os
from typing import Any, Iterator

import torch
from torch import Tensor, nn

from .patch import Patch

STOCK_MESSAGE = "gradients are Nan/Inf"

NAN_GRADIENTS = Patch(
    name="nan_gradients",
    reason="a training whose gradients become NaN ends in StopIteration: the search for the module fails on stock encoders",
)


@NAN_GRADIENTS.probe
def _detector_stops() -> bool:
    from fairseq.nan_detector import NanDetector

    model: Any = nn.Module()
    model.forward = lambda values: {"encoder_out": [values]}  # as stock encoders return it
    with NanDetector(model):
        try:
            model(torch.ones(2, requires_grad=True))
        except StopIteration:
            return True
    return False


def tensors_in(output: Any) -> Iterator[Tensor]:
    """The tensors of what a module returned, however nested."""
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, (dict, list, tuple)):
        for part in output.values() if isinstance(output, dict) else output:
            yield from tensors_in(part)


@NAN_GRADIENTS.replace("fairseq.nan_detector:NanDetector.add_hooks")
def add_hooks(stock: Any, detector: Any, module: nn.Module) -> None:
    """Watch the gradient of every tensor that a module returns."""

    def watch(module: nn.Module, inputs: Any, output: Any) -> None:
        for tensor in tensors_in(output):
            if tensor.requires_grad:
                tensor.register_hook(lambda gradient: detector.bhook_fn(module, None, gradient))

    if detector.forward:
        detector.fhooks.append(module.register_forward_hook(detector.fhook_fn))
    if detector.backward:
        detector.bhooks.append(module.register_forward_hook(watch))


@NAN_GRADIENTS.replace("fairseq.trainer:Trainer.train_step")
def train_step(stock: Any, trainer: Any, *args: Any, **kwargs: Any) -> Any:
    """Say what happened, where to look and what to try."""
    try:
        return stock(trainer, *args, **kwargs)
    except FloatingPointError as error:
        if str(error) != STOCK_MESSAGE:
            raise
        state = os.path.join(trainer.cfg.checkpoint.save_dir, "crash.pt")
        raise FloatingPointError(
            f"update {trainer.get_num_updates() + 1}: gradients are NaN or infinite; the log names the first module with such "
            f"values, {state} holds the state before the update. Try a lower --lr, a longer warm-up or --clip-norm"
        ) from None
