"""``tests/run_log.jsonl``: where the tests were run, a line for each Python, system and device, and what came of it.

``RUN_LOG=tests/run_log.jsonl make test DEVICE=pretend`` puts in the line of this Python and device, ``make test-pythons`` those of
several Pythons. ``python -m tests.run_log VERSION REASON`` says why a Python has no run.
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
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def put(path, line):
    """Put in a line, for that of the same minor version of Python, system and device."""
    lines = [other for other in read(path) if _key(other) != _key(line)] + [line]
    texts = [json.dumps(one, ensure_ascii=False) for one in sorted(lines, key=_key)]
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def _key(line):
    return tuple(map(int, line["python"].split(".")[:2])), line["system"], line.get("on", "cpu")


def _where():
    return {"system": f"{platform.system()} {platform.machine()}", "date": str(date.today())}


def _commit():
    """The commit of the checkout; that something differs from it is said."""
    git = ["git", "-C", str(ROOT)]
    commands = (
        ["rev-parse", "--short", "HEAD"],
        ["status", "--porcelain", ".", ":!docs/running.md", ":!tests/run_log.jsonl"],
    )
    commit, changes = (
        subprocess.run([*git, *rest], capture_output=True, text=True, check=False).stdout for rest in commands
    )
    return commit.strip() + (" with changes" if changes else "")


def _worst(waits):
    """Kind of training -> the most waits that one of its runs had."""
    worst = {}
    for one in waits:
        worst[one["training"]] = max(one["waits"], worst.get(one["training"], []), key=len)
    return dict(sorted(worst.items()))


def finished(reporter, device_name):
    """The line of a run of pytest; ``reporter``: pytest's, which has the reports of all workers."""
    import torch

    from benchmarks import report

    installed = {distribution.metadata["Name"] for distribution in importlib.metadata.distributions()}
    fairseq = "fairseq-fixed" if "fairseq-fixed" in installed else "fairseq"
    waits = read(Path(os.environ["PRETEND_TABLE"])) if "PRETEND_TABLE" in os.environ else []
    kinds = {kind: reporter.stats.get(kind, []) for kind in ("passed", "failed", "error", "skipped")}
    files = {one.nodeid.partition("::")[0] for reports in kinds.values() for one in reports}
    reasons = Counter(one.longrepr[2].removeprefix("Skipped: ") for one in kinds["skipped"])
    return {
        **report.describe_machine(torch.device("cuda" if device_name == "cuda" else "cpu")),
        **_where(),
        "on": device_name,
        "gpu": torch.cuda.is_available(),
        "fairseq": f"{fairseq} {importlib.metadata.version(fairseq)}",
        "commit": _commit(),
        "install_seconds": int(os.environ["INSTALL_SECONDS"]) if "INSTALL_SECONDS" in os.environ else None,
        "test_seconds": round(time.monotonic() - START),
        "files": [len(files), len(list(ROOT.glob("tests/**/test_*.py")))],
        "passed": len(kinds["passed"]),
        "failed": len(kinds["failed"]) + len(kinds["error"]),
        "skipped": dict(reasons.most_common()),
        **({"waits": _worst(waits)} if waits else {}),
    }


if __name__ == "__main__":
    put(Path(os.environ.get("RUN_LOG", LOG)), {"python": sys.argv[1], **_where(), "reason": sys.argv[2]})
