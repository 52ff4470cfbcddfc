"""Options of verbs: short ways to declare them, alone or as the fields of a dataclass."""

import argparse
import functools
from dataclasses import field, fields
from typing import Any, Callable, Collection, Optional, Sequence, Type, TypeVar

from .io import InputError

Kind = TypeVar("Kind", bound="Options")
NUMBERS = {"N": int, "R": float}  # metavar -> type of the value


def adder(parser: argparse.ArgumentParser) -> Callable[..., None]:
    """Return :func:`add` for a parser."""
    return functools.partial(add, parser)


def add(
    parser: argparse.ArgumentParser,
    name: str,
    metavar: Optional[str],
    text: str,
    many: bool = False,
    **settings: Any,
) -> None:
    """Add an option with a value.

    Args:
        parser: gets the option.
        name: name with its dashes.
        metavar: name of the value; ``N`` stands for a whole number, ``R`` for a real one.
        text: help.
        many: take one or more values.
        settings: further arguments of ``add_argument``, as `required`.
    """
    if many:
        settings["nargs"] = "+"
    if metavar in NUMBERS:
        settings["type"] = NUMBERS[metavar]
    parser.add_argument(name, metavar=metavar, help=text, **settings)


def add_flag(parser: argparse.ArgumentParser, name: str, text: str, **settings: Any) -> None:
    """Add an option without a value."""
    parser.add_argument(name, action="store_true", help=text, **settings)


def add_file_options(parser: argparse.ArgumentParser, inputs: str, outputs: str) -> None:
    """Add ``--inputs`` and ``--outputs`` with these help texts."""
    add(parser, "--inputs", "FILE", inputs, many=True, required=True)
    add(parser, "--outputs", "FILE", outputs, many=True, required=True)


def check_minimum(option: str, number: float, minimum: float) -> None:
    """Raise InputError if the value of an option is below its minimum."""
    if not number >= minimum:
        raise InputError(f"{option} {number}: valid: {minimum} or more")


def option(
    default: Any,
    text: str,
    choices: Optional[Collection[str]] = None,
    minimum: Optional[float] = None,
    maximum: Optional[float] = None,
    metavar: Optional[str] = None,
) -> Any:
    """Declare a field of :class:`Options`.

    Args:
        default: value without the option; its type is that of the option.
        text: help.
        choices: valid values.
        minimum: smallest valid number.
        maximum: largest valid number, with a minimum.
        metavar: as in :func:`add`; needed if `default` is None.
    """
    if metavar is None and choices is None:
        metavar = "R" if isinstance(default, float) else "N"
    details = {"text": text, "choices": choices, "metavar": metavar}
    return field(default=default, metadata={**details, "range": (minimum, maximum)})


class Options:
    """Base of dataclasses whose fields are options of a verb, with choices and ranges."""

    def __post_init__(self) -> None:
        """Check choices and ranges.

        Raises:
            InputError: a value is not valid; names the option.
        """
        for item in fields(self):  # type: ignore[arg-type]
            if "text" in item.metadata:  # declared by option()
                _check(f"--{item.name.replace('_', '-')}", getattr(self, item.name), item.metadata)


def _check(name: str, value: Any, details: Any) -> None:
    choices, (minimum, maximum) = details["choices"], details["range"]
    if choices is not None and value not in choices:
        raise InputError(f"{name} {value}: valid: {', '.join(choices)}")
    if minimum is None or value is None:
        return
    if maximum is None:
        check_minimum(name, value, minimum)
    elif not minimum <= value <= maximum:
        raise InputError(f"{name} {value}: valid: {minimum} to {maximum}")


def add_fields(
    parser: argparse.ArgumentParser,
    kind: Type[Options],
    defaults: Optional[Options] = None,
    leave_out: Sequence[str] = (),
) -> None:
    """Add the options that the fields of a dataclass declare.

    Args:
        parser: gets the options.
        kind: the dataclass.
        defaults: values without the options; default: those of the fields.
        leave_out: fields without an option.
    """
    for item in fields(kind):  # type: ignore[arg-type]
        if item.name in leave_out or "text" not in item.metadata:
            continue
        default = item.default if defaults is None else getattr(defaults, item.name)
        name, text = f"--{item.name.replace('_', '-')}", item.metadata["text"]
        if isinstance(default, bool):
            add_flag(parser, name, text)
        else:
            settings = {"default": default, "choices": item.metadata["choices"]}
            add(parser, name, item.metadata["metavar"], text, **settings)


def from_args(kind: Type[Kind], args: argparse.Namespace) -> Kind:
    """Make a dataclass from the parsed options of its fields; others keep their defaults."""
    names = [item.name for item in fields(kind) if hasattr(args, item.name)]  # type: ignore
    return kind(**{name: getattr(args, name) for name in names})
