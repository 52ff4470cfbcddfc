"""Settings of one translator: the user's two files, and what follows from them."""

import json
import re
from pathlib import Path
from typing import Any, Dict, Mapping, NamedTuple, Optional, Set, Tuple

from data_prep.files import sha256

from .systems import RecipeError, find_fault

LEAST_LINES = 1000
HELD_OUT = 1000
"""Largest number of lines for validation, and for the test."""
HELD_OUT_SHARE = 0.05
"""Largest share of the lines for validation, and for the test."""
TOKENIZERS = {"zh": "zh", "ja": "char", "th": "char", "km": "char", "lo": "char", "my": "char"}
"""sacreBLEU's tokenizers of languages that are written without spaces."""


class Settings(NamedTuple):
    """Settings of one run.

    Attributes:
        source_file: the text, line by line.
        target_file: its translation, line by line.
        source: language of the text, the ending of its file.
        target: language of the translation.
        lines: number of lines of each file.
        characters: number of different characters in both files together.
        hours: budget of everything, in hours of wall time.
        seed: of the trainings.
        masked_lm: folder of a pretrained model with pieces and dictionary; None if one is trained.
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
        """Return the share of the lines for validation, and for the test."""
        return min(HELD_OUT_SHARE, HELD_OUT / self.lines)

    @property
    def vocabulary(self) -> int:
        """Return the number of pieces to learn; scripts of many characters need more."""
        return max(1000, min(8000, self.lines // 5), 2 * self.characters)

    @property
    def tokenizer(self) -> str:
        """Return sacreBLEU's tokenizer of the target language."""
        return TOKENIZERS.get(re.split("[_-]", self.target)[0], "13a")

    def record(self) -> Dict[str, Any]:
        """Return the content of ``settings.json``, with hashes of the texts instead of paths."""
        files = (self.source_file, self.target_file)
        hashes = [sha256(path) for path in files]
        return {
            "SRC": [self.source, hashes[0]],
            "TGT": [self.target, hashes[1]],
            "SEED": self.seed,
            "MLM": str(self.masked_lm or ""),
        }


def check_folder(run: Settings, folder: Path) -> None:
    """Compare the settings with those that a folder was begun with.

    The hours are compared as soon as a plan divides them.

    Raises:
        RecipeError: the settings differ, so the finished steps in the folder are of another run.
    """
    file, plan = folder / "settings.json", folder / "plan.json"
    if not file.is_file():
        return
    recorded, current = json.loads(file.read_text(encoding="utf-8")), run.record()
    if plan.is_file():
        recorded["HOURS"] = json.loads(plan.read_text(encoding="utf-8"))["hours"]
        current["HOURS"] = run.hours
    names = [name for name in current if recorded.get(name) != current[name]]
    if names:
        differences = ", ".join(f"{name} {recorded.get(name)}" for name in names)
        valid = "valid: the same settings, or a new folder"
        raise RecipeError(f"OUT {folder.resolve()}: was begun with {differences}; {valid}")


def read_settings(config: Mapping[str, Any]) -> Settings:
    """Check the user's settings.

    Raises:
        RecipeError: a setting that is missing or wrong; names it, its value and what is valid.
    """
    entries = {name: config[name] for name in config if config[name] not in (None, "")}
    fault = find_fault(entries, "translator", "settings")
    if fault:
        raise RecipeError(fault)
    source, target = Path(entries["source"]), Path(entries["target"])
    lines, characters = _read_text("SRC", source)
    target_lines, target_characters = _read_text("TGT", target)
    if lines != target_lines:
        counts = f"SRC {source} has {lines:,} lines, TGT {target} {target_lines:,}"
        raise RecipeError(f"{counts}; valid: line i of each belongs together")
    if lines < LEAST_LINES:
        raise RecipeError(f"SRC {source}: {lines:,} lines; valid: {LEAST_LINES:,} at least")
    _check_languages(source, target)
    masked_lm = Path(entries["masked_lm"]) if "masked_lm" in entries else None
    _check_masked_lm(masked_lm)
    return Settings(
        source_file=source,
        target_file=target,
        source=source.suffix[1:],
        target=target.suffix[1:],
        lines=lines,
        characters=len(characters | target_characters),
        hours=float(entries["hours"]),
        seed=entries["seed"],
        masked_lm=masked_lm,
    )


def _check_languages(source: Path, target: Path) -> None:
    """Raise RecipeError unless the endings of the files are two languages."""
    languages = [path.suffix[1:] for path in (source, target)]
    are_names = all(re.fullmatch(r"\w+", language) for language in languages)
    if languages[0] == languages[1] or not are_names:
        first, second = (language or "none" for language in languages)
        raise RecipeError(
            f"SRC {source}, TGT {target}: the languages are the endings of the files, here "
            f"{first} and {second}; valid: two different ones of letters, digits and _, as my.en "
            "and my.cs"
        )


def _check_masked_lm(folder: Optional[Path]) -> None:
    """Raise RecipeError where the folder of a pretrained model lacks pieces or dictionary."""
    for name in ("sentencepiece.bpe.model", "dict.txt") if folder else ():
        if not (folder / name).is_file():
            valid = "valid: the folder of a masked LM with its pieces and dictionary"
            raise RecipeError(f"MLM {folder}: no {name} there; {valid}")


def _read_text(name: str, path: Path) -> Tuple[int, Set[str]]:
    """Return the number of lines and the set of characters; a later step refuses invalid UTF-8."""
    if not path.is_file():
        raise RecipeError(f"{name} {path}: no such file")
    lines, characters = 0, set()
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        for line in file:
            lines += 1
            characters.update(line)
    return lines, characters
