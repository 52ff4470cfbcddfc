"""Fields of the dataclasses that declare command-line options, and checks of their values."""

from dataclasses import field
from typing import Any


def option(default: Any, help: str) -> Any:
    """An option with its default and help text."""
    return field(default=default, metadata={"help": help})


def check_range(cfg: Any, valid: str, *names: str) -> None:
    """Raise ValueError for an option outside an interval, as ``(0, 1]`` or ``[1, inf)``; None (not given) passes."""
    low, high = (float(end) for end in valid[1:-1].split(","))
    for name in names:
        value = getattr(cfg, name)
        if value is None or low < value < high:
            continue
        if not (value == low and valid[0] == "[") and not (value == high and valid[-1] == "]"):
            words = f"be at least {low:g}" if high == float("inf") else f"lie in {valid}"
            raise ValueError(f"--{name.replace('_', '-')} must {words}; got {value}")
