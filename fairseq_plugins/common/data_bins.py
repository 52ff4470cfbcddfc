"""Read the output of ``fairseq-preprocess``: languages, pairs, dictionaries, empty sentences."""

import filecmp
import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from fairseq.data import BaseWrapperDataset, ConcatDataset, Dictionary, data_utils
from fairseq.data.indexed_dataset import dataset_exists

from .shards import split_folders

LISTED_LINES = 5
"""Line numbers that a message writes out."""


def split_names(text: str) -> List[str]:
    """Split ``en,de`` into its names."""
    return [name for name in text.split(",") if name]


def split_pair(option: str, pair: str) -> Tuple[str, str]:
    """Split ``en-de``. Raises ValueError unless the pair has the form SOURCE-TARGET."""
    source, _, target = pair.partition("-")
    if not source or not target or "-" in target:
        raise ValueError(f"{option} must be pairs of two languages, as en-de,en-fr; got {pair!r}")
    return source, target


def has_repeats(names: Sequence[str]) -> bool:
    """Return True if a name occurs twice."""
    return len(set(names)) < len(names)


def check_once(option: str, names: Sequence[str]) -> None:
    """Raise ValueError for a name that occurs twice: its text would count twice."""
    if has_repeats(names):
        raise ValueError(f"{option} must name each once; got {','.join(names)}")


def check_names(
    pairs: Sequence[str], languages: Sequence[str], pair_share: Optional[float] = None
) -> None:
    """Check the values of ``--pairs``, ``--monolingual`` and ``--pair-share``.

    Raises:
        ValueError: there are no names at all, a pair is malformed, a name is repeated, or
            ``pair_share`` is out of range or gives a share to an empty option.
    """
    if not pairs and not languages:
        raise ValueError(
            "--pairs and --monolingual are both empty; give at least one pair (en-de) or language "
            "(en)"
        )
    for pair in pairs:
        split_pair("--pairs", pair)
    check_once("--pairs", pairs)
    check_once("--monolingual", languages)
    if pair_share is None:
        return
    if not 0.0 <= pair_share <= 1.0:
        raise ValueError(f"--pair-share must lie in [0, 1]; got {pair_share}")
    for option, names, only_share in (("--pairs", pairs, 0.0), ("--monolingual", languages, 1.0)):
        if not names and pair_share != only_share:
            raise ValueError(
                f"--pair-share must be {only_share:.0f} where {option} is empty; got {pair_share}"
            )


def is_training(split: str, train_subset: str, load_options: Dict[str, Any]) -> bool:
    """Return True if ``load_dataset`` is called for training.

    The name of the split does not decide, because the train split may also be decoded:
    fairseq-generate and fairseq-validate pass ``task_cfg`` among the ``load_options``,
    fairseq-train does not.
    """
    return split == train_subset and load_options.get("task_cfg") is None


def load_dictionary(data: str, languages: Sequence[str]) -> Dictionary:
    """Read the dictionary that all languages share, from the first folder.

    fairseq-preprocess writes a copy for each language, ``dict.LANGUAGE.txt``. One copy is enough.

    Args:
        data: value of ``--data``: a folder, or several as ``bin:bin2``.

    Raises:
        ValueError: there is no dictionary in the first folder, or two copies differ in any folder.
    """
    folders = split_folders(data)
    paths = [os.path.join(folders[0], f"dict.{language}.txt") for language in languages]
    existing = [path for path in paths if os.path.isfile(path)]
    if not existing:
        raise ValueError(f"no dictionary {paths[0]}: give the folder that fairseq-preprocess wrote")
    dictionary = Dictionary.load(existing[0])
    for folder in folders:
        check_dictionaries(folder, languages, dictionary, existing[0])
    return dictionary


def check_dictionaries(
    folder: str, languages: Sequence[str], dictionary: Dictionary, origin: str
) -> None:
    """Raise ValueError if a ``dict.LANGUAGE.txt`` differs from ``dictionary``.

    Args:
        origin: file that ``dictionary`` was read from.
    """
    for language in languages:
        path = os.path.join(folder, f"dict.{language}.txt")
        if not os.path.isfile(path) or filecmp.cmp(path, origin, shallow=False):
            continue  # a copy with equal bytes need not be parsed
        if Dictionary.load(path) != dictionary:
            raise ValueError(
                f"{path} differs from {origin}: run fairseq-preprocess with one --srcdict for all"
            )


def load_pair(prefix: str, pair: str, dictionary: Dictionary, option: str) -> List[Any]:
    """Load both sides of a pair from the files of its own direction, else of the reverse direction.

    Both sides come from one direction: the files of en-de and de-en in one folder may hold
    different sentences.

    Args:
        prefix: folder and split, as in ``data-bin/train``.
        option: option that named the pair, for messages.

    Raises:
        ValueError: a side is missing, or the sides have different numbers of sentences.
    """
    languages = pair.split("-")
    source, target = languages
    complete = [
        name
        for name in both_orders(pair)
        if all(os.path.isfile(f"{prefix}.{name}.{language}.idx") for language in languages)
    ]
    direction = complete[0] if complete else pair
    split = os.path.basename(prefix)
    command = f"fairseq-preprocess --source-lang {source} --target-lang {target} --{split}pref TEXT"
    sides = [
        _load(f"{prefix}.{direction}.{language}", dictionary, f"{option} {pair}", command)
        for language in languages
    ]
    lengths = [len(side) for side in sides]
    if lengths[0] != lengths[1]:
        raise ValueError(
            f"{option} {pair}: the sides of {prefix} need equal lengths; got {lengths}"
        )
    return sides


def both_orders(pair: str) -> List[str]:
    """List the directions that files of a pair may name: ``en-de`` -> [en-de, de-en]."""
    return [pair, "-".join(reversed(pair.split("-")))]


def load_monolingual(
    prefix: str, language: str, pairs: Sequence[str], dictionary: Dictionary, option: str
) -> Any:
    """Load the text of a language.

    The text is the output of ``fairseq-preprocess --only-source`` or, if there is none, a side of
    the first pair in ``pairs`` that has the language.

    Args:
        prefix: folder and split, as in ``data-bin/train``.
        option: option that named the language, for messages.
    """
    names = [f"{language}-None.{language}", language]
    for pair in pairs:
        if language in pair.split("-"):
            names += [f"{name}.{language}" for name in both_orders(pair)]
    existing = [name for name in names if os.path.isfile(f"{prefix}.{name}.idx")]
    split = os.path.basename(prefix)
    command = (
        f"fairseq-preprocess --only-source --source-lang {language} --srcdict DICT "
        f"--{split}pref TEXT"
    )
    return _load(f"{prefix}.{(existing or names)[0]}", dictionary, f"{option} {language}", command)


def _load(prefix: str, dictionary: Dictionary, option: str, command: str) -> Any:
    """Load a file. If it is missing, raise ValueError that names the command that makes it."""
    path = f"{prefix}.bin"
    if not os.path.isfile(path) or os.path.getsize(path) == 0:
        fault = "is empty" if os.path.isfile(path) else "is missing"
        raise ValueError(
            f"{option}: {path} {fault}; run {command} --destdir {os.path.dirname(prefix) or '.'}"
        )
    return data_utils.load_indexed_dataset(prefix, dictionary)


# ---- Sentences without a token: nothing but ``</s>``. ----


class BinSide(NamedTuple):
    """Locate the files of one side of a language pair."""

    folder: str  # the data-bin
    split: str  # as in ``train``
    languages: Sequence[str]  # source and target
    language: str  # the side
    impl: Any = None  # ``--dataset-impl``; None = any

    def path(self, number: int) -> str:
        """Return the path, without ending, of part ``number`` of the split.

        fairseq names the parts ``train``, ``train1``, ``train2`` and so on.
        """
        split = f"{self.split}{number}" if number else self.split
        names = [f"{split}.{pair}." for pair in both_orders("-".join(self.languages))]
        paths = [os.path.join(self.folder, name) for name in names]
        existing = [path for path in paths if dataset_exists(path + self.languages[0], self.impl)]
        return (existing or paths)[0] + self.language


def refuse_empty(rows: Any, side: BinSide) -> None:
    """Raise ValueError if a sentence has no token beside ``</s>``. Reads no tokens, only sizes.

    Args:
        rows: a side as fairseq's translation task reads it: an indexed dataset, its wrappers for
            ``--truncate-source``, or a concatenation of the parts of a split.
        side: its files, for the message, which counts lines from 1.
    """
    for number, part in enumerate(_indexed_parts(rows)):
        empty = np.flatnonzero(np.asarray(part.sizes) <= 1)
        if len(empty):
            lines = _list_lines(empty + 1)
            raise ValueError(
                f"{side.path(number)}: {lines} without a token ({len(empty)} empty sentences in "
                "all); valid: at least one token a sentence; leave these pairs out"
            )


def _indexed_parts(rows: Any) -> Iterator[Any]:
    """Yield the indexed dataset of each part of a split.

    For ``--truncate-source`` fairseq strips ``</s>``, cuts and appends it again in wrappers. Their
    ``sizes`` count ``</s>`` twice, so an empty sentence would seem to have a token.
    """
    for part in rows.datasets if isinstance(rows, ConcatDataset) else [rows]:
        while isinstance(part, BaseWrapperDataset):
            part = part.dataset
        yield part


def _list_lines(lines: np.ndarray) -> str:
    """Write line numbers as a subject with its verb: ``line 3 is``, or ``lines 3, 5 are``."""
    numbers: List[str] = [str(line) for line in lines[:LISTED_LINES].tolist()]
    more = ", …" if len(lines) > LISTED_LINES else ""
    return f"line {numbers[0]} is" if len(lines) == 1 else f"lines {', '.join(numbers)}{more} are"
