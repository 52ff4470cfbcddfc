"""Systems as files: read and check ``systems/*.yaml``, and build the commands they describe."""

import shlex
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

import jsonschema
import yaml

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent / "systems"
WIDTH = 110
"""Columns that a line of a command fills."""
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML's loader in C where the library is installed, else the same in Python."""
COMMON = "common"
"""Name of the file with the options that every system shares."""
SECTIONS = ("train", "translate", "validate")
"""Parts of a file that hold options."""
SMALL, PAPER = "small", "paper"
SIZES = (SMALL, PAPER)
"""Values of SIZE: what runs on a small machine, and the settings that the papers state."""


class RecipeError(ValueError):
    """A recipe that cannot be used; the message names file, key, value and what is valid."""


class System(NamedTuple):
    """A system: the options of its commands, those of ``common.yaml`` included.

    Attributes:
        name: of its file or variant.
        title: in tables.
        starts_from: the system whose model it needs; None if it starts from random values.
        train: option of fairseq-train -> value.
        warmup: share of the updates in which the learning rate rises.
        warmup_most: largest number of these updates.
        average: number of checkpoints that are averaged.
        translate: option of fairseq-generate -> value; empty for a model that does not translate.
        validate: option of fairseq-validate -> value; empty for a model that translates.
    """

    name: str
    title: str
    starts_from: Optional[str]
    train: Mapping[str, Any]
    warmup: float
    warmup_most: Optional[int]
    average: int
    translate: Mapping[str, Any]
    validate: Mapping[str, Any]

    def warmup_updates(self, updates: int) -> int:
        """Return the warm-up of a training of ``updates`` updates, at least 1."""
        return max(1, min(round(self.warmup * updates), self.warmup_most or updates))


def read_document(path: Path, schema: str) -> Dict[str, Any]:
    """Read a YAML file and check it by its part of ``schema.yaml``.

    Raises:
        RecipeError: the file cannot be read, or has an unknown key or a wrong value.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), LOADER)
    except (OSError, yaml.YAMLError) as error:
        raise RecipeError(f"{path}: cannot be read: {error}") from error
    check(content, schema, path)
    return content


@cache
def _read_validators() -> Dict[str, Any]:
    rules = yaml.load((HERE / "schema.yaml").read_text(encoding="utf-8"), LOADER)
    return {name: jsonschema.Draft202012Validator(rule) for name, rule in rules.items()}


def check(content: Any, schema: str, path: Path) -> None:
    """Check the content of a file by its part of ``schema.yaml``.

    Raises:
        RecipeError: an unknown key or a wrong value, with file and key.
    """
    fault = find_fault(content, schema, "the file")
    if fault:
        raise RecipeError(f"{path}: {fault}")


def find_fault(content: Any, schema: str, title: str) -> str:
    """Return key and message of what breaks a part of ``schema.yaml``; empty if nothing does.

    ``title`` stands for the key if the fault is in the content as a whole.
    """
    error = jsonschema.exceptions.best_match(_read_validators()[schema].iter_errors(content))
    if error is None:
        return ""
    return f"{'.'.join(map(str, error.absolute_path)) or title}: {error.message}"


def read_system(name: str, folder: Path = FOLDER, size: str = SMALL) -> System:
    """Read the system of that name, with the options of ``common.yaml``.

    Args:
        name: of a file or variant.
        folder: of the files.
        size: one of :data:`SIZES`.

    Raises:
        RecipeError: no such name, an unknown key, a value of another type, or no such size.
    """
    content = _merge_chain(name, folder, size)
    common = read_document(folder / f"{COMMON}.yaml", "system")
    sections: Dict[str, Any] = {kind: {} for kind in SECTIONS}
    for kind in SECTIONS:
        if content[kind]:
            sections[kind] = {**common[kind], **content[kind]}
    return System(
        name=name,
        title=content["title"],
        starts_from=content.get("starts_from"),
        warmup=content.get("warmup", 0.0),
        warmup_most=content.get("warmup_most"),
        average=content.get("average", 1),
        **sections,
    )


def read_limits(name: str, folder: Path = FOLDER, size: str = SMALL) -> Optional[Dict[str, Any]]:
    """Return the limits of a training that the paper states; None if it states none."""
    limits: Optional[Dict[str, Any]] = _merge_chain(name, folder, size).get("limits")
    return limits


def find(name: str, folder: Path, schema: str) -> Tuple[Path, Dict[str, Any]]:
    """Return path and content of a file or of a variant; a variant is ``like`` its file.

    Raises:
        RecipeError: neither a file nor a variant has that name.
    """
    path = folder / f"{name}.yaml"
    if path.is_file() and name != COMMON:
        return path, read_document(path, schema)
    for path in _list_files(folder):
        if name in _list_variants(path):
            return path, {"like": path.stem, **read_document(path, schema)["variants"][name]}
    valid = ", ".join(list_names(folder))
    raise RecipeError(f"{schema} {name}: no such file or variant in {folder}; valid: {valid}")


def list_names(folder: Path) -> List[str]:
    """List the names of all files and variants of a folder.

    Raises:
        RecipeError: a name that occurs twice.
    """
    names: List[str] = []
    for path in _list_files(folder):
        names += [path.stem, *_list_variants(path)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        valid = "valid: one file or variant per name"
        raise RecipeError(f"{folder}: {', '.join(twice)}: named twice; {valid}")
    return sorted(names)


def _list_files(folder: Path) -> List[Path]:
    return [path for path in sorted(folder.glob("*.yaml")) if path.stem != COMMON]


def _list_variants(path: Path) -> List[str]:
    """List the variants of a file; a file that cannot be read has none."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), LOADER)
    except (OSError, yaml.YAMLError):
        return []
    return list(content.get("variants") or {}) if isinstance(content, dict) else []


def read_chain(name: str, folder: Path, schema: str) -> List[Dict[str, Any]]:
    """Read an entry and all entries that it is ``like``, the most general one first.

    Raises:
        RecipeError: an unknown name, or a circle.
    """
    entries: List[Dict[str, Any]] = []
    visited: List[str] = []
    while name:
        path, entry = find(name, folder, schema)
        visited.append(name)
        name = entry.pop("like", None) or ""
        entry.pop("variants", None)
        entries.insert(0, entry)
        if name in visited:
            raise RecipeError(f"{path}: like: {name}: goes round in a circle")
    return entries


def _merge_chain(name: str, folder: Path, size: str) -> Dict[str, Any]:
    """Merge a system with those it is like, each before its own section ``paper``.

    Raises:
        RecipeError: the system has no paper size.
    """
    check_size(size)
    merged: Dict[str, Any] = {kind: {} for kind in SECTIONS}
    absent = f"valid: {SMALL}"
    for entry in read_chain(name, folder, "system"):
        paper = entry.pop("paper", None)
        merged = _merge_entry(merged, entry)
        if size == PAPER and paper is not None:
            absent = paper.get("absent", "")
            merged = _merge_entry(merged, {} if absent else paper)
    if size == PAPER and absent:
        raise RecipeError(f"system {name}: SIZE {PAPER}: {absent}")
    return merged


def _merge_entry(merged: Dict[str, Any], entry: Mapping[str, Any]) -> Dict[str, Any]:
    """Merge a system's entry option by option; ``section: {}`` empties a section."""
    sections = {kind: {**merged[kind], **entry.get(kind, {})} for kind in SECTIONS}
    sections.update({kind: {} for kind in SECTIONS if entry.get(kind) == {}})
    return {**merged, **entry, **sections}


def check_size(size: str) -> None:
    """Raise RecipeError unless ``size`` is one of :data:`SIZES`."""
    if size not in SIZES:
        raise RecipeError(f"SIZE {size}: valid: {', '.join(SIZES)}")


def command(program: str, options: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """Build a command line for bash, in lines of moderate width.

    Args:
        program: the command with what comes before the options.
        options: name -> value, in which ``$NAME`` stands for one of ``values``. True is an option
            without a value; None and False leave the option out.
        values: name -> what ``$NAME`` stands for.

    Raises:
        RecipeError: a ``$NAME`` without a value.
    """
    lines = [program]
    for name, option in options.items():
        if option is None or option is False:
            continue
        word = f"--{name}"
        if option is not True:
            try:
                word += f" {shlex.quote(Template(str(option)).substitute(values))}"
            except (KeyError, ValueError) as error:
                valid = f"valid: ${', $'.join(values)}"
                raise RecipeError(f"--{name} {option}: {error} has no value; {valid}") from error
        if len(lines[-1]) + len(word) < WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(f"  {word}")
    return " \\\n".join(lines)
