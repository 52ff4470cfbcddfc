r"""Print every command of a study, in order, without running anything.

python -m examples.recipes.dry_run --study FILE --data DATA [--size paper] [--device cuda]

The commands run in the folder of the study, with ``examples`` and the checkout in PYTHONPATH.
``make study … DRY_RUN=1`` prints them too. Neither DATA nor a model has to exist.
"""

import argparse
import sys
from pathlib import Path
from shlex import quote
from typing import Iterator, List, NamedTuple, Optional

from .runs import Runs, options_of
from .studies import Job, read_study
from .systems import SIZES, SMALL, RecipeError

ROOT = Path(__file__).resolve().parent.parent.parent


class Step(NamedTuple):
    """A command for bash, and what it makes."""

    title: str
    command: str


def list_steps(runs: Runs) -> Iterator[Step]:
    """List the commands of a study in an order in which they can run.

    The tuning of a grid comes before the final runs, which here have its first point.
    """
    study = runs.study
    for step in study.set["steps"]:
        yield Step(step["makes"], _make_folders(runs.script(step["run"]), step["makes"]))
    for name in _order_assets(runs):
        yield from _list_asset(runs, name)
    for job in [*study.tuning(), *study.final()]:
        yield from _list_run(runs, job)


def _order_assets(runs: Runs) -> List[str]:
    """Return the names of the assets that are made, each after those that it needs."""
    assets, ordered = runs.study.assets, []

    def visit(name: str) -> None:
        for origin in (assets[name].get("start"), *assets[name].get("needs", ())):
            if origin in assets and origin not in ordered:
                visit(origin)
        if name not in ordered:
            ordered.append(name)

    for name in assets:
        visit(name)
    return ordered


def _list_asset(runs: Runs, name: str) -> Iterator[Step]:
    """List the commands of an asset: none if it is given."""
    entry = runs.study.assets[name]
    if "run" in entry:
        command = runs.script(entry["run"])
        yield Step(f"asset {name}", _make_folders(command, runs.marker(name)))
    for trained, seed in runs.trained():
        if trained == name:
            place = runs.place(name, seed)
            yield Step(f"asset {place}, training", runs.asset_training(name, seed))
            command = _make_folders(runs.asset_command(name, seed), runs.marker(name, seed))
            yield Step(f"asset {place}", command)


def _list_run(runs: Runs, job: Job) -> Iterator[Step]:
    """List the commands of a run: trainings, the model that is decoded, outputs."""
    stages = len(job.arm.stages)
    for number in range(1, stages + 1):
        stage = f", stage {number}" if number < stages else ""
        yield Step(f"{job.key}, {job.arm.name}{stage}", runs.training(job, number))
        if number < stages:
            folder = runs.folder(job, number)
            average = "python -m fairseq_plugins average --inputs"
            start = f"runs/{job.key}/start{number + 1}.pt"
            yield Step(
                f"{job.key}, start", f"{average} {folder}/checkpoint_last.pt --output {start}"
            )
    if job.phase == "tune":
        return
    yield Step(f"{job.key}, model", _make_folders(runs.average(job), runs.model(job)))
    for stem, title in job.arm.outputs.items():
        log = f"runs/{job.key}/generate-{stem}.log"
        file = f"outputs/{job.key}/{runs.study.files(job)[stem]}"
        command = f"{runs.output(job, stem)} \\\n  >{quote(log)}"
        if not runs.study.metrics:
            names = f"--input {quote(log)} --output {quote(file)}"
            command += f"\npython -m data_prep.hypotheses {names}"
        yield Step(f"{job.key}, {title}", _make_folders(command, log, file))


def _make_folders(command: str, *paths: str) -> str:
    """Put a command that makes the folders of the paths before a command; Snakemake makes them."""
    folders = sorted({str(Path(path).parent) for path in paths} - {"."})
    made = f"mkdir -p {' '.join(map(quote, folders))}\n" if folders else ""
    return made + command.strip()


def main(argv: Optional[List[str]] = None) -> int:
    """Run the command."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--study", type=Path, required=True, help="file of the study")
    parser.add_argument("--data", required=True, help="folder of the raw files")
    parser.add_argument("--size", default=SMALL, help=f"{' or '.join(SIZES)} (default: {SMALL})")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    args = parser.parse_args(argv)
    try:
        study = read_study(args.study, args.size)
        steps = list(list_steps(Runs(study, ROOT, args.data, options_of(args.device))))
    except (RecipeError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    head = [f"# {study.title}", *(f"# {note}" for note in study.notes)]
    try:
        print("\n".join([*head, *(f"\n# {step.title}\n{step.command}" for step in steps)]))
    except BrokenPipeError:  # a pager that was left
        sys.stderr.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
