"""Pages and plots of what ``examples/results`` holds: ``python -m examples.recipes.results`` writes ``docs/results``."""

import re
import sys
from pathlib import Path
from typing import Dict, Set

from . import archive, plots, tables
from .ledger import Ledger, digest
from .studies import STUDIES, Study, read_study

ROOT = STUDIES.parent.parent
RESULTS = ROOT / "examples" / "results"
"""Ledgers and archives: ``NAME.json``, ``NAME.tar.xz``, of the tables of further analyses ``NAME_analysis.tar.xz``."""
PAGES = ROOT / "docs" / "results"
ANALYSIS = "_analysis"

FIGURE = re.compile(r"(?<![\d.,])\d+\.\d(?![\d.])")


def figures(text: str) -> Set[str]:
    """Numbers with one decimal."""
    return set(FIGURE.findall(text))


def show(study: Study) -> Dict[Path, str]:
    """The page and the plot of a study, from its ledger alone; the page says whether the code has changed since."""
    today = digest(ROOT, study.code, study.settings())
    ledger = Ledger(RESULTS / f"{study.name}.json", today).largest()
    return {
        PAGES / f"{study.name}.md": tables.render(study, ledger, today),
        PAGES / f"{study.name}.svg": plots.render(study, ledger),
    }


def unknown_figures(study: Study, page: str) -> Set[str]:
    """Numbers in the finding of a study that its tables have not."""
    return figures(study.finding) - figures(page.partition("\n## ")[2])


def show_analyses(study: Study, path: Path) -> Dict[Path, str]:
    """The page of the tables in an archive, with the plots that lie beside it."""
    name = path.name.removesuffix(archive.ENDING)
    whose = f"Tables of `examples/results/{path.name}`, of models of [{study.name}]({study.name}.md)."
    parts = [f"# {study.title}: analyses", whose]
    for member, content in archive.read(path).items():
        if member.endswith(".md"):
            stem = member.removesuffix(".md")
            parts += [f"## {stem}", re.sub(r"^##", "###", content.decode("utf-8"), flags=re.M).strip()]
            if (PAGES / name / f"{stem}.svg").is_file():
                parts.append(f"![{stem}]({name}/{stem}.svg)")
    return {PAGES / f"{name}.md": "\n\n".join(parts) + "\n"}


def everything() -> Dict[Path, str]:
    """Every page and plot of studies, and the page that lists them."""
    studies = [read_study(path) for path in sorted(STUDIES.glob("*.yaml"))]
    finished = [study for study in studies if (RESULTS / f"{study.name}.json").is_file()]
    found = {PAGES / "index.md": tables.index(finished)}
    for study in finished:
        found.update(show(study))
        analyses = RESULTS / f"{study.name}{ANALYSIS}{archive.ENDING}"
        if analyses.is_file():
            found.update(show_analyses(study, analyses))
    return found


def main() -> int:
    """Write all of them."""
    PAGES.mkdir(parents=True, exist_ok=True)
    for file, text in everything().items():
        file.write_text(text, encoding="utf-8")
        print(f"wrote {file.relative_to(ROOT)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
