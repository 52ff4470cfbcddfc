"""Entries of a study's ledger, the choice of tuning, the ledger and the page.

The workflow calls it in the folder of a study:
python -m recipes.entries make|choose|ledger|page --study FILE --data DIR [--key KEY]
"""

import argparse
import re
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from data_prep.files import sha256, write_json
from data_prep.io import read_json

from . import plots, tables
from .ledger import Ledger, choose, commit, digest
from .runs import Runs, options_of
from .scores import Scores
from .studies import Job, Study, read_study
from .systems import SIZES, SMALL

ROOT = Path(__file__).resolve().parent.parent.parent
LEDGER = Path("ledger.json")


class Folder:
    """The folder of a study, which is the working directory.

    Args:
        study: what is run there.
        data: folder of the raw files.
        device: of the trainings.
    """

    def __init__(self, study: Study, data: Path, device: str = "cpu"):
        self.study, self.data = study, data
        self.code = digest(ROOT, study.code, study.settings())
        self.runs = Runs(study, ROOT, str(data), options_of(device))
        self.scores = Scores(study, lambda name: (Path("outputs") / name).read_bytes(), data)

    def make(self, key: str) -> None:
        """Write the entry of a finished run."""
        from .record import describe  # needs torch

        job = self.study.job(key)
        stages = range(1, len(job.arm.stages) + 1)
        commands = "\n".join(self.runs.training(job, number) for number in stages)
        entry = {**self._describe_job(job), "train": self._hide_paths(commands)}
        if job.phase == "final":
            entry["outputs"] = self.scores.of(job)
        if job.arm.start and self.study.each_seed(job.arm.start):
            entry["start"] = self._hash_asset(job.arm.start, job.seed)
        facts = describe(Path("runs") / key)
        # "options" is the point of the grid, "settings" what the checkpoint records.
        facts["settings"] = facts.pop("options", {})
        write_json(Path("entries") / f"{key}.json", {**entry, **facts, "status": "done"})

    def choose(self) -> None:
        """Write ``tuned.json``: arm -> number of the point.

        Raises:
            ValueError: no run of an arm has a validation.
        """
        points = choose(self.study, self.read_entries(self.study.tuning()))
        missing = [arm.name for arm in self.study.arms if arm.name not in points]
        if missing:
            runs = f"no tuning run of {', '.join(missing)} has ended with a validation"
            raise ValueError(f"{runs}: nothing to choose from")
        write_json(Path("tuned.json"), points)

    def read_entries(self, jobs: Sequence[Job]) -> Ledger:
        """Make a ledger of these runs, without writing it.

        A run counts as failed if it has a folder but no entry.
        """
        ledger = Ledger(LEDGER, self.code)
        ledger.entries = []
        for job in jobs:
            entry = read_json(Path("entries") / f"{job.key}.json")
            if not entry and (Path("runs") / job.key).is_dir():
                entry = {**self._describe_job(job), "status": "failed"}
            if entry:
                ledger.entries.append({**entry, "code": self.code})
        return ledger

    def write_ledger(self) -> None:
        """Write ``ledger.json``: runs, hashes of assets, and tests of claims."""
        points = read_json(Path("tuned.json"))
        finals = self.study.final(points) if points else []
        ledger = self.read_entries([*self.study.tuning(), *finals])
        head = {"commit": commit(ROOT), "status": "done"}
        ledger.put({**head, "key": "assets", "hashes": self._hash_assets(ledger)})
        for pair in self.study.directions if not self.study.metrics else ():
            for seed in self.study.seeds:
                results = self._test_claims(ledger, pair, seed)
                if results:
                    place = {"key": f"claims/{pair}/seed{seed}", "pair": pair, "seed": seed}
                    ledger.put({**head, **place, "results": results})

    def _test_claims(self, ledger: Ledger, pair: str, seed: int) -> List[Dict[str, Any]]:
        """Test the claims whose two outputs are there, in a direction with a seed."""
        keys = {}
        for entry in ledger.finals():
            if (entry["pair"], entry["seed"], entry["status"]) == (pair, seed, "done"):
                keys[entry["arm"]] = entry["key"]
        results = []
        for number, claim in enumerate(self.study.claims):
            better, worse = claim.better[0], claim.worse[0]
            if better in keys and worse in keys:
                sides = (keys[better], keys[worse])
                difference, p_value = self.scores.difference(claim, sides, pair)
                results.append({"claim": number, "difference": difference, "p": p_value})
        return results

    def write_page(self) -> None:
        """Write ``plot.svg``, if matplotlib is installed, and ``page.md``."""
        ledger = Ledger(LEDGER, self.code)
        try:
            Path("plot.svg").write_text(plots.render(self.study, ledger), encoding="utf-8")
        except plots.MissingLibrary as error:
            print(f"no plot.svg: {error}", file=sys.stderr)
        text = tables.render(self.study, ledger, self.code, published=False)
        Path("page.md").write_text(text, encoding="utf-8")
        for entry in ledger.entries:
            if entry["status"] == "failed":
                print(f"{entry['key']}: FAILED, see OUT/runs/{entry['key']}", file=sys.stderr)

    def _describe_job(self, job: Job) -> Dict[str, Any]:
        """Return the part of an entry that is known before the run has ended."""
        entry = {"key": job.key, "phase": job.phase, "arm": job.arm.name, "pair": job.pair}
        entry.update(seed=job.seed, options=job.options, commit=commit(ROOT))
        if "minutes" in job.limits:
            entry["minutes"] = job.limits["minutes"]
        return entry

    def _hash_assets(self, ledger: Ledger) -> Dict[str, str]:
        """Return the hashes of all assets; of those that each seed has, the ones used by runs."""
        hashes: Dict[str, str] = {}
        for entry in ledger.entries:
            hashes.update(entry.get("start", {}))
        for name in self.study.assets:
            if not self.study.each_seed(name):
                hashes.update(self._hash_asset(name))
        return hashes

    def _hash_asset(self, name: str, seed: Optional[int] = None) -> Dict[str, str]:
        """Return path -> hash of an asset, of a folder its model; empty if it is missing."""
        path = Path(self.runs.asset(name, seed))
        path = path / "model.safetensors" if path.is_dir() else path
        if not path.is_file():
            return {}
        for folder, prefix in ((self.data, "{data}/"), (ROOT, "")):
            if path.is_absolute() and path.is_relative_to(folder):
                return {f"{prefix}{path.relative_to(folder).as_posix()}": sha256(path)}
        return {f"{{out}}/{path}": sha256(path)}

    def _hide_paths(self, text: str) -> str:
        """Replace the paths of this machine, and join the lines of a command."""
        for path, name in ((self.data, "DATA"), (ROOT, ".")):
            quoted = str(path).replace("'", "'\"'\"'")
            text = text.replace(str(path), name).replace(quoted, name)
        return re.sub(r" *\\\n *", " ", text)


def main(argv: Optional[List[str]] = None) -> int:
    """Run the command."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("what", choices=("make", "choose", "ledger", "page"))
    parser.add_argument("--study", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", choices=SIZES, default=SMALL)
    parser.add_argument("--key", help="of the run, for make")
    args = parser.parse_args(argv)
    folder = Folder(read_study(args.study, args.size), args.data, args.device)
    verbs = {"choose": folder.choose, "ledger": folder.write_ledger, "page": folder.write_page}
    try:
        if args.what == "make":
            folder.make(args.key)
        else:
            verbs[args.what]()
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
