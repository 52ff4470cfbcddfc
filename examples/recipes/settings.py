"""Settings of one translator: the user's two files, and what follows from them."""

import json
import re
from pathlib import Path
from typing import Any, Dict, Mapping, NamedTuple, Optional, Set, Tuple

import jsonschema
import yaml

from data_prep.files import sha256

from .systems import HERE, RecipeError

LEAST_LINES = 1000
HELD_OUT = 1000
"""Lines for validation and for the test at most; a twentieth of a small text."""

TOKENIZERS = {"zh": "zh", "ja": "char", "th": "char", "km": "char", "lo": "char", "my": "char"}
"""sacreBLEU's, for languages that are written without spaces."""


class Settings(NamedTuple):
    """What one run makes.

    Attributes:
        source_file, target_file: the text, line by line.
        source, target: languages, the endings of the two files.
        lines: of the text.
        characters: different ones in both files together.
        hours: budget of everything, in hours of wall time.
        seed: of the trainings.
        masked_lm: folder of a pretrained model with its pieces and dictionary; None where one is trained.
    """

    source_file: Path
    target_file: Path
    source: str
    target: str
    lines: int
    characters: int
    hours: float
    seed: int
    masked_lm: Optional[Path]

    @property
    def held_out(self) -> float:
        """Share of the lines for validation, and for the test."""
        return min(0.05, HELD_OUT / self.lines)

    @property
    def vocabulary(self) -> int:
        """Pieces of both languages together, where they are learned here; scripts of many characters need more."""
        return max(1000, min(8000, self.lines // 5), 2 * self.characters)

    @property
    def tokenizer(self) -> str:
        """sacreBLEU's tokenizer of the target language."""
        return TOKENIZERS.get(self.target.split("_")[0].split("-")[0], "13a")

    def record(self) -> Dict[str, Any]:
        """What a folder is made of, for its ``settings.json``: the text by its hash, so that it may move."""
        text = [sha256(path) for path in (self.source_file, self.target_file)]
        values = {"SRC": [self.source, text[0]], "TGT": [self.target, text[1]], "SEED": self.seed}
        return {**values, "MLM": str(self.masked_lm or "")}


def check_folder(run: Settings, folder: Path) -> None:
    """Raise RecipeError where a folder was begun with other settings: what is finished there would be taken for this run's."""
    file, plan = folder / "settings.json", folder / "plan.json"
    if not file.is_file():
        return
    begun, asked = json.loads(file.read_text(encoding="utf-8")), run.record()
    if plan.is_file():  # until the hours are divided, others may be given
        begun["HOURS"], asked["HOURS"] = json.loads(plan.read_text(encoding="utf-8"))["hours"], run.hours
    other = [f"{name} {begun.get(name)}" for name in asked if begun.get(name) != asked[name]]
    if other:
        raise RecipeError(
            f"OUT {folder.resolve()}: was begun with {', '.join(other)}; valid: the same settings, or a new folder"
        )


def read_settings(config: Mapping[str, Any]) -> Settings:
    """Check what the user gave. Raises RecipeError, naming the setting, the value and what is valid."""
    given: Dict[str, Any] = {name: value for name, value in config.items() if value not in (None, "")}
    rules = yaml.safe_load((HERE / "schema.yaml").read_text(encoding="utf-8"))["translator"]
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(rules).iter_errors(given))
    if error is not None:
        raise RecipeError(f"{'.'.join(map(str, error.absolute_path)) or 'settings'}: {error.message}")
    source, target = Path(given["source"]), Path(given["target"])
    (lines, characters), (others, more) = (_text(name, path) for name, path in (("SRC", source), ("TGT", target)))
    if lines != others:
        raise RecipeError(
            f"SRC {source} has {lines:,} lines, TGT {target} {others:,}; valid: line i of each belongs together"
        )
    if lines < LEAST_LINES:
        raise RecipeError(f"SRC {source}: {lines:,} lines; valid: {LEAST_LINES:,} at least")
    languages = [path.suffix[1:] for path in (source, target)]
    if languages[0] == languages[1] or not all(re.fullmatch(r"\w+", name) for name in languages):
        raise RecipeError(
            f"SRC {source}, TGT {target}: the languages are the endings of the files, here {languages[0] or 'none'} and "
            f"{languages[1] or 'none'}; valid: two different ones of letters, digits and _, as my.en and my.cs"
        )
    masked_lm = Path(given["masked_lm"]) if "masked_lm" in given else None
    for name in ("sentencepiece.bpe.model", "dict.txt") if masked_lm else ():
        if not (masked_lm / name).is_file():
            raise RecipeError(
                f"MLM {masked_lm}: no {name} there; valid: the folder of a masked LM with its pieces and dictionary"
            )
    return Settings(
        source, target, *languages, lines, len(characters | more), float(given["hours"]), given["seed"], masked_lm
    )


def _text(name: str, path: Path) -> Tuple[int, Set[str]]:
    """Number of lines, and the characters that occur; what is not UTF-8 is named when the text is cleaned."""
    if not path.is_file():
        raise RecipeError(f"{name} {path}: no such file")
    lines, characters = 0, set()
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        for line in file:
            lines += 1
            characters.update(line)
    return lines, characters
