"""fairseq dictionaries: the entries that the rows of an embedding mean, and the languages among them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .errors import CheckpointError

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
"""The first entries of every fairseq dictionary, which its files leave out."""

PAD, MASK = "<pad>", "<mask>"
CONFIG_NAME = "config.json"
DICTIONARY_NAME = "dict.txt"
STYLES = {"mbart": "[{}]", "nllb": "__{}__"}
"""Family -> how fairseq writes a language as a dictionary entry."""


@dataclass(frozen=True)
class Languages:
    """What a model says of its languages.

    Attributes:
        listed: in the order of their rows; None where it has no list.
        guessed: those of its language pairs, as fairseq takes them where no list is given. Dictionaries often have others too, so
            that they are believed only where they explain every row.
        file: name of the list that it was trained with.
        style: how a language is written as a dictionary entry.
    """

    listed: Optional[Tuple[str, ...]] = None
    guessed: Optional[Tuple[str, ...]] = None
    file: Optional[str] = None
    style: str = "[{}]"

    def symbols(self, languages: Optional[Sequence[str]]) -> List[str]:
        """Dictionary entries of these languages."""
        return [self.style.format(language) for language in languages or ()]


def read_json(file: Path, expected: str) -> Dict[str, Any]:
    """Read a JSON object.

    Raises CheckpointError: missing, damaged or something else; ``expected`` says what the folder should hold.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"checkpoint {file.parent}: has no {file.name}; expected {expected}") from error
    except (ValueError, OSError, RecursionError) as error:
        raise CheckpointError(f"checkpoint {file}: is no readable JSON ({error})") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"checkpoint {file}: expected a JSON object, found {type(content).__name__}")
    return content


def find_dictionary(folder: Path) -> Optional[Path]:
    """``dict.txt``, or one of several equal ``dict.LANG.txt``, as releases of multilingual models have; None where there is none.

    Raises CheckpointError: dictionaries of several languages that differ.
    """
    file = folder / DICTIONARY_NAME
    if file.is_file():
        return file
    found = sorted(folder.glob("dict.*.txt"))
    for other in found[1:]:
        if other.read_bytes() != found[0].read_bytes():
            raise CheckpointError(
                f"dictionary {found[0]}: differs from {other.name} beside it; expected equal ones, or {DICTIONARY_NAME} with the "
                "entries of the encoder"
            )
    return found[0] if found else None


def read_dictionary(file: Path) -> List[str]:
    """Entries of a fairseq dictionary in row order, the four special ones first.

    Raises CheckpointError: the file is no fairseq dictionary; names the line.
    """
    entries = list(SPECIAL)
    try:
        with file.open(encoding="utf-8") as stream:
            lines = stream.readlines()
    except (OSError, UnicodeError) as error:
        raise CheckpointError(f"dictionary {file}: cannot be read ({error})") from error
    for number, line in enumerate(lines, 1):
        symbol, space, count = line.rstrip().rpartition(" ")
        if count == "#fairseq:overwrite":
            symbol, space, count = symbol.rpartition(" ")
        if not space or not count.lstrip("-").isdigit():
            raise CheckpointError(f"dictionary {file}, line {number}: {line.rstrip()!r}, expected 'symbol count'")
        entries.append(symbol)
    return entries
