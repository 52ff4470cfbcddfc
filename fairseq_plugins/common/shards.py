"""Read ``--data bin:bin2``: several folders, one of which is read in each epoch of training.

fairseq's tasks go through the folders in turn; dictionaries, validation and test come from the
first. fairseq-train loads the training set anew in each epoch if ``--data`` has several folders
(``FairseqTask.has_sharded_data``), and a resumed run loads that of its epoch. Stock reads a folder
when its turn comes; here what a folder lacks is said before the first batch.

Source: ``fairseq.tasks.translation.TranslationTask.load_dataset``.
"""

import filecmp
import os
from typing import Any, List, Optional, Sequence, TypeVar

from fairseq import utils
from fairseq.data import Dictionary

Content = TypeVar("Content")


def split_folders(data: str) -> List[str]:
    """Split the value of ``--data``. Raises ValueError for an empty one."""
    folders: List[str] = utils.split_paths(data)
    if not all(folders):
        raise ValueError(f"--data {data!r}: a folder's name is empty; valid: bin, or bin:bin2")
    return folders


def take_turn(folders: Sequence[Content], epoch: int) -> Content:
    """Return the folder, or what was made of it, whose turn it is in an epoch, counted from 1."""
    return folders[(epoch - 1) % len(folders)]


def refuse_folders(data: str, remedy: str) -> None:
    """Raise ValueError if ``--data`` has several folders and the task reads one."""
    folders = split_folders(data)
    if len(folders) > 1 and not os.path.isdir(data):
        raise ValueError(f"--data {data}: this task reads one folder, not {len(folders)}; {remedy}")


def check_pair_folders(cfg: Any, split: str) -> None:
    """Check that each folder of ``--data`` has the training pair, and the first one's dictionaries.

    Args:
        cfg: options of a translation task: ``data``, ``source_lang``, ``target_lang``.

    Raises:
        ValueError: a folder lacks a file, or has another dictionary.
    """
    first, *others = split_folders(cfg.data)
    for folder in others:
        path = find_missing_file(folder, split, f"{cfg.source_lang}-{cfg.target_lang}")
        if path:
            raise ValueError(
                f"--data {cfg.data}: {path} is missing or empty; training reads the folders in "
                f"turn, so run fairseq-preprocess for {cfg.source_lang}-{cfg.target_lang} into "
                "that folder, or leave it out"
            )
        for language in (cfg.source_lang, cfg.target_lang):
            _check_same_dictionary(*(_dictionary_path(name, language) for name in (first, folder)))


def _dictionary_path(folder: str, language: str) -> str:
    return os.path.join(folder, f"dict.{language}.txt")


def _check_same_dictionary(origin: str, path: str) -> None:
    """Raise ValueError if two dictionaries differ; a folder after the first may have none."""
    if not os.path.isfile(path) or filecmp.cmp(path, origin, shallow=False):
        return
    if Dictionary.load(path) != Dictionary.load(origin):
        raise ValueError(
            f"{path} differs from {origin}: run fairseq-preprocess with the first folder's as "
            "--srcdict and --tgtdict"
        )


def find_missing_file(
    folder: str, split: str, pair: str, with_target: bool = True
) -> Optional[str]:
    """Return the first file that a pair lacks in a folder; None if it has all.

    The files of the reverse direction serve as well, as in stock.

    Args:
        with_target: False for decoding, which needs no references.
    """
    source, _, target = pair.partition("-")
    sides = (source, target) if with_target else (source,)
    missing = None
    for name in (f"{target}-{source}", pair):
        prefixes = [os.path.join(folder, f"{split}.{name}.{side}") for side in sides]
        paths = [f"{prefix}.{kind}" for prefix in prefixes for kind in ("idx", "bin")]
        missing = next(filter(_is_missing, paths), None)
        if missing is None:
            return None
    return missing


def _is_missing(path: str) -> bool:
    return not os.path.isfile(path) or not os.path.getsize(path)
