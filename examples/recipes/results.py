"""Pages and plots of what ``examples/results`` holds.

``python -m examples.recipes.results`` writes ``docs/results`` and the list in ``docs/studies.md``.
``--publish DIR`` first stores a study in ``examples/results``: its ledger and the archive of its
outputs, in place of earlier ones; with ``--partial`` also one that is not finished.
``--restore DIR --study NAME`` does the opposite, so that another machine makes only the missing
runs.
"""

import argparse
import hashlib
import re
import sys
from pathlib import Path
from typing import Dict, List, Optional, Set

from data_prep.files import write_json
from data_prep.io import read_json

from . import archive, plots, tables
from .ledger import Ledger, digest
from .studies import STUDIES, Study, read_study
from .systems import SMALL, list_names

ROOT = STUDIES.parent.parent
RESULTS = ROOT / "examples" / "results"
"""Ledgers ``NAME.json``, archives ``NAME.tar.xz``, and of analyses ``NAME_analysis.tar.xz``."""
PAGES = ROOT / "docs" / "results"
INDEX = ROOT / "docs" / "studies.md"
"""The page whose list of studies is made here, between two comments."""
LIST = re.compile(r"(<!-- findings, made by [^>]*-->\n\n).*?(\n<!-- end -->)", re.DOTALL)
ANALYSIS = "_analysis"
LONG_TABLE = 12
"""Lines from which a table is shown as its plot alone."""

FIGURE = re.compile(r"(?<![\d.,])\d+\.\d(?![\d.])")
MEAN = re.compile(r"(?<= )\d+\.\d(?= ± | \(n = )")


def find_figures(text: str) -> Set[str]:
    """Return the numbers with one decimal."""
    return set(FIGURE.findall(text))


def show(study: Study) -> Dict[Path, str]:
    """Return page and plot of a study, by path.

    The page says whether the code has changed since, and ends with the analyses of the models.
    """
    today = digest(ROOT, study.code, study.settings())
    ledger = Ledger(RESULTS / f"{study.name}.json")
    page = tables.render(study, ledger, today)
    analyses = RESULTS / f"{study.name}{ANALYSIS}{archive.ENDING}"
    if analyses.is_file():
        page += "\n" + show_analyses(analyses)
    return {
        PAGES / f"{study.name}.md": page,
        PAGES / f"{study.name}.svg": plots.render(study, ledger),
    }


def unknown_figures(study: Study, page: str) -> Set[str]:
    """Return the numbers in a study's finding that are not among the means of its tables."""
    return find_figures(study.finding) - set(MEAN.findall(page))


def show_analyses(path: Path) -> str:
    """Return the section of the tables in an archive, with the plots of ``docs/results``.

    A long table with a plot is shown as the plot alone. Of a folder with ``comparison.md`` only
    that table is shown. The archive holds all tables.
    """
    name, members = path.name.removesuffix(archive.ENDING), archive.read(path)
    again = f"python -m examples.recipes.archive examples/results/{path.name} [MEMBER]"
    parts = [
        "## Analyses",
        "The notes above say which models were analysed, and on what text. The archive holds every "
        f"table, also those that are shown as a plot alone: `{again}`.",
    ]
    for member, content in members.items():
        stem = member.removesuffix(".md")
        folder = f"{stem.rpartition('/')[0]}/" if "/" in stem else ""
        is_compared = f"{folder}comparison.md" in set(members) - {member}
        if not member.endswith(".md") or is_compared:
            continue
        text = re.sub(r"^##", "####", content.decode("utf-8"), flags=re.MULTILINE).strip()
        plot = f"{name}/{stem}.svg"
        has_plot = (PAGES / plot).is_file()
        if has_plot and len(text.splitlines()) > LONG_TABLE:
            text = f"{text.splitlines()[0]} (`{member}`)"
        parts += [f"### {stem}", text]
        if has_plot:
            parts.append(f"![{stem}]({plot})")
    return "\n\n".join(parts) + "\n"


def everything() -> Dict[Path, str]:
    """Return every page and plot of studies, and the page that lists them, by path.

    Raises:
        ValueError: the page has no place for the list.
    """
    studies = [read_study(STUDIES / f"{name}.yaml") for name in list_names(STUDIES)]
    published = [study for study in studies if (RESULTS / f"{study.name}.json").is_file()]
    findings = tables.list_findings(published)
    index, count = LIST.subn(
        lambda match: match[1] + findings + match[2], INDEX.read_text(encoding="utf-8")
    )
    if count != 1:
        raise ValueError(f"{INDEX}: {count} lists of findings; valid: one")
    pages = {INDEX: index}
    for study in published:
        pages.update(show(study))
    return pages


def outputs_of(
    study: Study,
    ledger: Ledger,
    outputs: Path,
    partial: bool = False,
) -> Dict[str, bytes]:
    """Return the outputs of every final run, ``KEY/FILE`` -> content.

    Args:
        study: the study.
        ledger: its runs.
        outputs: folder of the outputs.
        partial: leave out the runs that are not done.

    Raises:
        ValueError: a run is missing or has failed, or an output is not the one that was scored.
    """
    entries = {(entry["arm"], entry["pair"], entry["seed"]): entry for entry in ledger.finals()}
    contents = {}
    for job in study.final():
        entry = entries.get((job.arm.name, job.pair, job.seed), {})
        status = entry.get("status", "not run")
        if status != "done" and partial:
            continue
        if status != "done":
            run = f"{job.arm.name}, {job.pair}, seed {job.seed}"
            raise ValueError(f"{run}: {status}; valid: a study whose runs are done")
        for stem, file in study.files(job).items():
            name = f"{entry['key']}/{file}"
            contents[name] = (outputs / name).read_bytes()
            if hashlib.sha256(contents[name]).hexdigest() != entry["outputs"][stem]["sha256"]:
                raise ValueError(f"{outputs / name}: is not the one that was scored")
    return contents


def publish(out: Path, partial: bool = False) -> List[Path]:
    """Store ledger and outputs of a study.

    Figures of its finding that the new tables lack are printed to standard error.

    Raises:
        ValueError: this is no folder of a study or, without ``partial``, a run is not done.
    """
    begun = read_json(out / "study.json")
    if not begun:
        raise ValueError(f"{out}: no study.json; valid: the folder of make study")
    if "size" in begun:
        raise ValueError(
            f"{out}: SIZE {begun['size']}: pages show runs of SIZE {SMALL}; valid: those"
        )
    study = read_study(STUDIES / f"{begun['study']}.yaml")
    ledger = Ledger(out / "ledger.json", begun["code"])
    members = outputs_of(study, ledger, out / "outputs", partial)
    RESULTS.mkdir(parents=True, exist_ok=True)
    paths = [RESULTS / f"{study.name}{ending}" for ending in (archive.ENDING, ".json")]
    archive.write(paths[0], members)
    paths[1].write_bytes((out / "ledger.json").read_bytes())
    for figure in sorted(unknown_figures(study, tables.render(study, ledger, ledger.code))):
        advice = f"{figure} is no mean in the new tables: write it anew"
        print(f"study {study.name}: finding: {advice}", file=sys.stderr)
    return paths


def restore(name: str, out: Path) -> List[Path]:
    """Write the published runs into the folder of a study, if today's code made them.

    Runs that are in the folder are left alone. A run is left out if it uses an asset that the
    study trains once for all seeds, such as a teacher: trained again, the asset would differ. A
    run that uses an asset of its own seed is restored without the asset.

    Raises:
        ValueError: nothing is published, or other code made it.
    """
    study = read_study(STUDIES / f"{name}.yaml")
    ledger = Ledger(RESULTS / f"{name}.json")
    entries = [entry for entry in ledger.runs() if entry["status"] == "done"]
    if not entries or ledger.code != digest(ROOT, study.code, study.settings()):
        valid = "valid: a study that was published with it"
        raise ValueError(f"{ledger.path}: no run of today's code; {valid}")
    assets = {name for name, entry in study.assets.items() if "given" not in entry}
    trained_once = {name for name in assets if not study.each_seed(name)}
    members = archive.read(RESULTS / f"{name}{archive.ENDING}")
    paths = []
    for entry in entries:
        key, job = entry["key"], study.job(entry["key"])
        path = out / "entries" / f"{key}.json"
        if path.is_file() or trained_once & {job.arm.start, *job.arm.needs}:
            continue
        for file in study.files(job).values() if job.phase == "final" else ():
            target = out / "outputs" / key / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(members[f"{key}/{file}"])
        write_json(path, {field: entry[field] for field in entry if field != "code"})
        paths.append(path)
    return paths


def main(argv: Optional[List[str]] = None) -> int:
    """Run the command."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    folder = {"type": Path, "metavar": "DIR"}
    parser.add_argument("--publish", **folder, help="folder of make study that is stored first")
    parser.add_argument("--partial", action="store_true", help="publish a study with runs missing")
    parser.add_argument("--restore", **folder, help="folder of make study that gets runs")
    parser.add_argument("--study", help="name of the study to restore")
    args = parser.parse_args(argv)
    try:
        if args.restore:
            runs = restore(args.study, args.restore)
            print(f"{args.study}: {len(runs)} published runs restored")
            return 0
        paths = publish(args.publish, args.partial) if args.publish else []
        for path, text in everything().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            paths.append(path)
    except (ValueError, OSError, plots.MissingLibrary) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for path in paths:
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
