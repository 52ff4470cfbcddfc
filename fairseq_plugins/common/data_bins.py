"""Languages and pairs that options name, and what ``fairseq-preprocess`` wrote of them in one folder; says what is missing."""

import filecmp
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

from fairseq.data import Dictionary, data_utils


def split_names(text: str) -> List[str]:
    return [name for name in text.split(",") if name]


def split_pair(option: str, pair: str) -> Tuple[str, str]:
    """``en-de`` -> (en, de); refuses what is no pair of two languages."""
    source, _, target = pair.partition("-")
    if not source or not target or "-" in target:
        raise ValueError(f"{option} must be pairs of two languages, as en-de,en-fr; got {pair!r}")
    return source, target


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
        split_pair("--pairs", pair)
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


def load_dictionary(folder: str, languages: Sequence[str]) -> Dictionary:
    """The one dictionary of all languages, ``dict.LANGUAGE.txt``; a language may have no copy of its own.

    Raises ValueError: there is none, or two languages have different ones.
    """
    paths = [os.path.join(folder, f"dict.{language}.txt") for language in languages]
    there = [path for path in paths if os.path.isfile(path)]
    if not there:
        raise ValueError(f"no dictionary {paths[0]}: give the folder that fairseq-preprocess wrote")
    dictionary = Dictionary.load(there[0])
    check_dictionaries(folder, languages, dictionary, there[0])
    return dictionary


def check_dictionaries(folder: str, languages: Sequence[str], dictionary: Dictionary, origin: str) -> None:
    """Refuse dictionaries ``dict.LANGUAGE.txt`` with other entries than the one that is used, which was read from ``origin``."""
    for language in languages:
        path = os.path.join(folder, f"dict.{language}.txt")
        if os.path.isfile(path) and not filecmp.cmp(path, origin, shallow=False):
            if Dictionary.load(path) != dictionary:
                raise ValueError(f"{path} differs from {origin}: run fairseq-preprocess with one --srcdict for all")


def load_pair(prefix: str, pair: str, dictionary: Dictionary, option: str) -> List[Any]:
    """Both sides of a pair, see :func:`load_pair_side`; refuses sides of different numbers of sentences."""
    sides = [load_pair_side(prefix, pair, language, dictionary, option) for language in pair.split("-")]
    if len(sides[0]) != len(sides[1]):
        raise ValueError(
            f"{option} {pair}: the sides of {prefix} need equal lengths; got {[len(side) for side in sides]}"
        )
    return sides


def load_pair_side(prefix: str, pair: str, language: str, dictionary: Dictionary, option: str) -> Any:
    """One side of a pair, whose files may have the name of the other direction, as in stock translation; its own comes first.

    ``prefix``: folder and split, as in ``data-bin/train``; ``option`` named the pair, for messages.
    """
    source, target = pair.split("-")
    command = f"fairseq-preprocess --source-lang {source} --target-lang {target} --{os.path.basename(prefix)}pref TEXT"
    # Both sides of one name: two directions in one folder may hold other sentences.
    there = [
        name
        for name in both_orders(pair)
        if all(os.path.isfile(f"{prefix}.{name}.{side}.idx") for side in (source, target))
    ]
    return _load(f"{prefix}.{(there or [pair])[0]}.{language}", dictionary, f"{option} {pair}", command)


def both_orders(pair: str) -> List[str]:
    """The names that files of a pair may have: ``en-de`` -> [en-de, de-en]."""
    return [pair, "-".join(reversed(pair.split("-")))]


def load_monolingual(prefix: str, language: str, pairs: Sequence[str], dictionary: Dictionary, option: str) -> Any:
    """Text of a language: the files of ``fairseq-preprocess --only-source`` or, without them, a side of the first of the ``pairs``
    that has it. ``prefix``: folder and split, as in ``data-bin/train``; ``option`` named the language, for messages.
    """
    names = [f"{language}-None.{language}", language]
    names += [f"{name}.{language}" for pair in pairs if language in pair.split("-") for name in both_orders(pair)]
    there = [name for name in names if os.path.isfile(f"{prefix}.{name}.idx")]
    split = os.path.basename(prefix)
    command = f"fairseq-preprocess --only-source --source-lang {language} --srcdict DICT --{split}pref TEXT"
    return _load(f"{prefix}.{(there or names)[0]}", dictionary, f"{option} {language}", command)


def _load(prefix: str, dictionary: Dictionary, option: str, command: str) -> Any:
    path = f"{prefix}.bin"
    if not os.path.isfile(path) or os.path.getsize(path) == 0:
        wrong = "is empty" if os.path.isfile(path) else "is missing"
        raise ValueError(f"{option}: {path} {wrong}; run {command} --destdir {os.path.dirname(prefix) or '.'}")
    return data_utils.load_indexed_dataset(prefix, dictionary)
