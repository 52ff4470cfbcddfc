"""Time callables side by side and read the peak memory of a call, on the CPU or a CUDA device."""

import argparse
import ctypes
import gc
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence

import torch

CPU = torch.device("cpu")


class Ratio(NamedTuple):
    """Median, smallest and largest ratio over the rounds of a run."""

    median: float
    low: float
    high: float

    def rounded(self, factor: float = 1.0) -> List[float]:
        """Return the three ratios as they are stored, multiplied with ``factor``."""
        return [round(factor * ratio, 3) for ratio in self]


class Timing(NamedTuple):
    """Seconds of each round of one variant.

    Attributes:
        seconds: one entry per round; round i of all variants ran side by side.
    """

    seconds: List[float]

    @property
    def median(self) -> float:
        """Median over the rounds, in seconds."""
        return statistics.median(self.seconds)

    def ratio_to(self, base: "Timing") -> Ratio:
        """Divide the seconds of this variant by those of ``base``, round by round."""
        ratios = sorted(ours / theirs for ours, theirs in zip(self.seconds, base.seconds))
        return Ratio(statistics.median(ratios), ratios[0], ratios[-1])


class Cost(NamedTuple):
    """Time, memory and outcome of one variant of a step.

    Attributes:
        timing: seconds of each round.
        memory: peak memory beyond what is held before the call, in bytes.
        outcome: return value of one call.
    """

    timing: Timing
    memory: int
    outcome: Any

    def columns(self, cost: "Cost", base: "Cost") -> Dict[str, Any]:
        """Return the stored columns of this variant, with the ratios of ``cost`` to ``base``."""
        return {
            "seconds": round(self.timing.median, 4),
            "time_ratio": cost.timing.ratio_to(base.timing).rounded(),
            "extra_mb": round(self.memory / 1e6, 1),
            "memory_ratio": round(cost.memory / base.memory, 4),
        }


def measure_steps(
    steps: Mapping[str, Callable[[], Any]],
    rounds: int,
    device: torch.device,
) -> Dict[str, Cost]:
    """Time all variants of a step side by side, then read the peak memory of each.

    Args:
        steps: name -> one variant of the step.
        rounds: timed rounds.
        device: device that the steps run on.
    """
    timings = time_side_by_side(steps, rounds, device)
    memory = {name: peak_memory(step, device) for name, step in steps.items()}
    return {name: Cost(timings[name], memory[name], step()) for name, step in steps.items()}


def time_side_by_side(
    variants: Mapping[str, Callable[[], Any]],
    rounds: int,
    device: torch.device = CPU,
    warmup: int = 1,
    quiet: bool = False,
) -> Dict[str, Timing]:
    """Run each variant once per round, in rotating order, so that a slow minute hits all of them.

    Args:
        variants: name -> call that is timed.
        rounds: timed rounds, at least 1.
        device: device to wait for before each reading of the clock.
        warmup: rounds that are not counted.
        quiet: print no progress.

    Raises:
        ValueError: ``rounds`` is below 1.
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
    return {name: Timing(rounds_of_name) for name, rounds_of_name in seconds.items()}


def peak_memory(call: Callable[[], Any], device: torch.device) -> int:
    """Measure the bytes that ``call`` needs beyond what is held before it.

    On the CPU this is the high-water mark of the resident set, which Linux can reset. Run the
    call once before, or memory that is allocated only the first time is counted too.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        call()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets VmHWM
    before = process_memory("VmRSS")
    call()
    return max(process_memory("VmHWM") - before, 0)


def process_memory(field: str, process: str = "self") -> int:
    """Read a field of the status of a process, such as ``VmRSS``, in bytes."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    match = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
    assert match is not None
    return int(match.group(1)) * 1024


def percentile(numbers: Sequence[float], share: float) -> float:
    """Return the percentile of ``share`` (in [0, 1]), one of the numbers."""
    ordered = sorted(numbers)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def synchronise(device: torch.device) -> None:
    """Wait for work that the device has not finished."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def say(message: str) -> None:
    """Print progress on standard error."""
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


def parse_device(name: str) -> torch.device:
    """Convert ``--device``.

    Raises:
        ArgumentTypeError: cuda where torch sees no GPU.
    """
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise argparse.ArgumentTypeError(f"{name}: torch sees no GPU; valid here: cpu")
    return device
