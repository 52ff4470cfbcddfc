"""Apply each one-line defect of the lists beside this file to a copy of the checkout; its tests must turn red.

``make mutants``, or ``python tests/mutants/run.py [--only NAME] [--jobs N]``. One process imports torch and fairseq once and
forks a child for every defect, so a defect costs little more than its tests. The working tree is never changed.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

try:
    import tomllib
except ImportError:  # Python < 3.11, where pytest brings it under its old name
    import tomli as tomllib  # type: ignore[no-redef]

LISTS = Path(__file__).resolve().parent
ROOT = LISTS.parents[1]
FOLDERS = ("fairseq_plugins", "data_prep", "examples", "benchmarks", "tests")
PRELOADED = ("pytest", "torch", "safetensors.torch", "fairseq_cli.train", "fairseq_cli.generate")
ENTRIES = {"old", "new", "tests"}
LIMIT_SECONDS = 300.0
GREEN, RED = 0, 1  # pytest's exit statuses: all passed, some failed; every other one is no verdict


class Mutant(NamedTuple):
    """One defect.

    Attributes:
        file: path below the root.
        why: what the defect is; names it together with the file.
        old: a piece of one line, which occurs exactly once in the file.
        new: what takes its place.
        tests: pytest ids; at least one must fail.
    """

    file: str
    why: str
    old: str
    new: str
    tests: Tuple[str, ...]

    @property
    def name(self) -> str:
        """As in the list."""
        return f"{self.file}: {self.why}"


def parse(text: str, origin: str) -> List[Mutant]:
    """Read one list.

    Raises:
        ValueError: an entry without file or reason, with other keys than old, new and tests, or that changes nothing.
    """
    found = []
    for name, entry in tomllib.loads(text).items():
        file, _, why = name.partition(": ")
        if not why or not isinstance(entry, dict) or set(entry) != ENTRIES:
            raise ValueError(
                f'{origin}: expected ["FILE: WHY"] with old, new and tests; found [{name!r}] with {entry!r}'
            )
        mutant = Mutant(file, why, entry["old"], entry["new"], tuple(entry["tests"].split()))
        if mutant.old == mutant.new or not mutant.old or "\n" in mutant.old + mutant.new or not mutant.tests:
            raise ValueError(f"{origin}: {name}: old and new must be different pieces of one line, and tests be named")
        found.append(mutant)
    return found


def load(folder: Path = LISTS) -> List[Mutant]:
    """Every defect of every list in a folder."""
    return [mutant for file in sorted(folder.glob("*.toml")) for mutant in parse(file.read_text("utf-8"), file.name)]


def misplaced(mutant: Mutant, root: Path) -> Optional[str]:
    """Why a defect cannot be applied, or None."""
    path = root / mutant.file
    if not path.is_file():
        return "no such file"
    count = path.read_text("utf-8").count(mutant.old)
    return None if count == 1 else f"its old text occurs {count} times in the file, expected once"


def copy_tree(root: Path, target: Path) -> Path:
    """Copy what the tests need."""
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in FOLDERS:
        if (root / name).is_dir():
            shutil.copytree(root / name, target / name, ignore=ignore)
    for path in root.iterdir():
        if path.is_file():
            shutil.copy2(path, target / path.name)
    return target


def start(tests: Sequence[str], tree: Path, log: Path) -> int:
    """Run pytest on a copy in a forked child. Returns its process id."""
    child = os.fork()
    if child:
        return child
    status = 4
    try:
        os.setsid()  # so that a child that runs too long ends with its own children
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.chdir(tree)
        os.environ["PYTHONPATH"] = str(tree)
        sys.path.insert(0, str(tree))
        import pytest

        status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def wait(running: Dict[int, float], limit: float) -> Tuple[int, Optional[int]]:
    """Wait for one of the children (process id -> start time). Returns it and its exit status, None = took too long."""
    while True:
        for child, began in running.items():
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return child, os.waitstatus_to_exitcode(status)
            if time.time() - began > limit:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return child, None
        time.sleep(0.02)


def verdicts(
    mutants: Sequence[Mutant], root: Path, work: Path, jobs: int, limit: float
) -> Iterator[Tuple[Mutant, str, float]]:
    """(defect, "red" or what is wrong, seconds) as they end."""
    trees = [copy_tree(root, work / f"copy{number}") for number in range(min(jobs, len(mutants)))]
    waiting, running = list(mutants), {}
    started: Dict[int, float] = {}
    while waiting or running:
        while waiting and trees:
            mutant, tree = waiting.pop(0), trees.pop()
            wrong = misplaced(mutant, tree)
            if wrong:
                trees.append(tree)
                yield mutant, wrong, 0.0
                continue
            path = tree / mutant.file
            original = path.read_text("utf-8")
            path.write_text(original.replace(mutant.old, mutant.new), "utf-8")
            log = work / f"{len(waiting)}.log"
            child = start(mutant.tests, tree, log)
            running[child], started[child] = (mutant, tree, original, log), time.time()
        if not running:
            continue
        child, status = wait(started, limit)
        mutant, tree, original, log = running.pop(child)
        (tree / mutant.file).write_text(original, "utf-8")
        trees.append(tree)
        yield mutant, _verdict(status, log, limit), time.time() - started.pop(child)


def _verdict(status: Optional[int], log: Path, limit: float) -> str:
    if status == RED:
        return "red"
    if status == GREEN:
        return "SURVIVED: its tests stay green"
    end = " | ".join(log.read_text("utf-8", "replace").splitlines()[-3:])
    return f"no verdict: still running after {limit:.0f} s" if status is None else f"no verdict: status {status}: {end}"


def baseline(tests: Sequence[str], root: Path, work: Path, limit: float) -> str:
    """Run the named tests once on an unchanged copy. Returns "" or the end of pytest's output."""
    log = work / "baseline.log"
    child = start(tests, copy_tree(root, work / "baseline"), log)
    _, status = wait({child: time.time()}, limit)
    return (
        ""
        if status == GREEN
        else f"status {status}\n" + "\n".join(log.read_text("utf-8", "replace").splitlines()[-30:])
    )


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def run(mutants: Sequence[Mutant], root: Path, jobs: int, limit: float = LIMIT_SECONDS) -> int:
    """Check the baseline, then every defect. Returns the exit status: 0 when each of them turned a test red."""
    began = time.time()
    os.environ.update(PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        work = Path(folder)
        tests = sorted({test for mutant in mutants if not misplaced(mutant, root) for test in mutant.tests})
        wrong = baseline(tests, root, work, 4 * limit) if tests else ""
        if wrong:
            _say(f"the named tests are not green without any defect: {wrong}")
            return 2
        _say(f"{len(tests)} tests are green without a defect ({time.time() - began:.0f} s); {len(mutants)} defects:")
        rows = []
        for mutant, verdict, seconds in verdicts(mutants, root, work, jobs, limit):
            rows.append((mutant, verdict))
            _say(
                f"{len(rows):3d}/{len(mutants)}  {seconds:5.1f} s  {'red ' if verdict == 'red' else 'NOT RED'}  {mutant.name}"
            )
    bad = [(mutant, verdict) for mutant, verdict in rows if verdict != "red"]
    _say("\n| file | defects | red |\n|---|---|---|")
    for file in sorted({mutant.file for mutant in mutants}):
        of_file = [verdict for mutant, verdict in rows if mutant.file == file]
        _say(f"| {file} | {len(of_file)} | {of_file.count('red')} |")
    for mutant, verdict in bad:
        _say(f"\n{mutant.name}\n  - {mutant.old}\n  + {mutant.new}\n  {verdict}\n  tests: {' '.join(mutant.tests)}")
    _say(f"\n{len(rows) - len(bad)} of {len(rows)} defects turned a test red, {time.time() - began:.0f} s")
    return 1 if bad else 0


def main(argv: Optional[Sequence[str]] = None, root: Path = ROOT, preload: Sequence[str] = PRELOADED) -> int:
    """Run the command; exit status 0, 1 (survivors, or lists that no longer fit) or 2 (the baseline is red)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="NAME", help="defects whose name (FILE: WHY) contains this text")
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="defects at the same time, at least 1 (default 1)"
    )
    args = parser.parse_args(argv)
    mutants = [mutant for mutant in load(root / "tests" / "mutants") if (args.only or "") in mutant.name]
    if args.jobs < 1 or not mutants:
        parser.error(
            f"--jobs {args.jobs}: at least 1; --only {args.only!r}: must occur in a name of tests/mutants/*.toml"
        )
    os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported: its threads do not survive a fork
    for module in preload:
        __import__(module)
    return run(mutants, root, args.jobs)


if __name__ == "__main__":
    sys.exit(main())
