"""The languages and pairs that options name, and which split is trained on."""

from typing import Any, Dict, List, Optional, Sequence


def split_names(text: str) -> List[str]:
    """``en,de`` -> [en, de]."""
    return [name for name in text.split(",") if name]


def check_once(option: str, names: Sequence[str]) -> None:
    """Refuse a name that is given twice: its text would count twice."""
    if len(set(names)) < len(names):
        raise ValueError(f"{option} must name each once; got {','.join(names)}")


def check_names(pairs: Sequence[str], languages: Sequence[str], pair_share: Optional[float] = None) -> None:
    """Check the values of ``--pairs``, ``--monolingual`` and ``--pair-share``.

    Raises ValueError: none at all, a malformed pair, one twice, or a share of what is not there.
    """
    if not pairs and not languages:
        raise ValueError("--pairs and --monolingual are both empty; give at least one pair (en-de) or language (en)")
    for pair in pairs:
        if len(pair.split("-")) != 2 or not all(pair.split("-")):
            raise ValueError(f"--pairs must look like en-de,en-fr; got {pair!r}")
    check_once("--pairs", pairs)
    check_once("--monolingual", languages)
    if pair_share is None:
        return
    if not 0.0 <= pair_share <= 1.0:
        raise ValueError(f"--pair-share must lie in [0, 1]; got {pair_share}")
    for option, names, valid in (("--pairs", pairs, 0.0), ("--monolingual", languages, 1.0)):
        if not names and pair_share != valid:
            raise ValueError(f"--pair-share must be {valid:.0f} where {option} is empty; got {pair_share}")


def is_training(split: str, train_subset: str, load_options: Dict[str, Any]) -> bool:
    """True for the set that is trained on; decoding and validation commands hand over a ``task_cfg``."""
    return split == train_subset and load_options.get("task_cfg") is None
