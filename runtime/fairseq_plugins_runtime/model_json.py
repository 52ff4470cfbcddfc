"""Reading ``model.json``, which nobody vouches for: an error names the file, the entry and what is valid."""

import json
import math
import reprlib
from pathlib import Path
from typing import Any, Dict, List

MAX_BYTES = 1 << 24
"""A larger ``model.json`` is not read."""
LARGEST = 2**31 - 1
"""Larger integers are not taken."""


class ModelError(ValueError):
    """A model folder, or what it is asked for, is not as it must be; the message names what, and what is valid."""


def shown(value: Any) -> str:
    """A value for a message, in one short line."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 60
    return short.repr(value)


class Values:
    """The entries of one JSON object."""

    def __init__(self, values: Dict[str, Any], where: str) -> None:
        self.values, self.where = values, where

    def error(self, name: str, valid: str) -> ModelError:
        """What is wrong with an entry."""
        found = shown(self.values[name]) if name in self.values else "is missing"
        return ModelError(f"{self.where}: {name} {found}; valid: {valid}")

    def text(self, name: str) -> str:
        """A string."""
        value = self.values.get(name)
        if not isinstance(value, str):
            raise self.error(name, "a string")
        return value

    def choice(self, name: str, *valid: str) -> str:
        """One of some strings."""
        value = self.values.get(name)
        if not isinstance(value, str) or value not in valid:
            raise self.error(name, ", ".join(valid))
        return value

    def integer(self, name: str, low: int, high: int = LARGEST) -> int:
        """An integer from ``low`` to ``high``."""
        value: Any = self.values.get(name)
        if not _is_integer(value) or not low <= value <= high:
            raise self.error(name, f"an integer from {low} to {high}")
        return int(value)

    def number(self, name: str, low: float = -math.inf) -> float:
        """A finite number, at least ``low``."""
        value: Any = self.values.get(name)
        fits = (_is_integer(value) and abs(value) < 2**53) or (isinstance(value, float) and math.isfinite(value))
        if not fits or value < low:
            raise self.error(name, "a number" + ("" if low == -math.inf else f", at least {low:g}"))
        return float(value)

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self.values.get(name)
        if not isinstance(value, bool):
            raise self.error(name, "true or false")
        return value

    def texts(self, name: str) -> List[str]:
        """A list of strings."""
        value = self.values.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(name, "a list of strings")
        return list(value)

    def ids(self, name: str, size: int) -> List[int]:
        """A list of ids of a vocabulary of ``size`` symbols."""
        value = self.values.get(name)
        if not isinstance(value, list) or not all(_is_integer(item) and 0 <= item < size for item in value):
            raise self.error(name, f"a list of ids below {size}, the size of the vocabulary")
        return list(value)

    def table(self, name: str) -> Dict[str, str]:
        """An object whose values are strings."""
        value = self.values.get(name)
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self.error(name, "an object of strings")
        return dict(value)

    def part(self, name: str) -> "Values":
        """An object."""
        value = self.values.get(name)
        if not isinstance(value, dict):
            raise self.error(name, "an object")
        return Values(value, f"{self.where}: {name}")

    def parts(self, name: str) -> List["Values"]:
        """A list of objects, at least one."""
        value = self.values.get(name)
        if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
            raise self.error(name, "a list of objects, at least one")
        return [Values(item, f"{self.where}: {name}") for item in value]


def read(path: Path) -> Values:
    """The object that a JSON file holds. Raises ModelError: it is something else, or too large."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}; valid: what `export --format onnx` writes") from None
    if len(data) > MAX_BYTES:
        raise ModelError(f"{path}: larger than {MAX_BYTES:,} bytes")
    try:
        found = json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ModelError(f"{path}: nested too deeply") from None
    except ValueError as error:
        raise ModelError(f"{path}: no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ModelError(f"{path}: holds {shown(found)}; valid: an object")
    return Values(found, str(path))


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
