"""List the verbs: ``python -m data_prep``."""

import ast
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


def main() -> None:
    """Print the list."""
    print("usage: python -m data_prep.VERB --help\n")
    for name, description in verbs().items():
        print(f"  {name:<10} {description}")
    print("\n  bash data_prep/preprocess.sh --help   raw text -> pieces -> data-bin folder")


if __name__ == "__main__":
    main()
