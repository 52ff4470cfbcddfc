"""Run a sweep over stock commands, again and again until it is complete: finished runs are kept, an interrupted one continues.

python examples/miniature/sweep.py run examples/miniature/sga.yaml --data DATA --out runs/miniature [--jobs 2] [--only TEXT] [--cpu]
python examples/miniature/sweep.py results examples/miniature/sga.yaml
"""

import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Dict, List, Optional, Sequence, Set

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT), str(HERE)]

from plan import Job, Plan, read_plan  # noqa: E402

from data_prep.io import read_json, sha256, write_json  # noqa: E402
from examples.recipes import ledger as ledgers  # noqa: E402
from examples.recipes import plots, tables  # noqa: E402
from examples.recipes.choice import choose  # noqa: E402
from examples.recipes.scores import Scores  # noqa: E402

PRINTING = Lock()

_SETTING = re.compile(r"\$\{([A-Z][A-Z_]*):?[-+]")
_KEPT = {"PYTHON", "PYTHONPATH"}


@cache
def settings_of_scripts() -> Set[str]:
    """Variables that the scripts of the examples read, as MLM and PAIR: runs have those of the plan, never those of the shell."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "examples").rglob("*.sh")]
    return {name for text in texts for name in _SETTING.findall(text)} - _KEPT


def say(text: str) -> None:
    """A line of progress."""
    with PRINTING:
        sys.stderr.write(f"[{time.strftime('%H:%M:%S')}] {text}\n")
        sys.stderr.flush()


class Runner:
    """Executes jobs and keeps the ledger.

    Args:
        plan: the sweep.
        data: folder with the raw text.
        out: folder for everything that is not committed.
        options: appended to every training command (as ``--cpu``).
        jobs: runs at a time; the cores are shared out.
    """

    def __init__(self, plan: Plan, data: Path, out: Path, options: Sequence[str], jobs: int):
        self.plan, self.data, self.out, self.options, self.jobs = plan, data, out, list(options), jobs
        self.keep = HERE / "outputs" / plan.name
        self.scores = Scores(plan, self.keep, {"data": data, "out": out})
        self.ledger = ledgers.Ledger(ledger_path(plan), ledgers.digest(ROOT, plan.code, plan.settings()))
        self.commit = ledgers.commit(ROOT)
        self.writing = Lock()
        for entry in self.ledger.foreign():
            say(
                f"warning: {entry['key']} was run with other code ({entry['commit']}): kept in the ledger, never mixed in"
            )

    def prepare(self) -> None:
        """Make the shared assets once and record their hashes."""
        entry, stamp = self.ledger.get("assets"), self.out / f"prepared-{self.plan.name}.json"
        found = read_json(stamp) or {"code": self.ledger.code}
        if found["code"] != self.ledger.code:
            raise ValueError(
                f"--out {self.out}: was prepared with other code ({found['code']}) than today's ({self.ledger.code}); valid: a new "
                f"folder, or this one without {stamp.name} where its assets are as good as new"
            )
        self.out.mkdir(parents=True, exist_ok=True)
        write_json(stamp, {"code": self.ledger.code})  # first: a preparation that was killed is of this code too
        missing = [path for path in self.plan.assets if not self._asset(path).exists()]
        if missing:
            for command in self.plan.prepare:
                self._call(command.format(data=self.data, out=self.out), self.out / "prepare.log")
        hashes = {path: sha256(self._asset(path)) for path in self.plan.assets}
        if entry and entry["hashes"] != hashes:
            changed = [path for path in hashes if entry["hashes"].get(path) != hashes[path]]
            raise ValueError(
                f"--out {self.out}: {', '.join(changed)} differ from the ledger's; valid: the assets of the other runs"
            )
        self._put({"key": "assets", "status": "done", "hashes": hashes})

    def _asset(self, path: str) -> Path:
        return Path(path.format(out=self.out)) if "{" in path else ROOT / path

    def run(self, only: str) -> None:
        """Tune, choose, run the finals."""
        self.prepare()
        self._all(self.plan.tuning(), only)
        chosen = choose(self.plan, self.ledger)
        if len(chosen) < len(self.plan.arms):
            say("tuning is not complete: no final run yet")
            return
        self._all(self.plan.final(chosen), only)
        for pair in self.plan.directions:
            for seed in self.plan.seeds:
                self.compare(pair, seed)

    def _all(self, jobs: List[Job], only: str) -> None:
        waiting = [job for job in jobs if only in job.key and self.ledger.get(job.key).get("status") != "done"]
        if jobs:
            say(f"{len(jobs) - len(waiting)} of {len(jobs)} {jobs[0].phase} runs need nothing")
        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(self.one, waiting))

    def one(self, job: Job) -> None:
        """Train, evaluate and record one run; a failure is recorded and the sweep goes on."""
        say(f"{job.key}: {job.minutes:g} minutes, {' '.join(job.options) or 'defaults'}")
        run = f"{self.ledger.code}/{job.key}"  # never continues the checkpoints of other code
        folder = self.out / run
        folder.mkdir(parents=True, exist_ok=True)
        names = {"out": self.out, "run": run, "hours": job.minutes / 60, "seed": job.seed, "pair": job.pair}
        train = job.arm.train.format(**names, options=" ".join([*job.options, *self.options]))
        entry: Dict[str, Any] = {
            "key": job.key,
            "phase": job.phase,
            "arm": job.arm.name,
            "pair": job.pair,
            "seed": job.seed,
            "options": list(job.options),
            "minutes": job.minutes,
            "commit": self.commit,
            "train": self._portable(train),
        }
        try:
            self._call(train, folder / "console.log")
            if job.phase == "final":
                evaluate = job.arm.evaluate.format(**names, keep=self.keep / job.key)
                self._call(evaluate, folder / "console.log")
                entry["outputs"] = self.scores.of(job)
            from examples.recipes.record import describe  # needs torch

            facts = describe(folder)
            facts["settings"] = facts.pop("options", {})  # what the checkpoint says; "options" is the point of the grid
            entry.update(facts, status="done")
        except (subprocess.CalledProcessError, OSError, ValueError) as error:
            say(f"{job.key} FAILED: {self._portable(str(error))}; see {folder / 'console.log'}")
            entry.update(status="failed", error=self._portable(str(error)))
        self._put(entry)
        say(f"{job.key}: {entry['status']}")

    def compare(self, pair: str, seed: int) -> None:
        """Paired bootstrap of every claim whose two outputs are there; scores of subsets are compared by the tables alone."""
        if self.plan.metrics:
            return
        results = []
        for claim in self.plan.claims:
            keys = [self._done(arm, pair, seed) for arm, _ in (claim.better, claim.worse)]
            if all(keys):
                difference, p_value = self.scores.difference(claim, (keys[0], keys[1]), pair, seed)
                results.append({"claim": self.plan.claims.index(claim), "difference": difference, "p": p_value})
        if results:
            self._put(
                {"key": f"claims/{pair}/seed{seed}", "status": "done", "pair": pair, "seed": seed, "results": results}
            )

    def _done(self, arm: str, pair: str, seed: int) -> str:
        """Key of a finished final run; empty when there is none."""
        for entry in self.ledger.current():
            found = (entry.get("phase"), entry.get("arm"), entry.get("pair"), entry.get("seed"), entry["status"])
            if found == ("final", arm, pair, seed, "done"):
                return str(entry["key"])
        return ""

    def _call(self, command: str, log: Path) -> None:
        threads = str(max((os.cpu_count() or 1) // self.jobs, 1))
        shell = {name: value for name, value in os.environ.items() if name not in settings_of_scripts()}
        environment = {"OMP_NUM_THREADS": threads, "PYTHON": sys.executable, **shell}
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "a", encoding="utf-8") as file:
            subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, stdout=file, stderr=file, check=True)

    def _portable(self, text: str) -> str:
        """The text without paths of this machine."""
        for path, name in ((self.keep, "KEEP"), (self.out, "OUT"), (self.data, "DATA"), (ROOT, ".")):
            text = text.replace(str(path), name)
        return text

    def _put(self, entry: Dict[str, Any]) -> None:
        with self.writing:
            self.ledger.put({"commit": self.commit, **entry})


def ledger_path(plan: Plan) -> Path:
    """Where a sweep's ledger lies."""
    return HERE / f"ledger-{plan.name}.json"


def show(path: Path) -> Dict[Path, str]:
    """The page and the plot of a sweep, from its ledger alone; the page says whether the code has changed since."""
    plan = read_plan(path)
    today = ledgers.digest(ROOT, plan.code, plan.settings())
    ledger = ledgers.Ledger(ledger_path(plan), today).largest()
    if ledger.entries and ledger.code != today:
        say(f"warning: {path.name}: these runs were made with other code ({ledger.code}) than today's ({today})")
    for entry in ledger.foreign():
        say(f"warning: {entry['key']} was run with other code ({entry['commit']}): not in the tables")
    return {
        HERE / f"RESULTS-{plan.name}.md": tables.render(plan, ledger, today),
        HERE / "plots" / f"{plan.name}.svg": plots.render(plan, ledger),
    }


def main(argv: Optional[List[str]] = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="run what is missing")
    run.add_argument("plan", type=Path)
    run.add_argument("--data", type=Path, required=True, help="folder with the raw text")
    run.add_argument("--out", type=Path, required=True, help="folder for data-bins and checkpoints")
    run.add_argument(
        "--jobs", type=int, default=1, help="runs at a time; for equal wall times keep it the same for the whole sweep"
    )
    run.add_argument("--only", default="", help="only runs whose key contains this text")
    run.add_argument("--cpu", action="store_true", help="train on the CPU")
    results = verbs.add_parser("results", help="write RESULTS-NAME.md and plots/NAME.svg from the ledger")
    results.add_argument("plan", type=Path)
    args = parser.parse_args(argv)
    if args.verb == "run" and args.jobs < 1:
        parser.error(f"--jobs must be at least 1; got {args.jobs}")
    try:
        _write_results(args.plan) if args.verb == "results" else _run(args)
    except (ValueError, OSError, plots.MissingLibrary) as error:
        parser.error(str(error))


def _write_results(plan: Path) -> None:
    for path, text in show(plan).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        say(f"wrote {path.relative_to(HERE)}")


def _run(args: argparse.Namespace) -> None:
    import fairseq_plugins  # noqa: F401  (registers what checkpoints may hold)

    options = ["--cpu"] * args.cpu
    Runner(read_plan(args.plan), args.data.resolve(), args.out.resolve(), options, args.jobs).run(args.only)


if __name__ == "__main__":
    main()
