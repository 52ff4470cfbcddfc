"""Entries of a study's ledger, the choice of tuning, the ledger and the page, in the folder of a study; the workflow calls it.

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

ROOT = Path(__file__).resolve().parent.parent.parent


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
        self.scores = Scores(study, lambda name: (Path("outputs") / name).read_bytes(), {"data": data, "out": Path()})

    def make(self, key: str) -> None:
        """Write the entry of a finished run."""
        from .record import describe  # needs torch

        job = self.study.job(key)
        commands = [self.runs.training(job, number + 1) for number in range(len(job.arm.stages))]
        entry = {**self._head(job), "train": self._portable("\n".join(commands))}
        if job.phase == "final":
            entry["outputs"] = self.scores.of(job)
        if job.arm.start and self.study.each_seed(job.arm.start):
            entry["start"] = self._hashes_of(job.arm.start, job.seed)
        facts = describe(Path("runs") / key)
        facts["settings"] = facts.pop("options", {})  # what the checkpoint says; "options" is the point of the grid
        write_json(Path("entries") / f"{key}.json", {**entry, **facts, "status": "done"})

    def choose(self) -> None:
        """Write ``tuned.json``: arm -> number of the point. Raises ValueError where no run of an arm has a validation."""
        found = choose(self.study, self.ledger(self.study.tuning()))
        lacking = [arm.name for arm in self.study.arms if arm.name not in found]
        if lacking:
            raise ValueError(
                f"no tuning run of {', '.join(lacking)} has ended with a validation: nothing to choose from"
            )
        write_json(Path("tuned.json"), found)

    def ledger(self, jobs: Sequence[Job], path: Path = Path("ledger.json")) -> Ledger:
        """The ledger of these runs, not written; those that have begun and have no entry have failed."""
        ledger = Ledger(path, self.code)
        ledger.entries = []
        for job in jobs:
            entry = read_json(Path("entries") / f"{job.key}.json")
            if entry:
                ledger.entries.append({**entry, "code": self.code})
            elif (Path("runs") / job.key).is_dir():
                ledger.entries.append({**self._head(job), "code": self.code, "status": "failed"})
        return ledger

    def write_ledger(self) -> None:
        """Write ``ledger.json``: every run, the hashes of the assets, a test of every claim whose two outputs are there."""
        chosen = read_json(Path("tuned.json"))
        ledger = self.ledger([*self.study.tuning(), *(self.study.final(chosen) if chosen else [])])
        head = {"commit": commit(ROOT), "status": "done"}
        ledger.put({**head, "key": "assets", "hashes": self._hashes(ledger)})
        done = {
            (one["arm"], one["pair"], one["seed"]): one["key"]
            for one in ledger.entries
            if one.get("phase") == "final" and one["status"] == "done"
        }
        for pair in self.study.directions if not self.study.metrics else ():
            for seed in self.study.seeds:
                results = []
                for number, claim in enumerate(self.study.claims):
                    keys = [done.get((arm, pair, seed)) for arm, _ in (claim.better, claim.worse)]
                    if keys[0] and keys[1]:
                        difference, p_value = self.scores.difference(claim, (keys[0], keys[1]), pair, seed)
                        results.append({"claim": number, "difference": difference, "p": p_value})
                if results:
                    place = {"key": f"claims/{pair}/seed{seed}", "pair": pair, "seed": seed}
                    ledger.put({**head, **place, "results": results})

    def page(self) -> None:
        """Write ``plot.svg``, where matplotlib is installed, and ``page.md``."""
        ledger = Ledger(Path("ledger.json"), self.code)
        try:
            Path("plot.svg").write_text(plots.render(self.study, ledger), encoding="utf-8")
        except plots.MissingLibrary as error:
            print(f"no plot.svg: {error}", file=sys.stderr)
        text = tables.render(self.study, ledger, self.code, published=False)
        Path("page.md").write_text(text, encoding="utf-8")
        failed = [one["key"] for one in ledger.entries if one["status"] == "failed"]
        for key in failed:
            print(f"{key}: FAILED, see OUT/runs/{key}", file=sys.stderr)

    def _head(self, job: Job) -> Dict[str, Any]:
        place = {"key": job.key, "phase": job.phase, "arm": job.arm.name, "pair": job.pair, "seed": job.seed}
        minutes = {"minutes": job.limits["minutes"]} if "minutes" in job.limits else {}
        return {**place, "options": job.options, **minutes, "commit": commit(ROOT)}

    def _hashes(self, ledger: Ledger) -> Dict[str, str]:
        """Hashes of the assets; of those of a seed the ones that its runs have started from."""
        found: Dict[str, str] = {}
        for entry in ledger.entries:
            found.update(entry.get("start", {}))
        for name in self.study.assets:
            if not self.study.each_seed(name):
                found.update(self._hashes_of(name))
        return found

    def _hashes_of(self, name: str, seed: Optional[int] = None) -> Dict[str, str]:
        """Path and hash of an asset, of the model where it is a folder; empty where it is not there."""
        path = Path(self.runs.asset(name, seed))
        path = path / "model.safetensors" if path.is_dir() else path
        if not path.is_file():
            return {}
        for folder, start in ((self.data, "{data}/"), (ROOT, "")):
            if path.is_absolute() and path.is_relative_to(folder):
                return {f"{start}{path.relative_to(folder).as_posix()}": sha256(path)}
        return {f"{{out}}/{path}": sha256(path)}

    def _portable(self, text: str) -> str:
        """The text without paths of this machine."""
        for path, name in ((self.data, "DATA"), (ROOT, ".")):
            quoted = str(path).replace("'", "'\"'\"'")
            text = text.replace(str(path), name).replace(quoted, name)
        return re.sub(r" *\\\n *", " ", text)


def main(argv: Optional[List[str]] = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "choose", "ledger", "page"))
    parser.add_argument("--study", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--key")
    args = parser.parse_args(argv)
    folder = Folder(read_study(args.study), args.data, args.device)
    try:
        if args.what == "make":
            folder.make(args.key)
        else:
            {"choose": folder.choose, "ledger": folder.write_ledger, "page": folder.page}[args.what]()
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
