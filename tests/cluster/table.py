"""``python -m tests.cluster.table [LOG]``: what was run on several processes, in docs/running.md and a row of the README.

``make test-cluster`` writes the log, and its facts are not typed by hand.
"""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOG = HERE / "log.jsonl"
PAGE, README = HERE.parents[1] / "docs" / "running.md", HERE.parents[1] / "README.md"
BEGIN, END = "<!-- made from tests/cluster/log.jsonl: python -m tests.cluster.table -->\n", "<!-- end -->"


def read(path=LOG):
    """The facts of a log, the machine first."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def tasks(facts):
    """Name of a task -> the largest difference of a parameter, by number of processes."""
    return {fact["task"]: fact["differences"] for fact in facts if "task" in fact}


def table(facts):
    """What was run, and what came of it."""
    rows, found = [(fact["run"], fact["outcome"]) for fact in facts if "run" in fact], tasks(facts)
    for count in sorted({count for differences in found.values() for count in differences}, key=int):
        largest = max(differences[count] for differences in found.values())
        outcome = "bit-equal" if largest == 0 else f"within {largest:.1e}"
        what = f"torchrun, {count} processes, each of the {len(found)} tasks of this package"
        rows.append((what, f"losses equal, parameters {outcome}, to one process with `--update-freq {count}`"))
    lines = [f"{facts[0]['machine']}; {facts[0]['date']}", "", "| run | what came of it |", "|---|---|"]
    return "\n".join([*lines, *(f"| {run} | {outcome} |" for run, outcome in rows)]) + "\n"


def pages(facts):
    """The pages with the table and the row put in, by path."""
    counts = sorted({count for differences in tasks(facts).values() for count in differences}, key=int)
    run = f"{' and '.join(counts)} on one CPU machine, every task; Slurm with two nodes on one machine"
    row = f"| several processes | {run} ([table](docs/running.md#clusters)) | several machines, GPUs, fully sharded |"
    page, readme = PAGE.read_text(encoding="utf-8"), README.read_text(encoding="utf-8")
    put = re.sub(f"(?<={re.escape(BEGIN)}).*?(?={END})", lambda _: f"\n{table(facts)}\n", page, flags=re.DOTALL)
    return {PAGE: put, README: re.sub(r"^\| several processes \|.*", lambda _: row, readme, flags=re.MULTILINE)}


if __name__ == "__main__":
    for path, text in pages(read(*map(Path, sys.argv[1:]))).items():
        path.write_text(text, encoding="utf-8")
