"""Gradients that are NaN or infinite end a training with an error that says so, whatever the model."""

import os
from typing import Any, Dict, Iterator, List

import torch
from torch import Tensor, nn

from .patch import Patch, instead_of, is_patched

NAME = "nan_gradients"
STOCK_MESSAGE = "gradients are Nan/Inf"


class _ListsInDict(nn.Module):
    """Returns what stock encoders return: a dict of lists."""

    def forward(self, values: Tensor) -> Dict[str, List[Tensor]]:
        return {"encoder_out": [values]}


def _detector_stops() -> bool:
    from fairseq.nan_detector import NanDetector

    if is_patched(NanDetector.add_hooks, NAME):
        return False
    model = _ListsInDict()
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


def _watch_tensors() -> None:
    from fairseq.nan_detector import NanDetector
    from fairseq.trainer import Trainer

    train_step = Trainer.train_step

    @instead_of(NanDetector.add_hooks, NAME)
    def add_hooks(self: Any, module: nn.Module) -> None:
        def watch(module: nn.Module, inputs: Any, output: Any) -> None:
            for tensor in tensors_in(output):
                if tensor.requires_grad:
                    tensor.register_hook(lambda gradient: self.bhook_fn(module, None, gradient))

        if self.forward:
            self.fhooks.append(module.register_forward_hook(self.fhook_fn))
        if self.backward:
            self.bhooks.append(module.register_forward_hook(watch))

    @instead_of(train_step, NAME)
    def reporting_train_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return train_step(self, *args, **kwargs)
        except FloatingPointError as error:
            if str(error) != STOCK_MESSAGE:
                raise
            state = os.path.join(self.cfg.checkpoint.save_dir, "crash.pt")
            raise FloatingPointError(
                f"update {self.get_num_updates() + 1}: gradients are NaN or infinite; the log names the first module with such "
                f"values, {state} holds the state before the update. Try a lower --lr, a longer warm-up or --clip-norm"
            ) from None

    NanDetector.add_hooks = add_hooks
    Trainer.train_step = reporting_train_step


NAN_GRADIENTS = Patch(
    name=NAME,
    reason="a training whose gradients become NaN ends in StopIteration: the search for the module fails on stock encoders",
    upstream="no report found",
    needed=_detector_stops,
    apply=_watch_tensors,
)
