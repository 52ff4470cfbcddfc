"""Options that several pretrained models have, and checks of their values, which a YAML does not make."""

import os
from dataclasses import fields
from typing import Any, Dict, Iterable, Mapping

from fairseq.dataclass import ChoiceEnum

from ..options import option

EMBEDDING_POLICIES: Any = ChoiceEnum(["error", "extend", "truncate"])
USE_ITS_DICTIONARY = "run fairseq-preprocess with that dict.txt as --srcdict and --tgtdict, new symbols at its end"


def embedding_mismatch_option(more: str = "") -> Any:
    """The option --embedding-mismatch; ``more`` is added to its help."""
    return option(
        "error",
        "where dictionary and pretrained file have different numbers of rows: error; extend = rows beyond the file's (language "
        f"tags) get random values; truncate = the file's rows beyond the dictionary's are left out{more}",
    )


def flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def frozen_path(cfg: Any, name: str, valid: str) -> str:
    """The pretrained file that the option ``name`` gives, without which there is no model. Raises ValueError: there is none."""
    path = getattr(cfg, name)
    if not path:
        raise ValueError(f"{flag(name)} is needed: {valid}")
    if not os.path.exists(path):
        raise ValueError(
            f"{flag(name)} {path}: no such file or folder. A checkpoint holds only the trained part; when decoding, give the "
            f"pretrained model's new place with --model-overrides \"{{'{name}': 'PATH'}}\""
        )
    return str(path)


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


def check_wiring(args: Any, wiring: Mapping[str, Any], origin: str) -> None:
    """Raise ValueError for an option that is set to something else than ``wiring`` says: the weights work with no other."""
    for name, value in wiring.items():
        found = getattr(args, name, None)
        if found is not None and found != value:
            raise ValueError(
                f"{origin}: {flag(name)} {found} is not how XLM-R is wired; valid: {value}, as without this option"
            )
