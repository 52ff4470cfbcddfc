"""Find the checkpoint that MODEL names, and the files that belong to it."""

import logging
import math
from pathlib import Path
from typing import Any, List, Optional, Sequence

from fairseq import utils
from fairseq.data import data_utils

from .checkpoints.vocabulary import read_json

logger = logging.getLogger(__name__)

CHECKPOINTS = ("checkpoint_best.pt", "checkpoint_last.pt")
INDEX = "translator.json"
"""File in a folder of several systems: lists ``systems``, folders beside it, and ``default``."""
TRANSLATOR = "translator"
"""Name of such a folder below the output of the workflow."""
SEARCH = "search.json"
"""File beside a checkpoint: the search options, by name, with which it was scored."""
SEARCH_OPTIONS = (
    "beam",
    "iter-decode-blank-penalty",
    "iter-decode-max-iter",
    "lenpen",
    "max-len-a",
    "max-len-b",
    "max-source-positions",
    "truncate-source",
)
SEGMENTERS = {
    "sentencepiece.bpe.model": ("--bpe", "sentencepiece", "--sentencepiece-model"),
    "codes.bpe": ("--bpe", "fastbpe", "--bpe-codes"),
}
"""File that data_prep/preprocess.sh leaves beside the dictionaries -> fairseq's options for it."""


# ---- The checkpoint. ----


def find_checkpoint(model: str, system: Optional[str] = None) -> Path:
    """Return the file that MODEL and ``--system`` name.

    Args:
        model: a file, the folder of a run, a folder of several systems, or the OUT of
            ``make translator``, which holds such a folder.
        system: name of a system in a folder of several; None = the default.

    Raises:
        ValueError: there is no file, several with unusual names, or no such system.
    """
    path = Path(model)
    if (path / TRANSLATOR / INDEX).is_file():
        path = path / TRANSLATOR
    if (path / INDEX).is_file():
        path = path / _choose_system(path, system)
    elif system:
        reason = f"MODEL {model} is no folder of several systems (it has no {INDEX})"
        raise ValueError(f"--system {system}: {reason}")
    if path.is_file():
        return path
    if not path.is_dir():
        raise ValueError(f"MODEL {model}: no such file or folder")
    files = sorted(file.name for file in path.glob("*.pt"))
    if len(files) == 1:
        return path / files[0]
    for name in CHECKPOINTS:
        if name in files:
            return path / name
    names = ", ".join(files) or "no .pt file"
    raise ValueError(f"MODEL {model}: holds {names}; valid: the name of one checkpoint")


def _choose_system(folder: Path, system: Optional[str]) -> str:
    """Return ``system``, or the default system of the folder if it is None.

    Raises:
        ValueError: no such system is listed, or its folder is missing.
    """
    index = read_json(folder / INDEX, "the folder of several systems")
    listed = index.get("systems")
    names = []
    for name in listed if isinstance(listed, dict) else ():
        is_plain = Path(name).name == name != ".."  # else it may lead out of the folder
        if is_plain and (folder / name).is_dir():
            names.append(name)
    name = system or index.get("default")
    if name not in names:
        valid = ", ".join(sorted(names)) or "none, its folders are missing"
        raise ValueError(f"--system {name}: not in {folder / INDEX}; valid: {valid}")
    if not system:
        choice = f"system {name}, the better on validation"
        logger.info("%s: %s; --system takes another of %s", folder, choice, ", ".join(names))
    return str(name)


# ---- Languages, dictionaries, pieces and search options. ----


def list_data_folders(path: Path, data: Optional[str], task_options: Any) -> List[Path]:
    """List the folders in which dictionaries are looked for.

    This is ``--data`` alone or, without it, the checkpoint's folder and the training's data-bin.
    """
    if data:
        return [Path(data)]
    training_data = utils.split_paths(str(task_options.data))[:1] if task_options.data else []
    return [path.parent, *map(Path, training_data)]


def choose_languages(
    path: Path, folders: Sequence[Path], task_options: Any, options: Sequence[Optional[str]]
) -> List[str]:
    """Choose source and target language.

    The command line comes first, then the training. Like fairseq-train, the last resort are the
    names of the files in a data-bin.

    Args:
        path: checkpoint, for messages.
        folders: data-bins.
        task_options: options of the checkpoint's task.
        options: ``--source-lang`` and ``--target-lang``.

    Raises:
        ValueError: no language for a model of several pairs, or without a data-bin.
    """
    source, target = options[0] or task_options.source_lang, options[1] or task_options.target_lang
    lang_pairs = getattr(task_options, "lang_pairs", None)
    for folder in folders:
        if None in (source, target) and not lang_pairs and folder.is_dir():
            data_source, data_target = data_utils.infer_language_pair(str(folder))
            source, target = source or data_source, target or data_target
    if None in (source, target):
        pairs = lang_pairs if isinstance(lang_pairs, str) else ",".join(lang_pairs or ())
        training = f", it was trained on {pairs}" if pairs else ""
        raise ValueError(f"MODEL {path}: --source-lang and --target-lang are needed{training}")
    return [source, target]


def find_dictionaries(folders: Sequence[Path], task_options: Any, pair: Sequence[str]) -> Path:
    """Return the first folder with the dictionaries of a pair.

    A task with ``--fixed-dictionary`` needs none: the last folder is returned.

    Raises:
        ValueError: no folder has them; names all folders.
    """
    names = sorted({f"dict.{language}.txt" for language in pair})
    for folder in folders:
        if all((folder / name).is_file() for name in names):
            return folder
    if getattr(task_options, "fixed_dictionary", None):  # a file of any name for all languages
        return folders[-1]
    places = " nor in ".join(map(str, folders))
    missing = f"{' and '.join(names)} are not in {places}"
    raise ValueError(f"--data: {missing}; valid: the data-bin of the training")


def find_segmenter(folders: Sequence[Path]) -> List[str]:
    """Return fairseq's options for the BPE or sentencepiece file in the folders.

    Without such a file the list is empty, and words count as pieces.
    """
    for folder in folders:
        for name, flags in SEGMENTERS.items():
            if (folder / name).is_file():
                return [*flags, str(folder / name)]
    names = " or ".join(SEGMENTERS)
    logger.warning("no %s beside the dictionaries: words are taken as they stand", names)
    return []


def read_search_options(folder: Path) -> List[str]:
    """Read the options with which the checkpoint in a folder was scored; none without the file.

    Raises:
        ValueError: an option other than :data:`SEARCH_OPTIONS`, or one that is no number.
    """
    if not (folder / SEARCH).is_file():
        return []
    line: List[str] = []
    for name, number in read_json(folder / SEARCH, "options of a search").items():
        is_finite = isinstance(number, float) and math.isfinite(number)
        if name not in SEARCH_OPTIONS or not (isinstance(number, int) or is_finite):
            valid = f"numbers of {', '.join(SEARCH_OPTIONS)}"
            raise ValueError(f"{folder / SEARCH}: {name} {number!r}; valid: {valid}")
        if number is True:
            line += [f"--{name}"]
        elif number is not False:
            line += [f"--{name}", str(number)]
    return line
