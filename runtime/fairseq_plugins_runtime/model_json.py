"""Read ``model.json``, which is untrusted: an error names file, entry and what is valid."""

import json
import math
import reprlib
from pathlib import Path
from typing import Any, Dict, List

MAX_BYTES = 1 << 24
"""Size above which a ``model.json`` is refused."""
LARGEST = 2**31 - 1
"""Largest integer that is accepted."""


class ModelError(ValueError):
    """Raised for a model folder or a request that is not valid; the message names what is valid."""


def shown(value: Any) -> str:
    """Show a value in a short line, for a message."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 60
    return short.repr(value)


class Values:
    """Entries of a JSON object. Each method checks an entry; ModelError if it is not valid."""

    def __init__(self, values: Dict[str, Any], place: str) -> None:
        self.values, self.place = values, place

    def error(self, name: str, valid: str) -> ModelError:
        """Build the error of an entry."""
        fault = shown(self.values[name]) if name in self.values else "is missing"
        return ModelError(f"{self.place}: {name} {fault}; valid: {valid}")

    def text(self, name: str) -> str:
        """Return a string."""
        value = self.values.get(name)
        if not isinstance(value, str):
            raise self.error(name, "a string")
        return value

    def choice(self, name: str, *valid: str) -> str:
        """Return one of the valid strings."""
        value = self.values.get(name)
        if not isinstance(value, str) or value not in valid:
            raise self.error(name, ", ".join(valid))
        return value

    def integer(self, name: str, low: int, high: int = LARGEST) -> int:
        """Return an integer from ``low`` to ``high``."""
        value: Any = self.values.get(name)
        if not _is_integer(value) or not low <= value <= high:
            raise self.error(name, f"an integer from {low} to {high}")
        return int(value)

    def number(self, name: str, low: float = -math.inf) -> float:
        """Return a finite number, at least ``low``."""
        value: Any = self.values.get(name)
        fits = (_is_integer(value) and abs(value) < 2**53) or (
            isinstance(value, float) and math.isfinite(value)
        )
        if not fits or value < low:
            raise self.error(name, "a number" + ("" if low == -math.inf else f", at least {low:g}"))
        return float(value)

    def flag(self, name: str) -> bool:
        """Return a boolean."""
        value = self.values.get(name)
        if not isinstance(value, bool):
            raise self.error(name, "true or false")
        return value

    def texts(self, name: str) -> List[str]:
        """Return a list of strings."""
        value = self.values.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(name, "a list of strings")
        return list(value)

    def ids(self, name: str, size: int) -> List[int]:
        """Return a list of ids of a vocabulary of ``size`` symbols."""
        value = self.values.get(name)
        if not isinstance(value, list) or not all(
            _is_integer(item) and 0 <= item < size for item in value
        ):
            raise self.error(name, f"a list of ids below {size}, the size of the vocabulary")
        return list(value)

    def table(self, name: str) -> Dict[str, str]:
        """Return an object whose values are strings."""
        value = self.values.get(name)
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self.error(name, "an object of strings")
        return dict(value)

    def part(self, name: str) -> "Values":
        """Return an object."""
        value = self.values.get(name)
        if not isinstance(value, dict):
            raise self.error(name, "an object")
        return Values(value, f"{self.place}: {name}")

    def parts(self, name: str) -> List["Values"]:
        """Return a list of at least one object."""
        value = self.values.get(name)
        if (
            not isinstance(value, list)
            or not value
            or not all(isinstance(item, dict) for item in value)
        ):
            raise self.error(name, "a list of objects, at least one")
        return [Values(item, f"{self.place}: {name}") for item in value]


def read(path: Path) -> Values:
    """Read the object in a JSON file. Raises ModelError if it holds none, or is too large."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ModelError(
            f"{path}: {error.strerror or error}; valid: what `export --format onnx` writes"
        ) from None
    if len(data) > MAX_BYTES:
        raise ModelError(f"{path}: larger than {MAX_BYTES:,} bytes")
    try:
        content = json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ModelError(f"{path}: nested too deeply") from None
    except ValueError as error:
        raise ModelError(f"{path}: no JSON: {error}") from None
    if not isinstance(content, dict):
        raise ModelError(f"{path}: holds {shown(content)}; valid: an object")
    return Values(content, str(path))


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
