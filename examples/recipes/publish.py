"""Store a finished study: its ledger and the archive of its outputs in ``examples/results``, page and plot in ``docs/results``.

python -m examples.recipes.publish --out DIR      DIR is the folder of make study; what was stored of that study before is replaced
"""

import argparse
import hashlib
import sys
from pathlib import Path
from typing import Dict, List, Optional

from data_prep.io import read_json

from . import archive, results
from .ledger import Ledger
from .studies import STUDIES, Study, read_study


def outputs_of(study: Study, ledger: Ledger, outputs: Path) -> Dict[str, bytes]:
    """The outputs of every final run, ``KEY/FILE`` -> content.

    Raises:
        ValueError: a run that is missing or has failed, an output that is not the one that was scored.
    """
    finals = {(one["arm"], one["pair"], one["seed"]): one for one in ledger.current() if one.get("phase") == "final"}
    found = {}
    for job in study.final({arm.name: 0 for arm in study.arms}):
        entry = finals.get((job.arm.name, job.pair, job.seed), {})
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


def publish(out: Path) -> List[Path]:
    """Write the four files of a study; those of a name that is not in ``examples/studies`` are refused."""
    begun = read_json(out / "study.json")
    if not begun:
        raise ValueError(f"{out}: no study.json; valid: the folder of make study")
    study, ledger = read_study(STUDIES / f"{begun['study']}.yaml"), Ledger(out / "ledger.json", begun["code"])
    members = outputs_of(study, ledger, out / "outputs")
    results.RESULTS.mkdir(parents=True, exist_ok=True)
    results.PAGES.mkdir(parents=True, exist_ok=True)
    stored = [results.RESULTS / f"{study.name}{ending}" for ending in (archive.ENDING, ".json")]
    archive.write(stored[0], members)
    stored[1].write_bytes((out / "ledger.json").read_bytes())
    for path, text in results.show(study).items():
        path.write_text(text, encoding="utf-8")
        stored.append(path)
        for figure in sorted(results.unknown_figures(study, text)) if path.suffix == ".md" else ():
            print(f"{study.name}.yaml: finding: {figure} is not in the new tables: write it anew", file=sys.stderr)
    return stored


def main(argv: Optional[List[str]] = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    try:
        for path in publish(parser.parse_args(argv).out):
            print(f"wrote {path}")
    except (ValueError, OSError, results.plots.MissingLibrary) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
