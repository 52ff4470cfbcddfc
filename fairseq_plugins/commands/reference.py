"""Verbs that print what the package is: ``info``, ``options`` and ``patches``."""

import argparse
import importlib
import importlib.metadata
import platform
import sys
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Tuple

from ..own_commands import PACKAGE
from .command import Command, import_below, new_parser

DISTRIBUTIONS = ("torch", "numpy", "sentencepiece", "sacrebleu", "fastBPE", "safetensors")
"""Their versions are printed beside fairseq's, which two distributions bring."""


def installed_version(*names: str) -> str:
    """Return the version of the first distribution that is installed.

    Its name is added if there are several to choose from.
    """
    for name in names:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        return version if len(names) == 1 else f"{version} ({name})"
    return "not installed"


def describe(package: str) -> str:
    """Describe the installation: path, versions, registered names, and applied patches."""
    compat = import_below("compat")
    rows = [
        ("--user-dir", PACKAGE),
        ("fairseq_plugins", sys.modules[package].__version__),
        ("Python", platform.python_version()),
        ("fairseq", installed_version("fairseq-fixed", "fairseq")),
        *((name, installed_version(name)) for name in DISTRIBUTIONS),
        *((option, ", ".join(names)) for option, names in list_registered(package).items()),
        ("compat patches", ", ".join(compat.applied()) or "none"),
        ("switched off", ", ".join(sorted(compat.disabled())) or "none"),
    ]
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name:<{width}}  {text}\n" for name, text in rows)


class Option(NamedTuple):
    """An option that the package adds to fairseq's.

    Attributes:
        owner: kind and registered name, as in "model sga".
        name: attribute of the configuration, as in "prompt_length".
        flag: what is typed, as in "--prompt-length"; the name itself if it is positional.
        kind: its type or choices.
        default: that of each architecture where they differ.
        help: its help text.
    """

    owner: str
    name: str
    flag: str
    kind: str
    default: str
    help: str


def select_ours(registry: Mapping[str, Any], package: str) -> List[str]:
    """List the names in a registry of fairseq whose class is defined in ``package``."""
    classes = registry.items()
    return sorted(name for name, cls in classes if cls.__module__.split(".")[0] == package)


def registrations(package: str) -> Iterator[Tuple[str, str, Any, Any]]:
    """Yield (kind, name, class, dataclass or None) of everything that ``package`` registered.

    Each class comes once.
    """
    from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
    from fairseq.registry import REGISTRIES
    from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY

    kinds = {
        "task": (TASK_REGISTRY, TASK_DATACLASS_REGISTRY),
        "model": (MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY),
    }
    for kind, entry in REGISTRIES.items():
        kinds[kind] = (entry["registry"], entry["dataclass_registry"])
    for kind, (registry, dataclasses) in kinds.items():
        for name in select_ours(registry, package):
            yield kind, name, registry[name], dataclasses.get(name)


def list_registered(package: str) -> Dict[str, List[str]]:
    """List the names that ``package`` registered, by the option of fairseq that takes them."""
    from fairseq.models import ARCH_MODEL_REGISTRY

    names: Dict[str, List[str]] = {
        "--task": [],
        "--arch": select_ours(ARCH_MODEL_REGISTRY, package),
    }
    for kind, name, _, _ in registrations(package):
        if kind != "model":
            names.setdefault(f"--{kind}", []).append(name)
    return names


def options(package: str) -> List[Option]:
    """List every option that is declared in ``package``, without those inherited from fairseq."""
    rows = []
    for kind, name, cls, dataclass in registrations(package):
        architectures = _read_architectures(name, cls) if kind == "model" else {}
        for action in _declare(cls, dataclass, package):
            defaults = {}
            for arch, values in architectures.items():
                defaults[arch] = values.get(action.dest, action.default)
            flag = action.option_strings[0] if action.option_strings else action.dest
            text = " ".join((action.help or "").replace("%%", "%").split())
            cells = _show_type(action), _show_default(action, defaults), text
            rows.append(Option(f"{kind} {name}", action.dest, flag, *cells))
    return rows


def _declare(cls: Any, dataclass: Any, package: str) -> List[argparse.Action]:
    """List what ``package`` adds to the parser for a class, by a dataclass or by ``add_args``."""
    from fairseq.dataclass.utils import gen_parser_from_dataclass

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    if dataclass is not None:
        gen_parser_from_dataclass(parser, dataclass())
        bases = [base for base in dataclass.__mro__ if base.__module__.split(".")[0] == package]
        fields = {name for base in bases for name in vars(base).get("__annotations__", {})}
        return [action for action in parser._actions if action.dest in fields]
    stock = next(base for base in cls.__mro__ if base.__module__.split(".")[0] != package)
    inherited = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for owner, target in ((cls, parser), (stock, inherited)):
        if hasattr(owner, "add_args"):
            owner.add_args(target)
    stock_names = {action.dest for action in inherited._actions}
    return [action for action in parser._actions if action.dest not in stock_names]


def _read_architectures(model: str, cls: Any) -> Dict[str, Dict[str, Any]]:
    """Return architecture -> the values that it gives.

    Values that ``build_model`` itself fills in stand in ``ARCHITECTURES`` of the model's module.
    """
    from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_INV_REGISTRY

    resolved = getattr(sys.modules[cls.__module__], "ARCHITECTURES", {})
    architectures = {}
    for arch in ARCH_MODEL_INV_REGISTRY.get(model, []):
        values = argparse.Namespace(**resolved.get(arch, {}))
        if arch in ARCH_CONFIG_REGISTRY:
            ARCH_CONFIG_REGISTRY[arch](values)
        if arch != model or vars(values):
            architectures[arch] = vars(values)
    return architectures


def _show_type(action: argparse.Action) -> str:
    if action.choices is not None:
        return ", ".join(f"`{choice}`" for choice in action.choices)
    if action.nargs == 0:
        return "flag" if action.const is not False else "flag that turns it off"
    name = getattr(action.type, "__name__", "str")
    return {"<lambda>": "list", "eval_bool": "bool"}.get(name, name)


def _show_default(action: argparse.Action, defaults: Mapping[str, Any]) -> str:
    """Show the default, or that of each architecture if they differ."""

    def show(default: Any) -> str:
        return {None: "none", "": "empty"}.get(default) or f"`{default}`"

    if action.required:
        return "required"
    if len(set(map(str, defaults.values()))) <= 1:
        return show(next(iter(defaults.values()), action.default))
    return ", ".join(f"{arch} {show(default)}" for arch, default in defaults.items())


HEADING = """# Options

What this package adds to fairseq's own options. In a YAML for `fairseq-hydra-train` the names have
underscores and no dashes in front.

Architectures (`--arch`); a model's own name is one too, with the defaults below or the sizes of a
given file:
"""


def reference(package: str) -> str:
    """Render every option of the package as a Markdown table.

    An option that several tasks or models declare alike has one row.
    """
    lines, rows = [HEADING], {}  # type: List[str], Dict[Tuple[str, ...], List[str]]
    for kind, name, cls, _ in registrations(package):
        if kind == "model":
            names = ", ".join(f"`{arch}`" for arch in _read_architectures(name, cls))
            lines.append(f"- `{name}`: {names}")
    lines += [
        "",
        "| option | where | type or choices | default | what it does |",
        "|---|---|---|---|---|",
    ]
    for option in options(package):
        key = (f"`{option.flag}`", option.kind, option.default, option.help)
        rows.setdefault(key, []).append(option.owner)
    for (flag, *cells), owners in rows.items():
        lines.append(_render_row(flag, ", ".join(owners), *cells))
    return "\n".join(lines) + "\n"


def patches(package: str) -> str:
    """Render what is patched in fairseq, if the defect is found, as a Markdown table."""
    table = import_below("compat").PATCHES
    lines = [_render_row(f"`{patch.name}`", patch.reason, patch.upstream) for patch in table]
    return "\n".join(["| patch | defect | upstream |", "|---|---|---|", *lines]) + "\n"


def _render_row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def printer(verb: str, description: str, render: Callable[[str], str]) -> Command:
    """Make the command that prints what ``render`` returns for this package."""

    def work(args: argparse.Namespace) -> None:
        sys.stdout.write(render(__package__.rpartition(".")[0]))
        sys.stdout.flush()

    return Command(lambda: new_parser(verb, description), work)


COMMANDS = {
    "info": printer(
        "info",
        "Print the --user-dir path, versions, every name that the package registers, and the "
        "patches that this fairseq needs.",
        describe,
    ),
    "options": printer(
        "options",
        "Print the reference of all options that the package adds, as Markdown.",
        reference,
    ),
    "patches": printer("patches", "Print what is patched in fairseq, as Markdown.", patches),
}
