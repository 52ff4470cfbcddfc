"""The languages and pairs that options name, and which split is trained on."""

from typing import Any, Dict, List, Sequence


def split_names(text: str) -> List[str]:
    """``en,de`` -> [en, de]."""
    return [name for name in text.split(",") if name]


def check_names(pairs: Sequence[str], languages: Sequence[str]) -> None:
    """Check the values of ``--pairs`` and ``--monolingual``.

    Raises:
        ValueError: none at all, a malformed pair, or one twice.
    """
    if not pairs and not languages:
        raise ValueError("--pairs and --monolingual are both empty; give at least one pair (en-de) or language (en)")
    for pair in pairs:
        if len(pair.split("-")) != 2 or not all(pair.split("-")):
            raise ValueError(f"--pairs must look like en-de,en-fr; got {pair!r}")
    for option, names in (("--pairs", pairs), ("--monolingual", languages)):
        if len(set(names)) < len(names):
            raise ValueError(f"{option} must name each once; got {','.join(names)}")


def is_training(split: str, train_subset: str, load_options: Dict[str, Any]) -> bool:
    """True for the set that is trained on; decoding and validation commands hand over a ``task_cfg``."""
    return split == train_subset and load_options.get("task_cfg") is None
