"""Options and other plain Python values as JSON, and back, without losing what JSON cannot say."""

import argparse
import math
from typing import Any, Callable, Dict, Mapping

from .errors import CheckpointError
from .stored_options import DEEPEST_CONTENT

Types = Dict[str, str]
"""JSON pointer -> "namespace", "tuple" or "float": what the value there was before it became an object, array or string."""

_BUILDERS: Dict[str, Callable[[Any], Any]] = {
    "namespace": lambda value: argparse.Namespace(**value),
    "tuple": tuple,
    "float": float,
}


def to_json(value: Any, types: Types, where: str = "") -> Any:
    """Turn a value into what ``json`` writes.

    Args:
        value: None, booleans, numbers, strings, and dictionaries with string keys, lists, tuples and
            ``argparse.Namespace`` of these.
        types: filled with what :func:`from_json` needs to give back the very same value.
        where: JSON pointer of the value, for ``types`` and messages.

    Raises:
        CheckpointError: any other object; names the place and the type.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        types[where] = "float"
        return str(value)
    if isinstance(value, argparse.Namespace):
        types[where] = "namespace"
        value = vars(value)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: to_json(item, types, f"{where}/{_escaped(key)}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if isinstance(value, tuple):
            types[where] = "tuple"
        return [to_json(item, types, f"{where}/{index}") for index, item in enumerate(value)]
    raise CheckpointError(
        f"{where or '/'}: {type(value).__name__} cannot be written as JSON; valid: None, booleans, numbers, strings, and "
        "dictionaries with string keys, lists, tuples and argparse.Namespace of these"
    )


def from_json(value: Any, types: Mapping[str, str], where: str = "") -> Any:
    """The value that :func:`to_json` was given.

    Raises:
        CheckpointError: ``types`` names a type that there is not, or the value is nested too deep.
    """
    if where.count("/") > DEEPEST_CONTENT:  # a key's own / is escaped
        raise CheckpointError(f"{where[:40]}...: nested deeper than {DEEPEST_CONTENT}")
    if isinstance(value, dict):
        value = {key: from_json(item, types, f"{where}/{_escaped(key)}") for key, item in value.items()}
    elif isinstance(value, list):
        value = [from_json(item, types, f"{where}/{index}") for index, item in enumerate(value)]
    kind = types.get(where)
    if kind is None:
        return value
    if kind not in _BUILDERS:
        raise CheckpointError(f"{where or '/'}: type {kind!r} is unknown; valid: {', '.join(_BUILDERS)}")
    return _BUILDERS[kind](value)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
