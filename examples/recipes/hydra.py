"""Configurations for ``fairseq-hydra-train`` out of the recipes of systems.

``python -m examples.recipes.hydra --output DIR`` writes them.

fairseq's hydra knows tasks with a dataclass only: a system of a stock task without one
(``translation_multi_simple_epoch``, ``translation_from_pretrained_bart``) has no configuration.
"""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

import yaml
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY

import fairseq_plugins  # noqa: F401  (registers what the recipes name)

from .systems import FOLDER, System, find, list_names, read_system

UPDATES, INTERVAL = 4000, 250
OPEN = "???"
"""Hydra's mark of a value that the command must give."""
CHOICES = {
    "task": "task",
    "arch": "model",
    "criterion": "criterion",
    "optimizer": "optimizer",
    "lr-scheduler": "lr_scheduler",
}
"""Option -> the part of the configuration that it chooses."""
PLAIN = ("common", "checkpoint", "optimization", "dataset", "distributed_training")
"""Parts that every configuration has."""
PATHS = {
    "common.user_dir": "$PWD/fairseq_plugins",
    "task.data": "$PWD/OUT/bin",
    "checkpoint.save_dir": "$PWD/OUT/RUN",
}
"""PART.OPTION of each path that the command must give -> an example."""


def configuration(system: System) -> Dict[str, Dict[str, Any]]:
    """Return the configuration of a system: part -> option -> value.

    An option that several parts have is set in each part that has a value of its own for it.

    Raises:
        ValueError: no part has one of the system's options.
    """
    names = {part: str(system.train[option]) for option, part in CHOICES.items()}
    valid = {part: options_of(part, names.get(part, "")) for part in (*PLAIN, *CHOICES.values())}
    order = ("common", *CHOICES.values(), *PLAIN[1:])
    parts: Dict[str, Dict[str, Any]] = {part: {} for part in order}
    for part, name in names.items():
        parts[part]["_name"] = name
    for path in PATHS:
        part, _, name = path.partition(".")
        parts[part][name] = OPEN
    for option, content in system.train.items():
        if option in CHOICES or option == "user-dir" or content is None or content is False:
            continue
        name = option.replace("-", "_")
        places = [part for part in valid if valid[part].get(name)]
        places = places or [part for part in valid if name in valid[part]]
        if not places:
            raise ValueError(f"--{option}: no option of fairseq, {', '.join(names.values())}")
        for part in places:
            parts[part][name] = _fill(name, content, system)
    return {part: options for part, options in parts.items() if options}


def _fill(name: str, content: Any, system: System) -> Any:
    """Return an option's value for hydra; :data:`OPEN` for a ``$NAME`` without a default."""
    if name == "lr":
        return [content]
    numbers = {"$seed": 1, "$updates": UPDATES, "$interval": INTERVAL}
    numbers["$warmup"] = system.warmup_updates(UPDATES)
    if isinstance(content, str) and "$" in content:
        return numbers.get(content, OPEN)
    return content


def options_of(part: str, name: str) -> Dict[str, bool]:
    """Return the options that a part of the configuration may set.

    Args:
        part: of the configuration.
        name: registered name of what the part chooses.

    Returns:
        option -> True if it has a value of its own, False if it is interpolated from another part.
    """
    if part == "model":
        dataclass = getattr(ARCH_MODEL_REGISTRY[name], "__dataclass", None)
        if dataclass is None:
            parser = argparse.ArgumentParser(conflict_handler="resolve")
            ARCH_MODEL_REGISTRY[name].add_args(parser)
            return {action.dest: True for action in parser._actions}
    elif part == "task":
        dataclass = TASK_DATACLASS_REGISTRY[name]
    elif part in REGISTRIES:
        dataclass = REGISTRIES[part]["dataclass_registry"][name]
    else:
        dataclass = getattr(FairseqConfig(), part)
    return {field.name: not str(field.default).startswith("${") for field in fields(dataclass)}


def open_ends(content: Mapping[str, Mapping[str, Any]]) -> Dict[str, str]:
    """Return PART.OPTION -> example, of each option that the command must set."""
    examples = {}
    for part, options in content.items():
        for name, option in options.items():
            if option == OPEN:
                examples[f"{part}.{name}"] = PATHS.get(f"{part}.{name}", name.upper())
    return examples


def text(name: str, system: System) -> str:
    """Return the file of a system, with the command that takes it."""
    content = configuration(system)
    words = [f"{key}={example}" for key, example in open_ends(content).items()]
    file = find(name, FOLDER, "system")[0].name
    head = [
        f"# {system.title}: systems/{file} for fairseq-hydra-train, by examples.recipes.hydra.",
        "# Paths must be absolute:",
        f"#   fairseq-hydra-train --config-dir FOLDER_OF_THIS_FILE --config-name {name} \\",
        " \\\n".join(f"#       {word}" for word in words),
    ]
    dump = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=120)
    return "\n".join(head) + "\n" + dump


def files() -> Dict[str, str]:
    """Return file name -> content, of every system that hydra can run."""
    systems = {name: read_system(name) for name in list_names(FOLDER)}
    return {
        f"{name}.yaml": text(name, system)
        for name, system in systems.items()
        if system.train["task"] in TASK_DATACLASS_REGISTRY
    }


def main(argv: Optional[List[str]] = None) -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", required=True, type=Path, help="folder, made if it is missing")
    folder = parser.parse_args(argv).output
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files().items():
        (folder / name).write_text(content, encoding="utf-8")
    print(f"{folder}: {', '.join(sorted(path.stem for path in folder.glob('*.yaml')))}")


if __name__ == "__main__":
    main()
