"""``python -m fairseq_plugins``, or ``python path/to/fairseq_plugins``: the ``--user-dir`` path and the versions."""

import argparse
import importlib
import importlib.metadata
import platform
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Dict, List, Mapping, Sequence

FOLDER = Path(__file__).resolve().parent
# What is printed, as (shown name, names of the distribution: the first one installed counts).
DISTRIBUTIONS = (
    ("fairseq", ("fairseq-fixed", "fairseq")),
    ("torch", ("torch",)),
    ("numpy", ("numpy",)),
    ("sentencepiece", ("sentencepiece",)),
    ("sacrebleu", ("sacrebleu",)),
    ("fastBPE", ("fastBPE",)),
    ("safetensors", ("safetensors",)),
)


def load_package() -> ModuleType:
    """Import this folder as a package, also where Python was given the folder itself.

    Raises:
        ImportError: fairseq, torch or another dependency is missing.
    """
    if not __package__:
        sys.path[0] = str(FOLDER.parent)  # Python put the folder itself there: "data", "tasks" would be top-level names
    return importlib.import_module(__package__ or FOLDER.name)


def installed_version(names: Sequence[str]) -> str:
    """Version of the first of the distributions ``names`` that is installed, with its name where several could be."""
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


def registered(package: str) -> Dict[str, List[str]]:
    """Names that ``package`` registered, by the fairseq option that takes them."""
    from fairseq.criterions import CRITERION_REGISTRY
    from fairseq.models import ARCH_MODEL_REGISTRY
    from fairseq.scoring import SCORER_REGISTRY
    from fairseq.tasks import TASK_REGISTRY

    registries = {
        "--task": TASK_REGISTRY,
        "--criterion": CRITERION_REGISTRY,
        "--arch": ARCH_MODEL_REGISTRY,
        "--scoring": SCORER_REGISTRY,
    }
    return {option: ours(registry, package) for option, registry in registries.items()}


def report(package: ModuleType) -> str:
    """The text that is printed: path, versions, registered names and the mends applied to this fairseq."""
    compat = importlib.import_module(f"{package.__name__}.compat")
    rows = [
        ("--user-dir", str(FOLDER)),
        ("fairseq_plugins", getattr(package, "__version__", "unknown")),
        ("Python", platform.python_version()),
        *((shown, installed_version(names)) for shown, names in DISTRIBUTIONS),
        *((option, ", ".join(names)) for option, names in registered(package.__name__).items() if names),
        ("compat mends", ", ".join(compat.applied()) or "none"),
        ("switched off", ", ".join(sorted(compat.disabled())) or "none"),
    ]
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name:<{width}}  {value}\n" for name, value in rows)


def main() -> None:
    """Print the report, or only the path with ``--path``."""
    parser = argparse.ArgumentParser(prog="python -m fairseq_plugins", description="Path, versions, registered names.")
    parser.add_argument("--path", action="store_true", help="print only what to give as --user-dir")
    if parser.parse_args().path:
        sys.stdout.write(f"{FOLDER}\n")
        return
    try:
        package = load_package()
    except ImportError as error:
        sys.exit(f"fairseq_plugins cannot be imported: {error}. Install what setup.py lists, or run `make install`.")
    sys.stdout.write(report(package))


if __name__ == "__main__":
    main()
