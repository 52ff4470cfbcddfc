"""Write the tables of docs/running.md that list runs: ``python -m tests.what_was_run``.

The facts are in logs, which ``make test-pythons`` and ``make test-cluster`` write, and in the JSON
of benchmarks.
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
    """Return the largest difference of a parameter, by task and number of processes."""
    return {fact["task"]: fact["differences"] for fact in facts if "task" in fact}


def process_counts(facts):
    return sorted({count for counts in tasks(facts).values() for count in counts}, key=int)


def process_table(facts):
    """Return the table of runs on several processes and their outcomes."""
    rows = [(fact["run"], fact["outcome"]) for fact in facts if "run" in fact]
    differences = tasks(facts)
    for count in process_counts(facts):
        largest = max(counts[count] for counts in differences.values())
        outcome = "bit-equal" if largest == 0 else f"within {largest:.1e}"
        single = f"one process with `--update-freq {count}`"
        run = f"torchrun, {count} processes, each of the {len(differences)} tasks of this package"
        rows.append((run, f"losses equal, parameters {outcome}, to {single}"))
    machine = f"{facts[0]['machine']}; {facts[0]['date']}"
    lines = [machine, "", "| run | what came of it |", "|---|---|"]
    return "\n".join([*lines, *(f"| {run} | {outcome} |" for run, outcome in rows)])


def python_row(run):
    if "reason" in run:
        return f"| {run['python']} | | | {run['reason']} | |"
    python = f"{run['python']}{DEVICES[run['on']]}"
    torch = run["torch"]
    if "+cu" in torch and not run["gpu"]:
        torch = f"{torch}, no GPU"
    minutes = ""
    if run["install_seconds"] is not None:
        minutes = f"{max(1, round(run['install_seconds'] / 60))} min"
    tests = [f"{run['passed']} passed"]
    if run["failed"]:
        tests.append(f"**{run['failed']} failed**")
    tests.append(f"{sum(run['skipped'].values())} skipped")
    outcome = ", ".join(tests)
    file_count, total = run["files"]
    if file_count != total:
        outcome = f"{outcome} ({file_count} of {total} files)"
    return f"| {python} | {run['fairseq']} | {torch} | {minutes} | {outcome} |"


def python_table(runs):
    """Return the table of Pythons, their packages and the outcomes of the tests."""
    head = ["| Python | fairseq | torch | `make install` | `make test` |", "|---|---|---|---|---|"]
    return "\n".join([*head, *map(python_row, runs)])


def wait_table(runs):
    """Return the table of waits per batch and their lines, by kind of training."""
    lines = ["| training | waits per batch | at |", "|---|---|---|"]
    for training, waits in next((run["waits"].items() for run in runs if "waits" in run), ()):
        lines.append(f"| {training} | {len(waits)} | {', '.join(dict.fromkeys(waits))} |")
    return "\n".join(lines)


def trainings_on_gpus():
    """List the GPUs in the ledgers of studies, each with its studies."""
    studies = {}
    for path in sorted((ROOT / "examples" / "results").glob("*.json")):
        for entry in json.loads(path.read_text(encoding="utf-8"))["entries"]:
            gpu = re.match(r"(\D[^,]*), \d+ CPU cores", entry.get("machine", ""))
            if gpu:
                studies.setdefault(gpu[1], {})[path.stem] = True
    lines = []
    for gpu, names in studies.items():
        noun = "study" if len(names) == 1 else "studies"
        lines.append(f"{gpu} (the {noun} {' and '.join(names)})")
    return lines


def tested_systems(tests):
    """List systems and processors of the tests and benchmarks."""
    files = ROOT.glob("benchmarks/results/*-cpu.json")
    machines = [json.loads(path.read_text(encoding="utf-8"))["machine"] for path in files]
    machines += [run for run in tests if run["on"] != "cuda"]
    processors = {
        re.sub(r"\(R\)| Processor|\s*\(.*", "", machine["device"]) for machine in machines
    }
    return ", ".join([*sorted({run["system"] for run in tests}), *sorted(processors)])


def summary_rows(runs, facts):
    """Return the rows of the second table: what was run and what was not, by name."""
    tests = [run for run in runs if "reason" not in run]
    gpus = sorted({run["device"] for run in tests if run["on"] == "cuda"})
    trainings = trainings_on_gpus()
    devices = ["CPU"]
    if any(run["on"] == "pretend" for run in tests):
        devices.append("a pretend accelerator")
    if gpus:
        untested = "other GPUs"
    else:
        untested = "tests on any GPU" if trainings else "any GPU"
    counts = " and ".join(process_counts(facts))
    several = f"{counts} on one CPU machine, every task; Slurm with two nodes on one machine"
    return {
        "system": (tested_systems(tests), "macOS, Windows, ARM"),
        "device": (", ".join([*devices, *gpus, *trainings]), untested),
        "several processes": (
            f"{several} ([table](#clusters))",
            "several machines, GPUs, fully sharded",
        ),
    }


def replace_table(text, name, table):
    """Replace the text between the two comments of this name."""
    begin, end = f"<!-- {name}, {MADE} -->\n", "\n<!-- end -->"
    assert text.count(begin) == 1, name
    before, _, after = text.partition(begin)
    return f"{before}{begin}\n{table}\n{after[after.index(end) :]}"


def replace_row(text, name, cells):
    row = f"| {' | '.join([name, *cells])} |"
    return re.sub(rf"^\| {name} \|.*", lambda _: row, text, flags=re.MULTILINE)


def pages():
    """Return the pages with their tables and rows replaced, by path."""
    runs = run_log.read()
    facts = [json.loads(line) for line in CLUSTER.read_text(encoding="utf-8").splitlines()]
    page = PAGE.read_text(encoding="utf-8")
    page = replace_table(page, "Pythons", python_table(runs))
    for name, cells in summary_rows(runs, facts).items():
        page = replace_row(page, name, cells)
    page = replace_table(page, "processes", process_table(facts))
    return {PAGE: replace_table(page, "waits", wait_table(runs))}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
