"""Options that several pretrained models have, and checks of their values, which a YAML does not make."""

from dataclasses import fields
from typing import Any, Dict, Iterable, Mapping

from fairseq.dataclass import ChoiceEnum

from ..options import option

EMBEDDING_POLICIES: Any = ChoiceEnum(["error", "extend", "truncate"])


def embedding_mismatch_option(more: str = "") -> Any:
    """The option --embedding-mismatch; ``more`` is added to its help."""
    return option(
        "error",
        "where dictionary and pretrained file have different numbers of rows: error; extend = rows beyond the file's (language "
        f"tags) get random values; truncate = the file's rows beyond the dictionary's are left out{more}",
    )


def flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def defaults_of(options: Any) -> Dict[str, Any]:
    """Name of each option of a dataclass -> its default."""
    return {one.name: one.default for one in fields(options) if one.name != "_name"}


def check_choices(args: Any, choices: Dict[str, Iterable[Any]]) -> None:
    """Raise ValueError for an option that is none of its choices; None is left to the model."""
    for name, values in choices.items():
        value, valid = getattr(args, name), [str(one) for one in values]
        if value is not None and str(value) not in valid:
            raise ValueError(f"{flag(name)} must be one of {', '.join(valid)}; got {value}")


def check_positive(args: Any, *names: str) -> None:
    """Raise ValueError for an option below 1; None is left to the model."""
    for name in names:
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ValueError(f"{flag(name)} must be at least 1; got {value}")


def check_dropout(args: Any, *names: str) -> None:
    """Raise ValueError for an option outside [0, 1)."""
    for name in names:
        if not 0.0 <= getattr(args, name) < 1.0:
            raise ValueError(f"{flag(name)} must lie in [0, 1); got {getattr(args, name)}")


def check_wiring(args: Any, wiring: Mapping[str, Any], origin: str, whose: str = "XLM-R is") -> None:
    """Raise ValueError for an option that is set to something else than ``wiring`` says: the weights work with no other."""
    for name, value in wiring.items():
        found = getattr(args, name, None)
        if found is not None and found != value:
            raise ValueError(
                f"{origin}: {flag(name)} {found} is not how {whose} wired; valid: {value}, as without this option"
            )
