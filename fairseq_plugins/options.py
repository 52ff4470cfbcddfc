"""Fields of the dataclasses that declare command-line options."""

from dataclasses import field
from typing import Any


def option(default: Any, help: str) -> Any:
    """An option with its default and help text."""
    return field(default=default, metadata={"help": help})
