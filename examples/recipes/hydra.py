"""Configurations for ``fairseq-hydra-train`` out of the recipes of systems.

``python -m examples.recipes.hydra --output DIR`` writes them.

fairseq's hydra knows tasks with a dataclass only: a system of a stock task without one (``translation_multi_simple_epoch``,
``translation_from_pretrained_bart``) has no configuration.
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

from .systems import FOLDER, System, find, names, read_system

UPDATES, INTERVAL = 4000, 250
OPEN = "???"
"""What hydra asks for."""
CHOICES = {
    "task": "task",
    "arch": "model",
    "criterion": "criterion",
    "optimizer": "optimizer",
    "lr-scheduler": "lr_scheduler",
}
"""Option -> the part of the configuration that it chooses."""
PLAIN = ("common", "checkpoint", "optimization", "dataset", "distributed_training")


def configuration(system: System) -> Dict[str, Dict[str, Any]]:
    """Part -> option -> value. Raises ValueError: an option that no part has."""
    chosen = {part: str(system.train[option]) for option, part in CHOICES.items()}
    known = {part: options_of(part, name) for part, name in [*((part, "") for part in PLAIN), *chosen.items()]}
    found: Dict[str, Dict[str, Any]] = {part: {"_name": chosen[part]} if part in chosen else {} for part in known}
    found["common"]["user_dir"] = found["task"]["data"] = found["checkpoint"]["save_dir"] = OPEN
    for option, value in system.train.items():
        name = option.replace("-", "_")
        if option in CHOICES or option == "user-dir" or value is None or value is False:
            continue
        own = [part for part in known if known[part].get(name)]
        places = own or [part for part in known if name in known[part]]
        if not places:
            raise ValueError(f"--{option}: no option of fairseq, {', '.join(chosen.values())}")
        for part in places:
            found[part][name] = _value(name, value, system)
    return {part: found[part] for part in ("common", *CHOICES.values(), *PLAIN[1:]) if found[part]}


def _value(name: str, value: Any, system: System) -> Any:
    numbers = {"$seed": 1, "$updates": UPDATES, "$interval": INTERVAL, "$warmup": system.warmup_updates(UPDATES)}
    if name == "lr":
        return [value]
    return numbers.get(value, OPEN if "$" in str(value) else value) if isinstance(value, str) else value


def options_of(part: str, name: str) -> Dict[str, bool]:
    """The options that a part of the configuration may set -> whether it has a value of its own, not that of another part."""
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
    return {one.name: not str(one.default).startswith("${") for one in fields(dataclass)}


def open_ends(content: Mapping[str, Mapping[str, Any]]) -> Dict[str, str]:
    """What the command must fill in, PART.OPTION -> an example."""
    examples = {
        "common.user_dir": "$PWD/fairseq_plugins",
        "task.data": "$PWD/OUT/bin",
        "checkpoint.save_dir": "$PWD/OUT/RUN",
    }
    asked = [f"{part}.{name}" for part, entry in content.items() for name, value in entry.items() if value == OPEN]
    return {name: examples.get(name, name.rsplit(".", 1)[1].upper()) for name in asked}


def text(name: str, system: System) -> str:
    """The file, with the command that takes it."""
    content = configuration(system)
    words = [f"{key}={value}" for key, value in open_ends(content).items()]
    file = find(name, FOLDER, "system")[0].name
    head = [
        f"# {system.title}: systems/{file} for fairseq-hydra-train, by examples.recipes.hydra. Paths must be absolute:",
        f"#   fairseq-hydra-train --config-dir FOLDER_OF_THIS_FILE --config-name {name} \\",
        " \\\n".join(f"#       {word}" for word in words),
    ]
    return "\n".join(head) + "\n" + yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=120)


def files() -> Dict[str, str]:
    """File name -> content, of every system that hydra can run."""
    systems = {name: read_system(name) for name in names(FOLDER)}
    possible = {name: one for name, one in systems.items() if one.train["task"] in TASK_DATACLASS_REGISTRY}
    return {f"{name}.yaml": text(name, one) for name, one in possible.items()}


def main(argv: Optional[List[str]] = None) -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", required=True, type=Path, help="folder, made where it is missing")
    folder = parser.parse_args(argv).output
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files().items():
        (folder / name).write_text(content, encoding="utf-8")
    print(f"{folder}: {', '.join(sorted(path.stem for path in folder.glob('*.yaml')))}")


if __name__ == "__main__":
    main()
