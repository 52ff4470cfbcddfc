"""``python -m tests.what_was_run``: the tables of docs/running.md that say what was run.

Facts are not typed by hand: ``make test-pythons`` and ``make test-cluster`` write the logs, benchmarks their JSON.
"""

import json
import re

from tests import run_log

ROOT = run_log.ROOT
CLUSTER = ROOT / "tests" / "cluster" / "log.jsonl"
PAGE = ROOT / "docs" / "running.md"
MADE = "made by python -m tests.what_was_run"
DEVICES = {"cpu": "", "pretend": ", a pretend accelerator", "cuda": ", GPU"}


def tasks(facts):
    """Name of a task -> the largest difference of a parameter, by number of processes."""
    return {fact["task"]: fact["differences"] for fact in facts if "task" in fact}


def of_processes(facts):
    """What was run on several processes, and what came of it."""
    rows, found = [(fact["run"], fact["outcome"]) for fact in facts if "run" in fact], tasks(facts)
    for count in sorted({count for differences in found.values() for count in differences}, key=int):
        largest = max(differences[count] for differences in found.values())
        outcome = "bit-equal" if largest == 0 else f"within {largest:.1e}"
        what = f"torchrun, {count} processes, each of the {len(found)} tasks of this package"
        rows.append((what, f"losses equal, parameters {outcome}, to one process with `--update-freq {count}`"))
    lines = [f"{facts[0]['machine']}; {facts[0]['date']}", "", "| run | what came of it |", "|---|---|"]
    return "\n".join([*lines, *(f"| {run} | {outcome} |" for run, outcome in rows)])


def of_pythons(runs):
    """Each Python with what was installed there, and what came of the tests."""
    lines = ["| Python | fairseq | torch | `make install` | `make test` |", "|---|---|---|---|---|"]
    for run in runs:
        if "reason" in run:
            lines.append(f"| {run['python']} | | | {run['reason']} | |")
            continue
        torch = run["torch"] + (", no GPU" if "+cu" in run["torch"] and not run["gpu"] else "")
        minutes = "" if run["install_seconds"] is None else f"{max(1, round(run['install_seconds'] / 60))} min"
        tests = [f"{run['passed']} passed"]
        tests += [f"**{run['failed']} failed**"] * bool(run["failed"]) + [f"{sum(run['skipped'].values())} skipped"]
        seen, there = run["files"]
        part = "" if seen == there else f" ({seen} of {there} files)"
        lines.append(
            f"| {run['python']}{DEVICES[run['on']]} | {run['fairseq']} | {torch} | {minutes} | {', '.join(tests)}{part} |"
        )
    return "\n".join(lines)


def of_waits(runs):
    """How often a batch of each kind of training waits for the device at lines of the package, and where."""
    lines = ["| training | waits per batch | at |", "|---|---|---|"]
    for training, waits in next((run["waits"].items() for run in runs if "waits" in run), ()):
        lines.append(f"| {training} | {len(waits)} | {', '.join(dict.fromkeys(waits))} |")
    return "\n".join(lines)


def trainings_on_gpus():
    """The GPUs that the ledgers of studies name, each with its studies."""
    found = {}
    for path in sorted((ROOT / "examples" / "results").glob("*.json")):
        for entry in json.loads(path.read_text(encoding="utf-8"))["entries"]:
            gpu = re.match(r"(\D[^,]*), \d+ CPU cores", entry.get("machine", ""))
            if gpu:
                found.setdefault(gpu[1], {})[path.stem] = True
    lines = []
    for gpu, names in found.items():
        noun = "study" if len(names) == 1 else "studies"
        lines.append(f"{gpu} (the {noun} {' and '.join(names)})")
    return lines


def rows(runs, facts):
    """Rows of the second table, by name: what was run, and what was not."""
    tested = [run for run in runs if "reason" not in run]
    machines = [
        json.loads(path.read_text(encoding="utf-8"))["machine"] for path in ROOT.glob("benchmarks/results/*-cpu.json")
    ]
    machines += [run for run in tested if run["on"] != "cuda"]
    processors = {re.sub(r"\(R\)| Processor|\s*\(.*", "", machine["device"]) for machine in machines}
    gpus = {run["device"] for run in tested if run["on"] == "cuda"}
    devices = ["CPU", *["a pretend accelerator"] * any(run["on"] == "pretend" for run in tested), *sorted(gpus)]
    trained = trainings_on_gpus()
    counts = sorted({count for differences in tasks(facts).values() for count in differences}, key=int)
    several = f"{' and '.join(counts)} on one CPU machine, every task; Slurm with two nodes on one machine"
    return {
        "system": (", ".join([*sorted({run["system"] for run in tested}), *sorted(processors)]), "macOS, Windows, ARM"),
        "device": (
            ", ".join([*devices, *trained]),
            "other GPUs" if gpus else "tests on any GPU" if trained else "any GPU",
        ),
        "several processes": (
            f"{several} ([table](#clusters))",
            "several machines, GPUs, fully sharded",
        ),
    }


def between(text, name, made):
    """The text with what stands between the two comments of this name replaced."""
    begin, end = f"<!-- {name}, {MADE} -->\n", "\n<!-- end -->"
    assert text.count(begin) == 1, name
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n{made}\n{rest[rest.index(end) :]}"


def put_row(text, name, cells):
    row = f"| {' | '.join([name, *cells])} |"
    return re.sub(rf"^\| {name} \|.*", lambda _: row, text, flags=re.MULTILINE)


def pages():
    """The pages with tables and rows put in, by path."""
    runs = run_log.read()
    facts = [json.loads(line) for line in CLUSTER.read_text(encoding="utf-8").splitlines()]
    page = between(PAGE.read_text(encoding="utf-8"), "Pythons", of_pythons(runs))
    for name, cells in rows(runs, facts).items():
        page = put_row(page, name, cells)
    page = between(page, "processes", of_processes(facts))
    return {PAGE: between(page, "waits", of_waits(runs))}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
