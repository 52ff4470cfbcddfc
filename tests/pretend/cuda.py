"""Make commands take fairseq's ``cuda`` path: torch.cuda answers for the pretend device."""

import contextlib
import json
import os
from types import SimpleNamespace

import torch
from torch.overrides import TorchFunctionMode

from . import device
from .memory import Memory
from .waits import record, wait

WAITS = "PRETEND_WAITS"
"""Environment variable: file that gets a line of JSON for each batch copied to the device."""

ANSWERS = {
    "is_available": lambda: True,
    "is_bf16_supported": lambda *_: True,
    "device_count": lambda: 1,
    "current_device": lambda: 0,
    "set_device": lambda _: None,
    "get_device_capability": lambda *_: (8, 0),
    "get_device_name": lambda *_: device.NAME,
    "empty_cache": lambda: None,
    "memory_summary": lambda **_: "",
    "synchronize": lambda *_: wait("synchronize"),
    "manual_seed": lambda _: None,
    "manual_seed_all": lambda _: None,
    "get_rng_state": lambda *_: torch.get_rng_state(),
    "set_rng_state": lambda state, *_: torch.set_rng_state(state),
    "device": lambda _: contextlib.nullcontext(),
}


def memory_answers(memory):
    """Return what torch.cuda answers about memory."""
    properties = SimpleNamespace(name=device.NAME, major=8, minor=0, total_memory=memory.total)
    return {
        "get_device_properties": lambda *_: properties,
        "max_memory_allocated": lambda *_: memory.peak,
        "memory_allocated": lambda *_: memory.allocated,
        "reset_peak_memory_stats": lambda *_: memory.reset_peak(),
    }


def replace_cuda(value):
    """Return the pretend device instead of a CUDA device, and anything else unchanged."""
    if isinstance(value, torch.device) or (isinstance(value, str) and value.startswith("cuda")):
        return device.DEVICE if torch.device(value).type == "cuda" else value
    return value


class CudaIsPretend(TorchFunctionMode):
    """Replaces ``device="cuda"`` in every call of torch."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.device:  # code that asks for its type takes the path of CUDA
            return func(*args, **(kwargs or {}))
        kwargs = {key: replace_cuda(value) for key, value in (kwargs or {}).items()}
        return func(*[replace_cuda(value) for value in args], **kwargs)


def to_cuda(tensor, device=None, non_blocking=False):
    return tensor.to(device or "cuda", non_blocking=non_blocking)


def answer():
    """Make this process believe in a GPU."""
    device.install()
    for name, value in {**ANSWERS, **memory_answers(Memory())}.items():
        setattr(torch.cuda, name, value)
    torch.Tensor.cuda = to_cuda
    CudaIsPretend().__enter__()
    if WAITS in os.environ:
        _write_waits(os.environ[WAITS])


def _write_waits(path):
    """Write the waits between two copies of batches to the device."""
    from fairseq import utils

    stock, recorded = utils.move_to_cuda, record()

    def move_to_cuda(*args, **kwargs):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(recorded) + "\n")
        recorded.clear()
        return stock(*args, **kwargs)

    utils.move_to_cuda = move_to_cuda
