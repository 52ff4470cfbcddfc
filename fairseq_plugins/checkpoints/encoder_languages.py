"""Languages of fairseq models: what checkpoints and the files beside them say, and which rows of the embedding are theirs."""

import logging
import os
from pathlib import Path
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from .dictionaries import MASK, Languages, find_dictionary
from .errors import CheckpointError
from .pipeline import task_options
from .vocabularies import languages_of

logger = logging.getLogger(__name__)

LIST_NAME = "ML50_langs.txt"
"""List of languages, one a line, in the folder of a released mBART-50."""

_STYLES = {"mbart": "[{}]", "multilingual": "__{}__"}


def stock_languages(checkpoint: Mapping[str, Any], settings: Mapping[str, Any], style: str) -> Languages:
    """Languages that a fairseq checkpoint's task has as dictionary entries.

    Args:
        checkpoint: the whole file: its task's options and state are looked at before the model's.
        settings: options of the model, where older files have those of the task as well.
        style: how a language is written, where the task does not say.
    """
    options = {**settings, **task_options(checkpoint)}
    style = _STYLES.get(str(options.get("lang_tok_style")), style)
    state = checkpoint.get("task_state")
    kept = state.get("languages") if isinstance(state, Mapping) else None
    if isinstance(kept, Mapping) and isinstance(kept.get("langs"), (list, tuple)):
        return Languages(tuple(str(language) for language in kept["langs"]), style=style)
    denoising = "denoising" in str(task_options(checkpoint).get("_name") or settings.get("task"))
    if denoising and options.get("add_lang_token") is False:
        return Languages(style=style)
    file = options.get("lang_dict")
    listed = tuple(_as_list(options.get("langs")))
    guessed = {language for pair in _as_list(options.get("lang_pairs")) for language in pair.split("-")}
    return Languages(
        listed or None,
        tuple(sorted(guessed)) or None if not (listed or file or denoising) else None,
        Path(str(file)).name if file else None,
        style,
    )


def _as_list(value: Any) -> List[str]:
    if isinstance(value, str):
        value = value.split(",")
    return [str(item).strip() for item in value or () if str(item).strip()]


# ---- Files beside the model. ----


def dictionary_of_run(checkpoint: Mapping[str, Any]) -> Optional[Path]:
    """As :func:`find_dictionary`, in the data folder that a fairseq run was trained on; None where it is not there any more."""
    args = checkpoint.get("args")
    data = task_options(checkpoint).get("data") or getattr(args, "data", None)
    folder = Path(str(data).split(os.pathsep)[0]) if data else None
    found = find_dictionary(folder) if folder is not None and folder.is_dir() else None
    if found is not None:
        logger.info("no dictionary beside the checkpoint: its rows are those of %s, of its training", found)
    return found


def languages_beside(folder: Path, name: Optional[str]) -> Optional[Tuple[str, ...]]:
    """Languages of the list beside a model, in its order; None where there is none.

    Args:
        folder: of the model.
        name: of the list that the model was trained with, where it tells.

    Raises:
        CheckpointError: a list that is none.
    """
    file = next((folder / one for one in (name, LIST_NAME) if one and (folder / one).is_file()), None)
    return None if file is None else read_languages(file)


def read_languages(file: Path) -> Tuple[str, ...]:
    """Languages of a file, one a line, in its order. Raises CheckpointError: no text, none, several a line, or one twice."""
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").split("\n")]
    except (OSError, UnicodeError) as error:
        raise CheckpointError(f"languages {file}: cannot be read ({error})") from error
    for number, line in enumerate(lines, 1):
        if any(sign in line for sign in " \t,"):
            raise CheckpointError(f"languages {file}, line {number}: {line[:60]!r}, expected one language a line")
    return checked([line for line in lines if line], f"languages {file}")


def checked(languages: Sequence[str], origin: str) -> Tuple[str, ...]:
    """The languages, if there are some and each is there once. Raises CheckpointError: there is none, or one is there twice."""
    twice = sorted({language for language in languages if languages.count(language) > 1})
    if twice or not languages:
        raise CheckpointError(f"{origin}: {', '.join(twice) or 'none'}, expected every language once")
    return tuple(languages)


# ---- Rows. ----


def name_rows(
    base: List[str], languages: Languages, beside: Optional[Tuple[str, ...]], rows: int, origin: str
) -> Tuple[List[str], Optional[Tuple[str, ...]]]:
    """Entries of a fairseq model: those of its dictionary, then its languages, then ``<mask>``, as far as there are rows.

    Args:
        base: entries of its dictionary.
        languages: what the checkpoint says.
        beside: languages of the list beside it.
        rows: of the embedding.
        origin: how messages call the model.

    Returns:
        Entries, as many as rows where all are known, and the languages in the order of their rows.
    """
    stated = languages.listed or beside
    if languages.listed and beside and languages.listed != beside:
        logger.warning(
            "%s: its options and the list beside it name different languages: those that fit its rows are used", origin
        )
    for candidate in (languages.listed, beside, languages.guessed):
        entries = _complete(base, languages.symbols(candidate), rows)
        if candidate and entries:
            return entries, languages_of(entries, candidate)
    if languages.guessed:
        logger.warning(
            "%s: the languages of its pairs, %s, do not explain its rows and are not used",
            origin,
            ",".join(languages.guessed),
        )
    entries = _complete(base, [], rows)
    if entries:
        return entries, None
    if len(base) > rows:
        logger.warning("%s: has %d rows, the dictionary beside it %d entries", origin, rows, len(base))
    longest = _with(base, languages.symbols(stated))
    return (longest if len(longest) <= rows else base[:rows]), stated


def _with(base: List[str], symbols: Sequence[str]) -> List[str]:
    known = set(base)
    return [*base, *(symbol for symbol in symbols if symbol not in known)]


def _complete(base: List[str], symbols: Sequence[str], rows: int) -> List[str]:
    """An entry a row, or none: the dictionary's, the symbols, and ``<mask>`` where just one row is left."""
    entries = _with(base, symbols)
    if len(entries) == rows - 1 and MASK not in entries:
        entries.append(MASK)
    return entries if len(entries) == rows else []
