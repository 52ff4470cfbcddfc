"""``tests/run_log.jsonl``: the outcome of the tests, a line per Python, system and device.

``RUN_LOG=tests/run_log.jsonl make test DEVICE=pretend`` writes the line of this Python and device,
``make test-pythons`` those of several Pythons. ``python -m tests.run_log VERSION REASON`` records
why the tests were not run with a Python.
"""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOG = ROOT / "tests" / "run_log.jsonl"
START = time.monotonic()


def read(path=LOG):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def put(path, line):
    """Write a line instead of that of the same minor version of Python, system and device."""
    lines = [old for old in read(path) if _key(old) != _key(line)] + [line]
    texts = [json.dumps(entry, ensure_ascii=False) for entry in sorted(lines, key=_key)]
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def _key(line):
    return tuple(map(int, line["python"].split(".")[:2])), line["system"], line.get("on", "cpu")


def _system_and_date():
    return {"system": f"{platform.system()} {platform.machine()}", "date": str(date.today())}


def _git(*arguments):
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _commit():
    """Return the commit of the checkout, with a note if files differ from it."""
    outputs = [":!docs/running.md", ":!tests/run_log.jsonl"]
    commit = _git("rev-parse", "--short", "HEAD")
    return commit + (" with changes" if _git("status", "--porcelain", ".", *outputs) else "")


def _most_waits(waits):
    """Return the waits of the worst run, by kind of training."""
    worst = {}
    for run in waits:
        worst[run["training"]] = max(run["waits"], worst.get(run["training"], []), key=len)
    return dict(sorted(worst.items()))


def describe_run(reporter, device_name):
    """Return the line of a pytest run; ``reporter`` has the reports of all workers."""
    import torch

    from benchmarks import report

    packages = {package.metadata["Name"] for package in importlib.metadata.distributions()}
    fairseq = "fairseq-fixed" if "fairseq-fixed" in packages else "fairseq"
    install_seconds = os.environ.get("INSTALL_SECONDS")
    outcomes = ("passed", "failed", "error", "skipped")
    reports = {outcome: reporter.stats.get(outcome, []) for outcome in outcomes}
    files = {test.nodeid.partition("::")[0] for tests in reports.values() for test in tests}
    reasons = Counter(test.longrepr[2].removeprefix("Skipped: ") for test in reports["skipped"])
    line = {
        **report.describe_machine(torch.device("cuda" if device_name == "cuda" else "cpu")),
        **_system_and_date(),
        "on": device_name,
        "gpu": torch.cuda.is_available(),
        "fairseq": f"{fairseq} {importlib.metadata.version(fairseq)}",
        "commit": _commit(),
        "install_seconds": int(install_seconds) if install_seconds is not None else None,
        "test_seconds": round(time.monotonic() - START),
        "files": [len(files), len(list(ROOT.glob("tests/**/test_*.py")))],
        "passed": len(reports["passed"]),
        "failed": len(reports["failed"]) + len(reports["error"]),
        "skipped": dict(reasons.most_common()),
    }
    waits = read(Path(os.environ["PRETEND_TABLE"])) if "PRETEND_TABLE" in os.environ else []
    return {**line, "waits": _most_waits(waits)} if waits else line


if __name__ == "__main__":
    version, reason = sys.argv[1:]
    entry = {"python": version, **_system_and_date(), "reason": reason}
    put(Path(os.environ.get("RUN_LOG", LOG)), entry)
