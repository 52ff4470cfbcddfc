"""What a GPU is asked, in one call: the tables of these benchmarks, losses in half precision, and the largest batches that fit.

Half precision: each method is trained for 200 updates with one seed, without dropout, in float32, fp16 and bf16. Losses are those
that ``fairseq-train`` logs, in bits. Differences are those to float32 on the same batch, as shares of its loss; half precision
agrees where they are at most 1 % on average over the last quarter. Where gradients overflow, ``fairseq-train`` skips the batch.

Largest batch: the longest item of the training set, as often as a step (forward, backward, Adam) fits, found within 2 %.

    python -m benchmarks.gpu [--output runs/gpu] [--minutes 10] [--parts tables,precision,batch]

Each step is a process of its own. What is finished is not run again: call it again after an end or a kill.
"""

import argparse
import datetime
import importlib
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from . import largest_batch, precision, report, trainings
from .measure import pick_device, say
from .trainings import PRECISIONS, ROOT, SIZES

PARTS = ("tables", "precision", "batch")
TABLES = {
    "vocab_losses": "--tokens 256 --vocab 500 --width 32",
    "sga_training_step": "--vocab 500 --layers 2 --width 32 --heads 2 --sentences 4",
    "decoding": "--vocab 500 --layers 2 --width 32 --heads 2 --sentences 2 --batch 2",
    "free_decoding": "--vocab 500 --layers 2 --width 32 --heads 2 --sentences 2 --batch 2",
    "deltalm": "--vocab 500 --decoding-vocab 500 --layers 2 --width 32 --heads 2 --batch 2 --sentences 4",
    "veco": "--vocab 500 --layers 2 --width 32 --heads 2 --pairs 4 --chunk 8",
    "word_mapping": "--sizes 300x320x20",
}
"""Benchmarks that run on a GPU and need no trained model, with their options at ``--size tiny``."""
MINUTES = {"tables": 3.0, "precision": 1.0, "batch": 1.5}
"""What must be left before a step of each part is started. One that takes longer is stopped when the time is over."""


class Step(NamedTuple):
    """A process and what it leaves: a record in JSON.

    Attributes:
        part: one of ``PARTS``.
        name: of the record, and of the log.
        command: behind ``python -m``.
        collect: log -> result; ValueError: the log is not whole.
    """

    part: str
    name: str
    command: List[str]
    collect: Callable[[str], Any]


def plan(options: argparse.Namespace) -> List[Step]:
    """Every step of the parts and methods that are asked for."""
    steps, size, data = [], SIZES[options.size], data_folder(options)
    for name, tiny in TABLES.items():
        more = tiny.split() if options.size == "tiny" else []
        file = options.output / "results" / f"{name}-cuda.json"
        command = [f"benchmarks.{name}", "--device", "cuda", *more]
        steps.append(Step("tables", name, command, lambda _, file=file: _json(file)))
    read = partial(precision.read_log, updates=options.updates)
    for method in options.methods:
        for kind in PRECISIONS:
            line = trainings.options(method, kind, size, data, options.updates)
            train = ["fairseq_cli.train", *line, "--user-dir", str(ROOT / "fairseq_plugins")]
            train += ["--save-dir", str(options.output / "checkpoints" / f"{method}-{kind}")]
            steps.append(Step("precision", f"precision-{method}-{kind}", train, read))
            search = ["benchmarks.largest_batch", "--at-most", str(options.at_most), *line]
            steps.append(Step("batch", f"batch-{method}-{kind}", search, _last_json))
    return sorted((step for step in steps if step.part in options.parts), key=lambda step: PARTS.index(step.part))


def data_folder(options: argparse.Namespace) -> Path:
    """Each size has data of its own."""
    return Path(options.output / f"data-{options.size}")


def _json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _last_json(log: str) -> Any:
    lines = [line for line in log.splitlines() if line.startswith("{")]
    if not lines:
        raise ValueError("no result in the log")
    return json.loads(lines[-1])


def finished(step: Step, output: Path) -> Optional[Any]:
    """The result of an earlier call with the same command; None: there is no whole one."""
    try:
        record = _json(output / "steps" / f"{step.name}.json")
        return record["result"] if record["command"] == step.command else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def run(step: Step, output: Path, seconds: Optional[float]) -> Optional[Any]:
    """Run a step, keep its record; None, and a line that says why, where it has no result."""
    log = output / "logs" / f"{step.name}.log"
    record = output / "steps" / f"{step.name}.json"
    for path in (log, record):
        path.parent.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, report.FOLDER: str(output / "results"), "PYTHONUNBUFFERED": "1"}
    command, start = [sys.executable, "-m", *step.command], time.monotonic()
    say(f"{step.name}: {log}")
    try:
        with open(log, "wb") as file:
            subprocess.run(
                command, check=True, stdout=file, stderr=subprocess.STDOUT, timeout=seconds, cwd=ROOT, env=env
            )
        result = step.collect(log.read_text(encoding="utf-8", errors="replace"))
    except (subprocess.SubprocessError, ValueError, OSError) as error:
        said = log.read_text(encoding="utf-8", errors="replace").rstrip().rpartition("\n")[-1]
        say(f"{step.name}: {'time is over' if isinstance(error, subprocess.TimeoutExpired) else f'failed: {said}'}")
        return None
    content = {"command": step.command, "seconds": round(time.monotonic() - start, 1), "result": result}
    whole = record.with_suffix(".new")
    whole.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    whole.replace(record)
    return result


def run_all(steps: Sequence[Step], output: Path, end: Optional[float] = None) -> Dict[str, Any]:
    """Results by the names of the steps: what was there, and what there was time for until ``end`` (of ``time.monotonic``)."""
    found = {}
    for step in steps:
        result = finished(step, output)
        if result is None:
            left = None if end is None else end - time.monotonic()
            if left is not None and left < 60 * MINUTES[step.part]:
                say(f"{step.name}: not started, {left:.0f} s are left")
                continue
            result = run(step, output, left)
        if result is not None:
            found[step.name] = result
    return found


def rows(options: argparse.Namespace, found: Dict[str, Any]) -> Dict[str, Any]:
    """Rows of the two tables of this script."""
    runs: Dict[str, Dict[str, Any]] = {}
    batches = []
    for method in options.methods:
        for kind in PRECISIONS:
            if f"precision-{method}-{kind}" in found:
                runs.setdefault(method, {})[kind] = found[f"precision-{method}-{kind}"]
            if f"batch-{method}-{kind}" in found:
                batches.append({"method": method, "precision": kind, **found[f"batch-{method}-{kind}"]})
    return {"precision": precision.rows(runs, trainings.warmup(options.updates)), "batch": batches}


def render(content: Dict[str, Any]) -> str:
    """The tables of one machine."""
    tables = []
    for part, module in (("precision", precision), ("batch", largest_batch)):
        found = content["results"][part]
        if found:
            titles = ["method", "precision"]
            if part == "precision":
                titles += [f"loss, update {number}" for number in found[0]["losses"]]
            shown = [[row["method"], row["precision"], *module.cells(row)] for row in found]
            tables.append(report.table([*titles, *module.COLUMNS], shown))
    return "\n\n".join(tables)


def parse(argv: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("runs/gpu"), help="folder of data, logs and results")
    parser.add_argument(
        "--minutes", type=float, help="start nothing that will not be finished then (default: no limit)"
    )
    parser.add_argument("--parts", default=",".join(PARTS), help="some of them")
    parser.add_argument("--methods", default=",".join(trainings.LINES), help="of precision and batch")
    parser.add_argument("--size", choices=SIZES, default="base", help="of models and data")
    parser.add_argument("--updates", type=int, default=200, help="of each training of precision")
    parser.add_argument("--at-most", type=int, default=2**16, help="sentences at which the search for a batch ends")
    options = parser.parse_args(argv)
    for name, valid in (("parts", PARTS), ("methods", tuple(trainings.LINES))):
        chosen = getattr(options, name).split(",")
        if not set(chosen) <= set(valid):
            parser.error(f"--{name} {getattr(options, name)}: valid: some of {','.join(valid)}")
        setattr(options, name, chosen)
    if options.updates < 4:
        parser.error(f"--updates {options.updates}: valid: 4 or more")
    options.output = options.output.resolve()
    return options


def facts() -> Dict[str, str]:
    """When and of what the results are; which driver."""
    found = {"date": datetime.date.today().isoformat()}
    for name, command in (
        ("commit", ["git", "rev-parse", "--short", "HEAD"]),
        ("driver", ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]),
    ):
        try:
            done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
            found[name] = done.stdout.split("\n")[0]
        except (OSError, subprocess.SubprocessError):
            found[name] = "unknown"
    return found


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Run what is left of the steps, write ``results/gpu-cuda.json`` and ``page.md``; exit status 1: something is missing."""
    options = parse(argv)
    end = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    device = pick_device("cuda")
    steps = plan(options)
    if set(options.parts) & {"precision", "batch"}:
        trainings.prepare(data_folder(options), SIZES[options.size])
    found = run_all(steps, options.output, end)
    chosen = {"size": options.size, "updates": options.updates, **facts()}
    report.RESULTS = options.output / "results"
    report.write("gpu", device, chosen, rows(options, found))
    made = [name for name in ("gpu", *TABLES) if (report.RESULTS / f"{name}-cuda.json").is_file()]
    page = "\n\n".join(report.section(name, importlib.import_module(f"benchmarks.{name}")) for name in made) + "\n"
    (options.output / "page.md").write_text(page, encoding="utf-8")
    print(page)
    missing = [step.name for step in steps if step.name not in found]
    if missing:
        raise SystemExit(f"benchmarks.gpu: call it again for {', '.join(missing)}")


if __name__ == "__main__":
    main()
