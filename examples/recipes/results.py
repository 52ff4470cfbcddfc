"""Pages and plots of what ``examples/results`` holds: ``python -m examples.recipes.results`` writes ``docs/results``.

``--publish DIR`` stores a study there first: its ledger and the archive of its outputs, in place of earlier ones; with
``--partial`` one that is not finished, too. ``--restore DIR --study NAME`` does the opposite: another machine then makes
only the missing runs.
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
from .systems import names

ROOT = STUDIES.parent.parent
RESULTS = ROOT / "examples" / "results"
"""Ledgers and archives: ``NAME.json``, ``NAME.tar.xz``, of the tables of further analyses ``NAME_analysis.tar.xz``."""
PAGES = ROOT / "docs" / "results"
ANALYSIS = "_analysis"
LONG_TABLE = 40
"""Lines."""

FIGURE = re.compile(r"(?<![\d.,])\d+\.\d(?![\d.])")
MEAN = re.compile(r"(?<= )\d+\.\d(?= ± | \(n = )")


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
    """Numbers in the finding of a study that are no mean in its tables."""
    return figures(study.finding) - set(MEAN.findall(page))


def show_analyses(study: Study, path: Path) -> Dict[Path, str]:
    """The page of the tables in an archive, with the plots that lie beside it.

    A long table is shown as its plot, and of a folder with a comparison that alone: the archive has them all.
    """
    name, members = path.name.removesuffix(archive.ENDING), archive.read(path)
    again = f"python -m examples.recipes.archive examples/results/{path.name} [MEMBER]"
    parts = [
        f"# {study.title}: analyses",
        f"Of models of [{study.name}]({study.name}.md), whose notes say which and on what text. The archive also holds the "
        f"tables that are not shown: `{again}`.",
    ]
    for member, content in members.items():
        stem = member.removesuffix(".md")
        comparison = stem.rpartition("/")[0] + "/comparison.md" if "/" in stem else "comparison.md"
        if not member.endswith(".md") or comparison in set(members) - {member}:
            continue
        text = re.sub(r"^##", "###", content.decode("utf-8"), flags=re.M).strip()
        drawn = (PAGES / name / f"{stem}.svg").is_file()
        if drawn and len(text.splitlines()) > LONG_TABLE:
            text = f"{text.partition(chr(10))[0]} (`{member}`)"
        parts += [f"## {stem}", text, *([f"![{stem}]({name}/{stem}.svg)"] if drawn else [])]
    return {PAGES / f"{name}.md": "\n\n".join(parts) + "\n"}


def everything() -> Dict[Path, str]:
    """Every page and plot of studies, and the page that lists them."""
    studies = [read_study(STUDIES / f"{name}.yaml") for name in names(STUDIES)]
    finished = [study for study in studies if (RESULTS / f"{study.name}.json").is_file()]
    found = {PAGES / "index.md": tables.index(finished)}
    for study in finished:
        found.update(show(study))
        analyses = RESULTS / f"{study.name}{ANALYSIS}{archive.ENDING}"
        if analyses.is_file():
            found.update(show_analyses(study, analyses))
    return found


def outputs_of(study: Study, ledger: Ledger, outputs: Path, partial: bool = False) -> Dict[str, bytes]:
    """The outputs of every final run, ``KEY/FILE`` -> content; with ``partial`` of those that are done.

    Raises:
        ValueError: a run that is missing or has failed, an output that is not the one that was scored.
    """
    finals = {(one["arm"], one["pair"], one["seed"]): one for one in ledger.current() if one.get("phase") == "final"}
    found = {}
    for job in study.final({arm.name: 0 for arm in study.arms}):
        entry = finals.get((job.arm.name, job.pair, job.seed), {})
        if entry.get("status") != "done" and partial:
            continue
        if entry.get("status") != "done":
            status = entry.get("status", "not run")
            raise ValueError(
                f"{job.arm.name}, {job.pair}, seed {job.seed}: {status}; valid: a study whose runs are done"
            )
        for stem, file in study.files(job).items():
            name = f"{entry['key']}/{file}"
            found[name] = (outputs / name).read_bytes()
            if hashlib.sha256(found[name]).hexdigest() != entry["outputs"][stem]["sha256"]:
                raise ValueError(f"{outputs / name}: is not the one that was scored")
    return found


def publish(out: Path, partial: bool = False) -> List[Path]:
    """Store the ledger and the outputs of a study, and name the figures of its finding that the new tables lack.

    Raises:
        ValueError: no folder of a study, or, without ``partial``, one that is not finished.
    """
    begun = read_json(out / "study.json")
    if not begun:
        raise ValueError(f"{out}: no study.json; valid: the folder of make study")
    study, ledger = read_study(STUDIES / f"{begun['study']}.yaml"), Ledger(out / "ledger.json", begun["code"])
    members = outputs_of(study, ledger, out / "outputs", partial)
    RESULTS.mkdir(parents=True, exist_ok=True)
    stored = [RESULTS / f"{study.name}{ending}" for ending in (archive.ENDING, ".json")]
    archive.write(stored[0], members)
    stored[1].write_bytes((out / "ledger.json").read_bytes())
    for figure in sorted(unknown_figures(study, tables.render(study, ledger, ledger.code))):
        print(f"study {study.name}: finding: {figure} is no mean in the new tables: write it anew", file=sys.stderr)
    return stored


def restore(name: str, out: Path) -> List[Path]:
    """Write the published runs of today's code into the folder of a study. Those that are there are left alone.

    A run that starts from, or reads, what the study makes itself (a teacher) is left out: made again, that is another one.
    Where every seed has its own, it is restored, and its start is not.

    Raises:
        ValueError: no such runs.
    """
    study = read_study(STUDIES / f"{name}.yaml")
    ledger = Ledger(RESULTS / f"{name}.json", digest(ROOT, study.code, study.settings()))
    made = {asset for asset, entry in study.assets.items() if "given" not in entry and not study.each_seed(asset)}
    jobs = {
        one["key"]: study.job(one["key"]) for one in ledger.current() if one.get("phase") and one["status"] == "done"
    }
    if not jobs:
        raise ValueError(f"{ledger.path}: no run of today's code; valid: a study that was published with it")
    members = archive.read(RESULTS / f"{name}{archive.ENDING}")
    stored = []
    for key, job in jobs.items():
        path = out / "entries" / f"{key}.json"
        if path.is_file() or made & {job.arm.start, *job.arm.needs}:
            continue
        for file in study.files(job).values() if job.phase == "final" else ():
            target = out / "outputs" / key / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(members[f"{key}/{file}"])
        write_json(path, {field: value for field, value in ledger.get(key).items() if field != "code"})
        stored.append(path)
    return stored


def main(argv: Optional[List[str]] = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--publish", type=Path, metavar="DIR", help="folder of make study, whose outcome is stored first"
    )
    parser.add_argument("--partial", action="store_true", help="publish a study with runs missing")
    parser.add_argument("--restore", type=Path, metavar="DIR", help="folder of make study that gets the published runs")
    parser.add_argument("--study", help="name of the study to restore")
    args = parser.parse_args(argv)
    try:
        if args.restore:
            print(f"{args.study}: {len(restore(args.study, args.restore))} published runs restored")
            return 0
        stored = publish(args.publish, args.partial) if args.publish else []
        for path, text in everything().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            stored.append(path)
    except (ValueError, OSError, plots.MissingLibrary) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for path in stored:
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
