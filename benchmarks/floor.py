"""Where the time of a decoding goes, and the least it could take."""

import time
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Dict, Iterator, List

import torch
from torch import nn

from fairseq_plugins.ops.linear import linear

from .measure import synchronise


def peak_rates(device: torch.device) -> Dict[str, float]:
    """What this machine reaches: GFLOP/s of a large float32 matrix product, GB/s of reading a matrix for one vector.

    On a CPU torch has two products, a BLAS and oneDNN; what the faster one reaches counts.
    """
    size = 2048
    if device.type == "cuda":
        size = 8192
        while 16 * size * size * 4 > torch.cuda.get_device_properties(device).total_memory / 4:
            size //= 2
    matrix = torch.randn(size, size, device=device)
    wide = torch.randn(16 * size, size, device=device)
    vector = torch.randn(size, device=device)
    with torch.no_grad():
        product = min(_fastest(lambda: matrix @ matrix, device), _fastest(lambda: linear(matrix, matrix), device))
        reading = min(_fastest(lambda: wide @ vector, device), _fastest(lambda: linear(vector[None], wide), device))
    return {"gflops": 2 * size**3 / product / 1e9, "gb_per_s": wide.numel() * wide.element_size() / reading / 1e9}


def _fastest(call: Callable[[], Any], device: torch.device, repeats: int = 7) -> float:
    best = float("inf")
    for _ in range(repeats):
        synchronise(device)
        start = time.perf_counter()
        call()
        synchronise(device)
        best = min(best, time.perf_counter() - start)
    return best


def floor_seconds(weight_bytes: float, flops: float, rates: Dict[str, float]) -> float:
    """The least time: weights must be read once a step, products must be computed; the larger of the two."""
    return max(weight_bytes / (rates["gb_per_s"] * 1e9), flops / (rates["gflops"] * 1e9))


def parameter_bytes(*modules: nn.Module) -> int:
    """Bytes of the distinct parameters of some modules."""
    found = {id(part): part for module in modules for part in module.parameters()}
    return sum(part.numel() * part.element_size() for part in found.values())


@contextmanager
def stopwatch(groups: Dict[str, List[nn.Module]], device: torch.device) -> Iterator[Dict[str, float]]:
    """Seconds spent inside the modules of each group, by hooks; on a GPU each hook waits for the device, so use it for shares only.

    Args:
        groups: name -> modules whose forward is timed; modules of two groups must not contain each other.
        device: what to wait for.
    """
    seconds = dict.fromkeys(groups, 0.0)
    started: Dict[int, float] = {}

    def before(module: nn.Module, *_: Any) -> None:
        synchronise(device)
        started[id(module)] = time.perf_counter()

    def after(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, *_: Any) -> None:
            synchronise(device)
            seconds[name] += time.perf_counter() - started[id(module)]

        return hook

    with ExitStack() as stack:
        for name, modules in groups.items():
            for module in modules:
                stack.callback(module.register_forward_pre_hook(before).remove)
                stack.callback(module.register_forward_hook(after(name)).remove)
        yield seconds


@contextmanager
def timed_method(owner: Any, method: str, seconds: Dict[str, float], name: str, device: torch.device) -> Iterator[None]:
    """Add the time of ``owner.method`` to ``seconds[name]`` (for what is no module, such as the arg-max over the vocabulary)."""
    original = getattr(owner, method)
    seconds.setdefault(name, 0.0)

    def timed(*args: Any, **kwargs: Any) -> Any:
        synchronise(device)
        start = time.perf_counter()
        result = original(*args, **kwargs)
        synchronise(device)
        seconds[name] += time.perf_counter() - start
        return result

    object.__setattr__(owner, method, timed)
    try:
        yield
    finally:
        object.__delattr__(owner, method)
