"""Paired timing and peak memory of callables, on the CPU or a CUDA device."""

import ctypes
import gc
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch


class Timing(NamedTuple):
    """Seconds of each repeat of one variant, in the order in which they ran.

    Attributes:
        seconds: one value a round; round i of every variant ran side by side.
    """

    seconds: List[float]

    @property
    def median(self) -> float:
        """Median over the rounds, seconds."""
        return statistics.median(self.seconds)

    def ratio_to(self, base: "Timing") -> "Ratio":
        """This variant's time over another's, round by round."""
        ratios = sorted(mine / theirs for mine, theirs in zip(self.seconds, base.seconds))
        return Ratio(statistics.median(ratios), ratios[0], ratios[-1])


class Ratio(NamedTuple):
    """Median, smallest and largest ratio over the rounds of a run."""

    median: float
    low: float
    high: float


def synchronise(device: torch.device) -> None:
    """Wait for what the device still does."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def time_side_by_side(
    variants: Dict[str, Callable[[], Any]], rounds: int, device: torch.device, warmup: int = 1, quiet: bool = False
) -> Dict[str, Timing]:
    """Run every variant once a round, the order turning, so that a slow minute of the machine hits all of them.

    Args:
        variants: name -> what is timed.
        rounds: timed rounds, at least 1.
        device: what to wait for before each reading of the clock.
        warmup: rounds that are not counted.
        quiet: no line of progress a variant.
    """
    if rounds < 1:
        raise ValueError(f"--rounds must be at least 1; got {rounds}")
    seconds: Dict[str, List[float]] = {name: [] for name in variants}
    names = list(variants)
    for number in range(-warmup, rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            if not quiet:
                say(f"round {number + 1}/{rounds}: {name}")
            gc.collect()
            synchronise(device)
            start = time.perf_counter()
            variants[name]()
            synchronise(device)
            if number >= 0:
                seconds[name].append(time.perf_counter() - start)
    return {name: Timing(values) for name, values in seconds.items()}


def peak_memory(call: Callable[[], Any], device: torch.device) -> int:
    """Bytes that ``call`` needs beyond what is held before it.

    On the CPU, the resident set's high-water mark, which Linux can reset; run the call once before, so that nothing is counted that
    happens only the first time.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        held = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        call()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - held
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets VmHWM
    held = memory("VmRSS")
    call()
    return max(memory("VmHWM") - held, 0)


def memory(field: str) -> int:
    """A field of this process's status, as ``VmRSS``, in bytes."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    assert found is not None
    return int(found.group(1)) * 1024


def percentile(values: Sequence[float], share: float) -> float:
    """Value below which ``share`` (in [0, 1]) of the values lie: the nearest rank."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def say(message: str) -> None:
    """Progress, on standard error."""
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


def pick_device(name: Optional[str]) -> torch.device:
    """The device named, or the GPU where there is one.

    Raises:
        ValueError: cuda where this torch sees no GPU.
    """
    device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"--device {name}: this torch sees no GPU; valid here: cpu")
    return device
