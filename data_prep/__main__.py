"""List the verbs: ``python -m data_prep``; run one: ``python -m data_prep VERB``, the same as ``python -m data_prep.VERB``."""

import ast
import runpy
import sys
from pathlib import Path
from typing import Dict

FOLDER = Path(__file__).resolve().parent


def verbs() -> Dict[str, str]:
    """Return every module that can be run, with the first line of its description; nothing is imported."""
    found = {}
    for path in [*FOLDER.glob("*.py"), *FOLDER.glob("*/__main__.py")]:
        name = path.parent.name if path.name == "__main__.py" else path.stem
        source = path.read_text(encoding="utf-8")
        if path.parent == FOLDER and (path.name == "__main__.py" or "\nif __name__ ==" not in source):
            continue
        lines = (ast.get_docstring(ast.parse(source)) or "").split("\n")
        found[name] = lines[0]
    return dict(sorted(found.items()))


def scripts() -> Dict[str, str]:
    """Return every bash script that can be run, with its first comment."""
    found = {}
    for path in sorted(FOLDER.glob("*.sh")):
        lines = path.read_text(encoding="utf-8").split("\n")
        if lines[0].startswith("#!"):
            found[path.name] = lines[1].lstrip("# ")
    return found


def main() -> None:
    """Run the verb that is named first, or print the list."""
    found = verbs()
    if len(sys.argv) > 1 and sys.argv[1] in found:
        name = f"{__package__ or 'data_prep'}.{sys.argv.pop(1)}"
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        return
    print("usage: python -m data_prep VERB --help\n")
    for name, description in found.items():
        print(f"  {name:<15} {description}")
    print("\nusage: bash data_prep/SCRIPT --help\n")
    for name, description in scripts().items():
        print(f"  {name:<15} {description}")
    if len(sys.argv) > 1 and sys.argv[1] not in ("--help", "-h"):
        print(f"data_prep: error: {sys.argv[1]}: no such verb; valid: those above", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
