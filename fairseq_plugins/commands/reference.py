"""Verbs that print what the package is: ``info``, ``options`` and ``patches``."""

import argparse
import importlib
import importlib.metadata
import platform
import sys
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple

from ..own_commands import PACKAGE
from .command import Command, import_below, new_parser

DISTRIBUTIONS = ("torch", "numpy", "sentencepiece", "sacrebleu", "fastBPE", "safetensors")
"""Distributions whose versions are printed beside fairseq's."""


def installed_version(name: str) -> str:
    """Return the version of a distribution, or "not installed"."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def fairseq_version() -> str:
    """Return the version of fairseq and the distribution that installs it, one of two."""
    for name in ("fairseq-fixed", "fairseq"):
        version = installed_version(name)
        if version != "not installed":
            return f"{version} ({name})"
    return "not installed"


def describe(package: str) -> str:
    """Describe the installation: path, versions, registered names, and applied patches."""
    compat = import_below("compat")
    rows = [
        ("--user-dir", PACKAGE),
        ("fairseq_plugins", sys.modules[package].__version__),
        ("Python", platform.python_version()),
        ("fairseq", fairseq_version()),
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
        flag: spelling on the command line, as in "--prompt-length"; the name if it is positional.
        kind: type or choices.
        default: default value, or that of each architecture if they differ.
        help: help text.
    """

    owner: str
    name: str
    flag: str
    kind: str
    default: str
    help: str


def select_ours(registry: Mapping[str, Any], package: str) -> List[str]:
    """List the names in a registry of fairseq whose class is defined in ``package``."""
    return sorted(name for name, cls in registry.items() if _is_ours(cls, package))


def _is_ours(cls: Any, package: str) -> bool:
    return cls.__module__.split(".")[0] == package


class Registration(NamedTuple):
    """A class that the package registered with fairseq."""

    kind: str  # as in "task" or "model"
    name: str
    cls: Any
    dataclass: Any  # of its options; None if it has none


def registrations(package: str) -> Iterator[Registration]:
    """Yield each class that ``package`` registered, once."""
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
            yield Registration(kind, name, registry[name], dataclasses.get(name))


def list_registered(package: str) -> Dict[str, List[str]]:
    """List the names that ``package`` registered, by the option of fairseq that takes them."""
    from fairseq.models import ARCH_MODEL_REGISTRY

    names: Dict[str, List[str]] = {
        "--task": [],
        "--arch": select_ours(ARCH_MODEL_REGISTRY, package),
    }
    for entry in registrations(package):
        if entry.kind != "model":
            names.setdefault(f"--{entry.kind}", []).append(entry.name)
    return names


def options(package: str) -> List[Option]:
    """List the options that classes of ``package`` declare, without those that fairseq declares."""
    rows = []
    for entry in registrations(package):
        architectures = _read_architectures(entry)
        for action in _declare(entry, package):
            defaults = {}
            for arch, values in architectures.items():
                defaults[arch] = values.get(action.dest, action.default)
            option = Option(
                owner=f"{entry.kind} {entry.name}",
                name=action.dest,
                flag=action.option_strings[0] if action.option_strings else action.dest,
                kind=_show_type(action),
                default=_show_default(action, defaults),
                help=" ".join((action.help or "").replace("%%", "%").split()),
            )
            rows.append(option)
    return rows


def _declare(entry: Registration, package: str) -> List[argparse.Action]:
    """List the options of a class, without those that a class of fairseq declares.

    A class declares options by its dataclass or, in fairseq's older way, by ``add_args``.
    """
    from fairseq.dataclass.utils import gen_parser_from_dataclass

    if entry.dataclass is not None:
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        gen_parser_from_dataclass(parser, entry.dataclass())
        bases = [base for base in entry.dataclass.__mro__ if _is_ours(base, package)]
        fields = {name for base in bases for name in vars(base).get("__annotations__", {})}
        return [action for action in parser._actions if action.dest in fields]
    stock = next(base for base in entry.cls.__mro__ if not _is_ours(base, package))
    stock_names = {action.dest for action in _add_args(stock)}
    return [action for action in _add_args(entry.cls) if action.dest not in stock_names]


def _add_args(cls: Any) -> List[argparse.Action]:
    """List the options that a class adds to a parser by ``add_args``, if it has that method."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    if hasattr(cls, "add_args"):
        cls.add_args(parser)
    return parser._actions


def _read_architectures(entry: Registration) -> Dict[str, Dict[str, Any]]:
    """Return the architectures of a model: name -> its defaults. Other classes have none.

    Some defaults are set by the function that is registered with fairseq, others only by
    ``build_model``; the latter stand in ``ARCHITECTURES`` of the model's module.
    """
    from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_INV_REGISTRY

    if entry.kind != "model":
        return {}
    listed = getattr(sys.modules[entry.cls.__module__], "ARCHITECTURES", {})
    architectures = {}
    for arch in ARCH_MODEL_INV_REGISTRY.get(entry.name, []):
        defaults = argparse.Namespace(**listed.get(arch, {}))
        if arch in ARCH_CONFIG_REGISTRY:
            ARCH_CONFIG_REGISTRY[arch](defaults)
        if arch != entry.name or vars(defaults):
            architectures[arch] = vars(defaults)
    return architectures


def _show_type(action: argparse.Action) -> str:
    """Describe what an option takes: its choices, nothing (a flag), or a type."""
    if action.choices is not None:
        return ", ".join(f"`{choice}`" for choice in action.choices)
    if action.nargs == 0:
        return "flag" if action.const is not False else "flag that turns it off"
    name = getattr(action.type, "__name__", "str")
    return {"<lambda>": "list", "eval_bool": "bool"}.get(name, name)


def _show_default(action: argparse.Action, defaults: Mapping[str, Any]) -> str:
    """Show the default, or that of each architecture if they differ."""

    def show(default: Any) -> str:
        """Show a default value."""
        return {None: "none", "": "empty"}.get(default) or f"`{default}`"

    if action.required:
        return "required"
    if len(set(map(str, defaults.values()))) <= 1:
        return show(next(iter(defaults.values()), action.default))
    return ", ".join(f"{arch} {show(default)}" for arch, default in defaults.items())


HEADING = """# Options

What this package adds to fairseq's own options. In a YAML for `fairseq-hydra-train` the names have
underscores and no dashes in front.

Architectures (`--arch`). The name of a model that is built from a configuration class is one too,
with the defaults below or the sizes of a pretrained file:
"""


def reference(package: str) -> str:
    """Render every option of the package as a Markdown table.

    An option that several tasks or models declare alike has one row.
    """
    lines = [HEADING]
    for entry in registrations(package):
        if entry.kind == "model":
            architectures = ", ".join(f"`{arch}`" for arch in _read_architectures(entry))
            lines.append(f"- `{entry.name}`: {architectures}")
    lines += [
        "",
        "| option | where | type or choices | default | what it does |",
        "|---|---|---|---|---|",
    ]
    owners: Dict[Option, List[str]] = {}
    for option in options(package):
        owners.setdefault(option._replace(owner="", name=""), []).append(option.owner)
    for option, names in owners.items():
        cells = (", ".join(names), option.kind, option.default, option.help)
        lines.append(_render_row(f"`{option.flag}`", *cells))
    return "\n".join(lines) + "\n"


def patches(package: str) -> str:
    """Render all patches of fairseq as a Markdown table."""
    table = import_below("compat").PATCHES
    lines = [_render_row(f"`{patch.name}`", patch.reason, patch.upstream) for patch in table]
    return "\n".join(["| patch | defect | upstream |", "|---|---|---|", *lines]) + "\n"


def _render_row(*cells: str) -> str:
    """Render a row of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def printer(verb: str, description: str, render: Callable[[str], str]) -> Command:
    """Make the command that prints what ``render`` returns for this package."""

    def work(args: argparse.Namespace) -> None:
        """Print the text."""
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
