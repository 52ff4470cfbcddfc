"""Systems as files: reading and checking ``systems/*.yaml``, and the command lines that they stand for."""

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
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same in C where the library is there
COMMON = "common"
"""The file with what every system shares."""
SECTIONS = ("train", "translate", "validate")
"""Parts of a file that hold options."""


class RecipeError(ValueError):
    """A recipe that cannot be used; the message names the file, the key, the value and what is valid."""


class System(NamedTuple):
    """A system: the options of its commands, those of ``common.yaml`` included.

    Attributes:
        name: of its file.
        title: in tables.
        starts_from: the system whose model it needs; None where it starts from random values.
        train: option of fairseq-train -> value.
        warmup: share of the updates in which the rate rises, ``warmup_most`` updates at most.
        average: number of checkpoints that are averaged.
        translate: option of fairseq-generate -> value; empty for a model that does not translate.
        validate: option of fairseq-validate -> value; empty for one that does.
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
        """Updates of the warm-up in a training of so many, 1 at least."""
        return max(1, min(round(self.warmup * updates), self.warmup_most or updates))


def read_document(path: Path, schema: str) -> Dict[str, Any]:
    """Read a YAML file and check it by its part of ``schema.yaml``. Raises RecipeError, naming file, key and value."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), LOADER)
    except (OSError, yaml.YAMLError) as error:
        raise RecipeError(f"{path}: cannot be read: {error}") from error
    check(content, schema, path)
    return content


@cache
def _validators() -> Dict[str, Any]:
    rules = yaml.load((HERE / "schema.yaml").read_text(encoding="utf-8"), LOADER)
    return {schema: jsonschema.Draft202012Validator(one) for schema, one in rules.items()}


def check(content: Any, schema: str, path: Path) -> None:
    """Check what a file says by its part of ``schema.yaml``. Raises RecipeError, naming file, key and value."""
    error = jsonschema.exceptions.best_match(_validators()[schema].iter_errors(content))
    if error is not None:
        key = ".".join(map(str, error.absolute_path)) or "the file"
        raise RecipeError(f"{path}: {key}: {error.message}")


def read_system(name: str, folder: Path = FOLDER) -> System:
    """The system of that name. Raises RecipeError: no such file, or an unknown key or a value of another type in it."""
    content = _merged(name, folder)
    common = read_document(folder / f"{COMMON}.yaml", "system")
    sections = {kind: {**common[kind], **content[kind]} if content.get(kind) else {} for kind in SECTIONS}
    sizes = content.get("warmup", 0.0), content.get("warmup_most"), content.get("average", 1)
    return System(
        name,
        content["title"],
        content.get("starts_from"),
        sections["train"],
        *sizes,
        sections["translate"],
        sections["validate"],
    )


def find(name: str, folder: Path, schema: str) -> Tuple[Path, Dict[str, Any]]:
    """Path and content of a file, or of a variant, which is ``like`` its file. Raises RecipeError: no such name."""
    path = folder / f"{name}.yaml"
    if path.is_file() and name != COMMON:
        return path, read_document(path, schema)
    for path in (one for one in _files(folder) if name in (_raw(one).get("variants") or {})):
        return path, {"like": path.stem, **read_document(path, schema)["variants"][name]}
    raise RecipeError(f"{schema} {name}: no such file or variant in {folder}; valid: {', '.join(names(folder))}")


def names(folder: Path) -> List[str]:
    """Every name of a folder, of files and of variants. Raises RecipeError: one that is there twice."""
    files = _files(folder)
    found = sorted(
        [path.stem for path in files] + [name for path in files for name in _raw(path).get("variants") or {}]
    )
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice:
        raise RecipeError(f"{folder}: {', '.join(twice)}: named twice; valid: one file or one variant of a name")
    return found


def _files(folder: Path) -> List[Path]:
    return [path for path in sorted(folder.glob("*.yaml")) if path.stem != COMMON]


def _raw(path: Path) -> Dict[str, Any]:
    """A file that may be none of the schema; what cannot be read has no variants."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), LOADER)
    except (OSError, yaml.YAMLError):
        return {}
    return content if isinstance(content, dict) else {}


def chain(name: str, folder: Path, schema: str) -> List[Dict[str, Any]]:
    """The entry of that name after those that it is ``like``, the first of them at the beginning. Raises RecipeError: a circle."""
    found: List[Dict[str, Any]] = []
    before: List[str] = []
    while name:
        path, own = find(name, folder, schema)
        before.append(name)
        found.insert(0, {key: value for key, value in own.items() if key not in ("like", "variants")})
        name = own.get("like") or ""
        if name in before:
            raise RecipeError(f"{path}: like: {name}: goes round in a circle")
    return found


def _merged(name: str, folder: Path) -> Dict[str, Any]:
    """A system's file on top of the one that it is like."""
    merged: Dict[str, Any] = {}
    for own in chain(name, folder, "system"):
        sections = {
            kind: {} if own.get(kind) == {} else {**merged.get(kind, {}), **own.get(kind, {})} for kind in SECTIONS
        }
        merged = {**merged, **own, **sections}
    return merged


def command(program: str, options: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """A command line for bash, in lines of moderate width.

    Args:
        program: the command with what comes before the options.
        options: name -> value, where ``$NAME`` stands for a value below; True is an option alone, None and False leave it out.
        values: what ``$NAME`` stands for.

    Raises RecipeError: a ``$NAME`` that is not among the values.
    """
    lines = [program]
    for name, value in options.items():
        if value is None or value is False:
            continue
        word = f"--{name}"
        if value is not True:
            try:
                word += f" {shlex.quote(Template(str(value)).substitute(values))}"
            except (KeyError, ValueError) as error:
                raise RecipeError(f"--{name} {value}: {error} has no value; valid: ${', $'.join(values)}") from error
        if len(lines[-1]) + len(word) < WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(f"  {word}")
    return " \\\n".join(lines)
