"""``python -m fairseq_plugins``, or ``python path/to/fairseq_plugins``: the ``--user-dir`` path and the versions.

``python -m fairseq_plugins options`` prints the reference of all options that the package adds;
``python -m fairseq_plugins translate MODEL`` translates text (``translate.py``); ``python -m fairseq_plugins export MODEL FOLDER``
writes a model for other programs (``export/``).
"""

import argparse
import importlib
import importlib.metadata
import platform
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

FOLDER = Path(__file__).resolve().parent
TRANSLATE, EXPORT = "translate", "export"
COMMANDS = {TRANSLATE: "translate", EXPORT: "export.command"}
"""What takes a command line of its own, and the module below the package that reads it."""
DISTRIBUTIONS = ("torch", "numpy", "sentencepiece", "sacrebleu", "fastBPE", "safetensors")
"""Whose versions are printed beside fairseq's, which two distributions bring."""


def load_package() -> ModuleType:
    """Import this folder as a package, also where Python was given the folder itself."""
    if not __package__:
        sys.path[0] = str(FOLDER.parent)  # Python put the folder itself there: "data", "tasks" would be top-level names
    return importlib.import_module(__package__ or FOLDER.name)


def installed_version(*names: str) -> str:
    """Version of the first of the distributions that is installed, with its name where several could be."""
    for name in names:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        return version if len(names) == 1 else f"{version} ({name})"
    return "not installed"


def ours(registry: Mapping[str, Any], package: str) -> List[str]:
    """Names in a fairseq registry whose class is defined in ``package``."""
    return sorted(name for name, entry in registry.items() if entry.__module__.split(".")[0] == package)


def report(package: ModuleType) -> str:
    """The text that is printed: path, versions, registered names and the patches applied to this fairseq."""
    compat = importlib.import_module(f"{package.__name__}.compat")
    rows = [
        ("--user-dir", str(FOLDER)),
        ("fairseq_plugins", getattr(package, "__version__", "unknown")),
        ("Python", platform.python_version()),
        ("fairseq", installed_version("fairseq-fixed", "fairseq")),
        *((name, installed_version(name)) for name in DISTRIBUTIONS),
        *((option, ", ".join(names)) for option, names in registered(package.__name__).items()),
        ("compat patches", ", ".join(compat.applied()) or "none"),
        ("switched off", ", ".join(sorted(compat.disabled())) or "none"),
    ]
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name:<{width}}  {value}\n" for name, value in rows)


class Option(NamedTuple):
    """One option that the package adds to fairseq's; ``default`` is that of each architecture where they differ."""

    where: str  # kind and registered name, as in "model sga"
    name: str  # attribute of the configuration, as in "prompt_length"
    flag: str  # what is typed, as in "--prompt-length"; the name itself where it is positional
    kind: str  # its type or choices
    default: str
    help: str


def registrations(package: str) -> Iterator[Tuple[str, str, Any, Any]]:
    """(kind, name, class, dataclass or None) of everything that ``package`` registered with fairseq, each class once."""
    from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
    from fairseq.registry import REGISTRIES
    from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY

    kinds = {"task": (TASK_REGISTRY, TASK_DATACLASS_REGISTRY), "model": (MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY)}
    kinds.update({kind: (entry["registry"], entry["dataclass_registry"]) for kind, entry in REGISTRIES.items()})
    for kind, (registry, dataclasses) in kinds.items():
        for name in ours(registry, package):
            yield kind, name, registry[name], dataclasses.get(name)


def registered(package: str) -> Dict[str, List[str]]:
    """Names that ``package`` registered, by the fairseq option that takes them."""
    from fairseq.models import ARCH_MODEL_REGISTRY

    found = {"--task": [], "--arch": ours(ARCH_MODEL_REGISTRY, package)}
    for kind, name, _, _ in registrations(package):
        if kind != "model":
            found.setdefault(f"--{kind}", []).append(name)
    return found


def options(package: str) -> List[Option]:
    """Every option that is declared in ``package``; what its classes inherit from fairseq is fairseq's."""
    found = []
    for kind, name, cls, dataclass in registrations(package):
        architectures = _architectures(name, cls) if kind == "model" else {}
        for action in _actions(cls, dataclass, package):
            defaults = {arch: values.get(action.dest, action.default) for arch, values in architectures.items()}
            flag = action.option_strings[0] if action.option_strings else action.dest
            text = " ".join((action.help or "").replace("%%", "%").split())
            shown = _shown_default(action, defaults)
            found.append(Option(f"{kind} {name}", action.dest, flag, _shown_type(action), shown, text))
    return found


def _actions(cls: Any, dataclass: Any, package: str) -> List[argparse.Action]:
    """What ``package`` itself adds to the parser for a class, by a dataclass or by ``add_args``."""
    from fairseq.dataclass.utils import gen_parser_from_dataclass

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    if dataclass is not None:
        gen_parser_from_dataclass(parser, dataclass())
        bases = [base for base in dataclass.__mro__ if base.__module__.split(".")[0] == package]
        declared = {name for base in bases for name in vars(base).get("__annotations__", {})}
        return [action for action in parser._actions if action.dest in declared]
    stock = next(base for base in cls.__mro__ if base.__module__.split(".")[0] != package)
    inherited = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for owner, target in ((cls, parser), (stock, inherited)):
        if hasattr(owner, "add_args"):
            owner.add_args(target)
    known = {action.dest for action in inherited._actions}
    return [action for action in parser._actions if action.dest not in known]


def _architectures(model: str, cls: Any) -> Dict[str, Dict[str, Any]]:
    """Architecture -> the values that it gives. What ``build_model`` itself fills in stands in ``ARCHITECTURES``."""
    from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_INV_REGISTRY

    found = {}
    for arch in ARCH_MODEL_INV_REGISTRY.get(model, []):
        values = argparse.Namespace(**getattr(sys.modules[cls.__module__], "ARCHITECTURES", {}).get(arch, {}))
        if arch in ARCH_CONFIG_REGISTRY:
            ARCH_CONFIG_REGISTRY[arch](values)
        if arch != model or vars(values):
            found[arch] = vars(values)
    return found


def _shown_type(action: argparse.Action) -> str:
    if action.choices is not None:
        return ", ".join(f"`{choice}`" for choice in action.choices)
    if action.nargs == 0:
        return "flag" if action.const is not False else "flag that turns it off"
    name = getattr(action.type, "__name__", "str")
    return {"<lambda>": "list", "eval_bool": "bool"}.get(name, name)


def _shown_default(action: argparse.Action, defaults: Mapping[str, Any]) -> str:
    """The default, or each architecture's."""

    def show(value: Any) -> str:
        return {None: "none", "": "empty"}.get(value) or f"`{value}`"

    if action.required:
        return "required"
    if len(set(map(str, defaults.values()))) <= 1:
        return show(next(iter(defaults.values()), action.default))
    return ", ".join(f"{arch} {show(value)}" for arch, value in defaults.items())


HEADING = """# Options

What this package adds to fairseq's own options. In a YAML for `fairseq-hydra-train` the names have underscores and no
dashes in front.

Architectures (`--arch`); a model's own name is one too, with the defaults below or the sizes of a given file:
"""


def reference(package: str) -> str:
    """Every option of the package, as a Markdown table; a row for those of several tasks or models that are the same."""
    lines, rows = [HEADING], {}  # type: List[str], Dict[Tuple[str, ...], List[str]]
    for kind, name, cls, _ in registrations(package):
        if kind == "model":
            lines.append(f"- `{name}`: {', '.join(f'`{arch}`' for arch in _architectures(name, cls))}")
    lines += ["", "| option | where | type or choices | default | what it does |", "|---|---|---|---|---|"]
    for option in options(package):
        rows.setdefault((f"`{option.flag}`", option.kind, option.default, option.help), []).append(option.where)
    for (flag, *rest), where in rows.items():
        cells = (flag, ", ".join(where), *rest)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def patches(package: str) -> str:
    """What is patched in fairseq, where the defect is found, as a Markdown table."""
    known = sys.modules[f"{package}.compat"].PATCHES
    cells = [(f"`{patch.name}`", patch.reason, patch.upstream) for patch in known]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]
    return "\n".join(["| patch | defect | upstream |", "|---|---|---|", *lines]) + "\n"


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Print the report, or only the path, or a reference; or translate or export."""
    line = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="python -m fairseq_plugins", description="Path, versions, registered names.")
    parser.add_argument(
        "what",
        nargs="?",
        choices=["options", "patches", *COMMANDS],
        help="options: print the reference of all options (Markdown); patches: what is patched in fairseq (Markdown); "
        f"{TRANSLATE} MODEL: text to text; {EXPORT} MODEL FOLDER: for other programs; both "
        "have --help",
    )
    parser.add_argument("--path", action="store_true", help="print only what to give as --user-dir")
    args = parser.parse_args(line[:1] if line and line[0] in COMMANDS else line)
    if args.path:
        sys.stdout.write(f"{FOLDER}\n")
        return
    try:
        package = load_package()
    except ImportError as error:
        sys.exit(f"fairseq_plugins cannot be imported: {error}. Install what setup.py lists, or run `make install`.")
    if args.what in COMMANDS:
        sys.exit(importlib.import_module(f"{package.__name__}.{COMMANDS[args.what]}").main(line[1:]))
    printed = {"options": reference, "patches": patches}.get(args.what)
    sys.stdout.write(report(package) if printed is None else printed(package.__name__))


if __name__ == "__main__":
    main()
