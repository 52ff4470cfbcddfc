"""Reading what ``fairseq-preprocess`` wrote for several languages and pairs in one folder; says what is missing."""

import filecmp
import os
from typing import Any, List, Sequence

from fairseq.data import Dictionary, data_utils


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

    Args:
        prefix: folder and split, as in ``data-bin/train``.
        option: that named the pair, for the message about a missing or empty file.
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
    """Text of a language: the files of ``fairseq-preprocess --only-source`` or, without them, a side of a pair.

    Args:
        prefix: folder and split, as in ``data-bin/train``.
        pairs: whose sides may be read; the first that has the language counts.
        option: that named the language, for the message about a missing or empty file.
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
