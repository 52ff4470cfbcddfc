"""Reads fairseq dictionaries, and the languages that a checkpoint states."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .inspection import CheckpointError

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
"""First entries of every fairseq dictionary; ``dict.txt`` does not contain them."""

PAD, MASK = "<pad>", "<mask>"
CONFIG_NAME = "config.json"
DICTIONARY_NAME = "dict.txt"
LIST_NAME = "ML50_langs.txt"
"""List of languages, one per line, in the folder of a released mBART-50."""

STYLES = {"mbart": "[{}]", "nllb": "__{}__"}
"""Family of an encoder -> format of a language as a dictionary entry of fairseq."""

_TASK_STYLES = {"mbart": "[{}]", "multilingual": "__{}__"}
_CODE = r"[a-z]{2,3}(?:_(?:[A-Z]{2}|[A-Z][a-z]{3}))?"
LANGUAGE = re.compile(rf"\[({_CODE})\]|__({_CODE})__")


# ---- Files. ----


def read_json(file: Path, expected: str) -> Dict[str, Any]:
    """Read a JSON object.

    Args:
        expected: description of the folder that has such a file, for messages.

    Raises:
        CheckpointError: the file is missing or damaged, or holds no object.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        reason = f"has no {file.name}; expected {expected}"
        raise CheckpointError(f"checkpoint {file.parent}: {reason}") from error
    except (ValueError, OSError, RecursionError) as error:
        raise CheckpointError(f"checkpoint {file}: is no readable JSON ({error})") from error
    if not isinstance(content, dict):
        kind = type(content).__name__
        raise CheckpointError(f"checkpoint {file}: expected a JSON object, found {kind}")
    return content


def read_lines(file: Path, kind: str) -> List[str]:
    """Read the lines of a text file without line ends.

    Args:
        kind: kind of file, for messages.

    Raises:
        CheckpointError: the file is unreadable or not UTF-8.
    """
    try:
        with file.open(encoding="utf-8") as stream:
            return [line.rstrip("\n") for line in stream]
    except (OSError, UnicodeError) as error:
        raise CheckpointError(f"{kind} {file}: cannot be read ({error})") from error


# ---- Dictionaries. ----


def find_dictionary(folder: Path, checkpoint: Mapping[str, Any]) -> Optional[Path]:
    """Return the path of ``dict.txt``, or of the first of equal ``dict.LANG.txt``, else None.

    The folder is searched first, then the data folder of the run that wrote the checkpoint.

    Args:
        folder: folder of the checkpoint.
        checkpoint: entries of a fairseq checkpoint.

    Raises:
        CheckpointError: the dictionaries of the languages differ.
    """
    data = task_options(checkpoint).get("data") or getattr(checkpoint.get("args"), "data", None)
    places = [folder, Path(str(data).split(os.pathsep)[0])] if data else [folder]
    for place in places:
        file = place / DICTIONARY_NAME
        files = [file] if file.is_file() else sorted(place.glob("dict.*.txt"))
        for sibling in files[1:]:
            if sibling.read_bytes() != files[0].read_bytes():
                expected = f"differs from {sibling.name}; expected equal ones, or {DICTIONARY_NAME}"
                raise CheckpointError(f"dictionary {files[0]}: {expected}")
        if files:
            return files[0]
    return None


def read_dictionary(file: Path) -> List[str]:
    """Return the entries of a fairseq dictionary in row order, the four special ones first.

    Raises:
        CheckpointError: a line is not of the form ``symbol count``.
    """
    entries = list(SPECIAL)
    for number, line in enumerate(read_lines(file, "dictionary"), 1):
        symbol, space, count = line.rstrip().rpartition(" ")
        if count == "#fairseq:overwrite":
            symbol, space, count = symbol.rpartition(" ")
        if not space or not count.lstrip("-").isdigit():
            expected = f"{line.rstrip()!r}, expected 'symbol count'"
            raise CheckpointError(f"dictionary {file}, line {number}: {expected}")
        entries.append(symbol)
    return entries


def entries_beside(file: Path) -> List[str]:
    """Return the entries of the ``dict.txt`` beside a file; empty if there is none."""
    beside = file.with_name(DICTIONARY_NAME)
    return read_dictionary(beside) if beside.is_file() else []


def check_entries(
    entries: Sequence[str], symbols: Sequence[str], origin: str, place: str, remedy: str
) -> None:
    """Compare the entries of a model with the data's dictionary, up to the shorter of them.

    Args:
        entries: entries of the model.
        symbols: entries of the data's dictionary.
        place: file that holds the entries, for messages.

    Raises:
        ValueError: an entry differs; names the first.
    """
    for index, (entry, symbol) in enumerate(zip(entries, symbols)):
        if entry != symbol:
            difference = f"{place} has {entry!r} as entry {index}, the data's dictionary {symbol!r}"
            raise ValueError(f"{origin}: {difference}; {remedy}")


def find_rows(
    symbols: Sequence[str], indices: Mapping[str, int], origin: str, whole: str, remedy: str
) -> List[int]:
    """Find the row of each symbol by its name.

    Args:
        symbols: entries of a dictionary.
        indices: entry -> row of a model.
        origin: file of ``symbols``, for messages.
        whole: file of ``indices``, for messages.

    Raises:
        ValueError: a symbol has no row; names the first.
    """
    missing = next((symbol for symbol in symbols if symbol not in indices), None)
    if missing is not None:
        raise ValueError(f"{origin}: {whole} lacks its entry {missing!r}; {remedy}")
    return [indices[symbol] for symbol in symbols]


# ---- Languages. ----


@dataclass(frozen=True)
class Languages:
    """Languages as a checkpoint states them.

    Attributes:
        listed: languages in the order of their rows; None if the checkpoint does not list them.
        file: name of a file that lists them; None if the checkpoint names none.
        style: format of a language as a dictionary entry.
    """

    listed: Optional[Tuple[str, ...]] = None
    file: Optional[str] = None
    style: str = "[{}]"

    def symbols(self, languages: Optional[Sequence[str]]) -> List[str]:
        """Return the dictionary entries of these languages."""
        return [self.style.format(language) for language in languages or ()]


def read_languages(file: Path) -> Tuple[str, ...]:
    """Read the languages of a file, one per line, in its order.

    Raises:
        CheckpointError: the file is no text or empty, or has several languages on a line or a
            language twice.
    """
    lines = [line.strip() for line in read_lines(file, "languages")]
    for number, line in enumerate(lines, 1):
        if re.search(r"[ \t,]", line):
            problem = f"line {number}: {line[:60]!r}, expected one language per line"
            raise CheckpointError(f"languages {file}, {problem}")
    return check_languages([line for line in lines if line], f"languages {file}")


def check_languages(languages: Sequence[str], origin: str) -> Tuple[str, ...]:
    """Return the languages as a tuple. Raises CheckpointError if there is none, or one twice."""
    twice = sorted({language for language in languages if languages.count(language) > 1})
    if twice or not languages:
        names = ", ".join(twice) or "none"
        raise CheckpointError(f"{origin}: {names}, expected every language once")
    return tuple(languages)


def languages_of(entries: Sequence[str], languages: Sequence[str] = ()) -> Tuple[str, ...]:
    """Return the languages among the entries of a dictionary, in their order.

    Args:
        entries: entries of a dictionary, in which languages have the form ``[en_XX]`` or
            ``__eng_Latn__``.
        languages: languages of the model, if known. The block of entries with the first of them
            then begins the languages; an entry of this form before the block is a piece of text.
    """
    codes = [_language_code(entry) for entry in entries]
    first = next((row for row, code in enumerate(codes) if code in set(languages)), 0)
    while first > 0 and codes[first - 1] is not None:
        first -= 1
    return tuple(code for code in codes[first:] if code is not None)


def _language_code(entry: str) -> Optional[str]:
    """Return ``en_XX`` for ``[en_XX]`` or ``__en_XX__``; None for any other entry."""
    match = LANGUAGE.fullmatch(entry)
    return match[1] or match[2] if match else None


# ---- Options of a checkpoint. ----


def as_dict(options: Any) -> Dict[str, Any]:
    """Return a mapping or namespace as a dictionary; empty for anything else."""
    if isinstance(options, Mapping):
        return dict(options)
    return dict(getattr(options, "__dict__", {}))


def as_list(names: Any) -> List[str]:
    """Return the names in a list, or in a text that separates them by commas; skip empty ones."""
    parts = names.split(",") if isinstance(names, str) else names or ()
    return [str(part).strip() for part in parts if str(part).strip()]


def task_options(checkpoint: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the options of the task from a checkpoint's ``cfg["task"]``; empty if it has none."""
    return as_dict(as_dict(checkpoint.get("cfg")).get("task"))


def stock_languages(
    checkpoint: Mapping[str, Any], settings: Mapping[str, Any], style: str
) -> Languages:
    """Return the languages that a fairseq checkpoint has as dictionary entries.

    They are stated by the task's state, else by the task's options, else by the model's options.

    Args:
        checkpoint: entries of the checkpoint.
        settings: options of the model.
        style: format of a language if the task does not state it.
    """
    task = task_options(checkpoint)
    options = {**settings, **task}
    style = _TASK_STYLES.get(str(options.get("lang_tok_style")), style)
    state = as_dict(checkpoint.get("task_state") or {}).get("languages")
    if isinstance(state, Mapping):  # of mBART's task; the tasks of understanding store the list
        state = state.get("langs")
    if state and isinstance(state, (list, tuple)):
        return Languages(tuple(map(str, state)), style=style)
    is_denoising = "denoising" in str(task.get("_name") or settings.get("task"))
    if is_denoising and options.get("add_lang_token") is False:
        return Languages(style=style)
    file, listed = options.get("lang_dict"), tuple(as_list(options.get("langs")))
    return Languages(listed or None, Path(str(file)).name if file else None, style)
