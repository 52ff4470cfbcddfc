"""What the rows of an embedding mean: by a fairseq dictionary, the tokenizer's files, and what a model says of its languages."""

import json
import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .inspection import CheckpointError

logger = logging.getLogger(__name__)

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
"""The first entries of every fairseq dictionary, which its files leave out."""

PAD, MASK = "<pad>", "<mask>"
CONFIG_NAME = "config.json"
DICTIONARY_NAME = "dict.txt"
LIST_NAME = "ML50_langs.txt"
"""List of languages, one per line, in the folder of a released mBART-50."""

STYLES = {"mbart": "[{}]", "nllb": "__{}__"}
"""Family -> how fairseq writes a language as a dictionary entry."""

_TASK_STYLES = {"mbart": "[{}]", "multilingual": "__{}__"}
_CODE = r"[a-z]{2,3}(?:_(?:[A-Z]{2}|[A-Z][a-z]{3}))?"
LANGUAGE = re.compile(rf"\[({_CODE})\]|__({_CODE})__")


def read_json(file: Path, expected: str) -> Dict[str, Any]:
    """Read a JSON object. CheckpointError: missing (the folder should hold what is ``expected``), damaged or something else."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"checkpoint {file.parent}: has no {file.name}; expected {expected}") from error
    except (ValueError, OSError, RecursionError) as error:
        raise CheckpointError(f"checkpoint {file}: is no readable JSON ({error})") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"checkpoint {file}: expected a JSON object, found {type(content).__name__}")
    return content


def read_lines(file: Path, kind: str) -> List[str]:
    """Lines without their ends. Raises CheckpointError: unreadable, or no UTF-8."""
    try:
        with file.open(encoding="utf-8") as stream:
            return [line.rstrip("\n") for line in stream]
    except (OSError, UnicodeError) as error:
        raise CheckpointError(f"{kind} {file}: cannot be read ({error})") from error


def find_dictionary(folder: Path, checkpoint: Mapping[str, Any]) -> Optional[Path]:
    """``dict.txt``, or one of several ``dict.LANG.txt``, which must be equal (CheckpointError); None where there is none.

    Looked for in the ``folder``, then in the data folder that a fairseq ``checkpoint`` was trained on, if it is still there.
    """
    data = task_options(checkpoint).get("data") or getattr(checkpoint.get("args"), "data", None)
    for place in (folder, *([Path(str(data).split(os.pathsep)[0])] if data else [])):
        file = place / DICTIONARY_NAME
        found = [file] if file.is_file() else sorted(place.glob("dict.*.txt"))
        for other in found[1:]:
            if other.read_bytes() != found[0].read_bytes():
                raise CheckpointError(
                    f"dictionary {found[0]}: differs from {other.name}; expected equal ones, or {DICTIONARY_NAME}"
                )
        if found:
            return found[0]
    return None


def read_dictionary(file: Path) -> List[str]:
    """Entries of a fairseq dictionary in row order, the four special ones first. CheckpointError names a line that is none."""
    entries = list(SPECIAL)
    for number, line in enumerate(read_lines(file, "dictionary"), 1):
        symbol, space, count = line.rstrip().rpartition(" ")
        if count == "#fairseq:overwrite":
            symbol, space, count = symbol.rpartition(" ")
        if not space or not count.lstrip("-").isdigit():
            raise CheckpointError(f"dictionary {file}, line {number}: {line.rstrip()!r}, expected 'symbol count'")
        entries.append(symbol)
    return entries


def entries_beside(file: Path) -> List[str]:
    """Entries of the ``dict.txt`` beside a file; empty where there is none."""
    beside = file.with_name(DICTIONARY_NAME)
    return read_dictionary(beside) if beside.is_file() else []


def check_entries(own: Sequence[str], found: Sequence[str], origin: str, where: str, remedy: str) -> None:
    """Raise ValueError for the first entry of a model that differs from that of the data's dictionary, as far as both go."""
    for index, (ours, theirs) in enumerate(zip(own, found)):
        if ours != theirs:
            raise ValueError(
                f"{origin}: {where} has {ours!r} as entry {index}, the data's dictionary {theirs!r}; {remedy}"
            )


def read_languages(file: Path) -> Tuple[str, ...]:
    """Languages of a file, one per line, in its order. Raises CheckpointError: no text, none, several on a line, or one twice."""
    lines = [line.strip() for line in read_lines(file, "languages")]
    for number, line in enumerate(lines, 1):
        if any(sign in line for sign in " \t,"):
            raise CheckpointError(f"languages {file}, line {number}: {line[:60]!r}, expected one language per line")
    return checked([line for line in lines if line], f"languages {file}")


def checked(languages: Sequence[str], origin: str) -> Tuple[str, ...]:
    """The languages; CheckpointError where there is none, or one twice."""
    twice = sorted({language for language in languages if languages.count(language) > 1})
    if twice or not languages:
        raise CheckpointError(f"{origin}: {', '.join(twice) or 'none'}, expected every language once")
    return tuple(languages)


@dataclass(frozen=True)
class Languages:
    """What a model says of its languages: a list in the order of their rows, the name of a list's file, and how entries look."""

    listed: Optional[Tuple[str, ...]] = None
    file: Optional[str] = None
    style: str = "[{}]"

    def symbols(self, languages: Optional[Sequence[str]]) -> List[str]:
        """Dictionary entries of these languages."""
        return [self.style.format(language) for language in languages or ()]


def as_dict(value: Any) -> Dict[str, Any]:
    """A mapping or namespace as a dictionary; empty for None."""
    if value is None:
        return {}
    return dict(value) if isinstance(value, Mapping) else dict(vars(value))


def task_options(checkpoint: Mapping[str, Any]) -> Dict[str, Any]:
    """Options of the task, from a checkpoint's ``cfg["task"]``; empty when absent."""
    return as_dict(as_dict(checkpoint.get("cfg")).get("task"))


def stock_languages(checkpoint: Mapping[str, Any], settings: Mapping[str, Any], style: str) -> Languages:
    """Languages that a fairseq checkpoint has as dictionary entries, by its task's options and state, then by the model's.

    ``settings``: options of the model. ``style``: how a language is written, where the task does not say.
    """
    task = task_options(checkpoint)
    options = {**settings, **task}
    style = _TASK_STYLES.get(str(options.get("lang_tok_style")), style)
    kept = as_dict(checkpoint.get("task_state") or {}).get("languages")
    if isinstance(kept, Mapping):  # of mBART's task; those of understanding keep the list alone
        kept = kept.get("langs")
    if kept and isinstance(kept, (list, tuple)):
        return Languages(tuple(map(str, kept)), style=style)
    denoising = "denoising" in str(task.get("_name") or settings.get("task"))
    if denoising and options.get("add_lang_token") is False:
        return Languages(style=style)
    file, listed = options.get("lang_dict"), tuple(as_list(options.get("langs")))
    return Languages(listed or None, Path(str(file)).name if file else None, style)


def as_list(value: Any) -> List[str]:
    value = value.split(",") if isinstance(value, str) else value or ()
    return [str(item).strip() for item in value if str(item).strip()]


def languages_of(entries: Sequence[str], known: Sequence[str] = ()) -> Tuple[str, ...]:
    """Languages that are entries of a dictionary (``[en_XX]`` or ``__eng_Latn__``), in their order.

    ``known``: of a model; what looks like a language earlier in the dictionary and apart from these counts as a piece.
    """
    matches = [LANGUAGE.fullmatch(entry) for entry in entries]
    codes = [match and (match.group(1) or match.group(2)) for match in matches]
    first = next((index for index, code in enumerate(codes) if code in set(known)), 0)
    while first > 0 and codes[first - 1] is not None:
        first -= 1
    return tuple(code for code in codes[first:] if code is not None)
