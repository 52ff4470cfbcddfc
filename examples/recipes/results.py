"""Pages and plots of the committed ledgers, by the files of studies/: ``python -m examples.recipes.results``."""

import sys
from pathlib import Path
from typing import Dict

from . import plots, tables
from .ledger import Ledger, digest
from .studies import STUDIES, read_study

ROOT = STUDIES.parent.parent
RESULTS = STUDIES.parent / "miniature"
"""Folder of the ledgers, the pages and, below it, of plots and outputs."""


def show(path: Path, results: Path = RESULTS) -> Dict[Path, str]:
    """The page and the plot of a study, from its ledger alone; the page says whether the code has changed since."""
    study = read_study(path)
    today = digest(ROOT, study.code, study.settings())
    ledger = Ledger(results / f"ledger-{study.name}.json", today).largest()
    return {
        results / f"RESULTS-{study.name}.md": tables.render(study, ledger, today),
        results / "plots" / f"{study.name}.svg": plots.render(study, ledger),
    }


def main() -> int:
    """Write all of them."""
    for path in sorted(STUDIES.glob("*.yaml")):
        for file, text in show(path).items():
            file.write_text(text, encoding="utf-8")
            print(f"wrote {file.relative_to(ROOT)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
