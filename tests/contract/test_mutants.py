"""The lists of one-line defects fit the code as it is, and the runner finds survivors and lists that do not fit.

``make mutants`` runs them; here it is only checked that they could run.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from tests.contract.repository import ROOT, missing_test
from tests.mutants import run

LEAST = 25
CODE = "def double(x):\n    return x * 2\n\n\ndef same(x):\n    return x\n"
TEST = "import code_\n\n\ndef test_double():\n    assert code_.double(2) == 4\n"
ENTRY = '["pkg/code_.py: {why}"]\nold = "{old}"\nnew = "{new}"\ntests = "tests/test_code.py::test_double"\n'


def test_every_defect_can_be_applied_and_its_tests_exist() -> None:
    mutants = run.load()
    problems: List[str] = []
    for mutant in mutants:
        wrong = [run.misplaced(mutant, ROOT), *(missing_test(test) for test in mutant.tests)]
        problems += [f"tests/mutants: [{mutant.name}]: {reason}" for reason in wrong if reason]
    assert problems == []
    assert len(mutants) >= LEAST
    assert len({mutant.name for mutant in mutants}) == len(mutants)
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in mutants}) == len(mutants)


@pytest.mark.parametrize(
    "text",
    [
        '["no reason"]\nold = "a"\nnew = "b"\ntests = "t"',
        '["f.py: why"]\nold = "a"\nnew = "b"',
        '["f.py: why"]\nold = "a"\nnew = "b"\ntests = "t"\nmore = 1',
        '["f.py: why"]\nold = "a"\nnew = "a"\ntests = "t"',
        '["f.py: why"]\nold = "a\\nb"\nnew = "a"\ntests = "t"',
        '["f.py: why"]\nold = ""\nnew = "a"\ntests = "t"',
        '["f.py: why"]\nold = "a"\nnew = "b"\ntests = " "',
    ],
)
def test_a_wrong_entry_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"list\.toml: "):
        run.parse(text, "list.toml")


@pytest.mark.parametrize("test", ["tests/none.py", "tests/builders.py::pad", "tests/contract/test_files.py::test_none"])
def test_a_test_that_is_not_there_is_found(test: str) -> None:
    assert missing_test(test)
    assert not missing_test("tests/contract/test_files.py::test_other_paths_pass[../shared/data/x]")


def checkout(folder: Path, *entries: str) -> Path:
    """A checkout with one function, one test and a list of defects."""
    for name in ("pkg", "tests/mutants"):
        (folder / name).mkdir(parents=True)
    (folder / "pkg" / "code_.py").write_text(CODE)
    (folder / "tests" / "test_code.py").write_text("import sys\nsys.path.insert(0, 'pkg')\n" + TEST)
    (folder / "tests" / "mutants" / "all.toml").write_text("\n".join(entries))
    return folder


def start(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the runner on another checkout, without torch and fairseq."""
    script = (
        "import pathlib, sys; from tests.mutants import run; run.FOLDERS = ('pkg', 'tests'); "
        "sys.exit(run.main(sys.argv[2:], pathlib.Path(sys.argv[1]), ('pytest',)))"
    )
    command = [sys.executable, "-c", script, str(root), *arguments]
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=120)


def test_the_runner_tells_red_survivors_and_lists_that_do_not_fit(tmp_path: Path) -> None:
    red = ENTRY.format(why="adds", old="x * 2", new="x * 3")
    survivor = ENTRY.format(why="has a default", old="def same(x):", new="def same(x=3):")
    twice = ENTRY.format(why="fits twice", old="return x", new="return 1")
    broken = ENTRY.format(why="cannot be imported", old="def double(x):", new="def double(x:")
    root = checkout(tmp_path / "a", red, survivor, twice, broken)
    before = (root / "pkg" / "code_.py").read_text()
    done = start(root, "--jobs", "2")
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert "| pkg/code_.py | 4 | 1 |" in lines
    assert [line.split()[-1] for line in lines if "  red  " in line or "s  red" in line] == ["adds"]
    assert "SURVIVED: its tests stay green" in done.stdout
    assert "its old text occurs 2 times in the file, expected once" in done.stdout
    assert "no verdict: status " in done.stdout
    assert (root / "pkg" / "code_.py").read_text() == before
    only = start(root, "--only", "adds")
    assert only.returncode == 0, only.stdout + only.stderr
    assert "1 of 1 defects turned a test red" in only.stdout
    assert start(root, "--only", "nothing of this name").returncode == 2


def test_tests_that_are_red_anyway_prove_nothing(tmp_path: Path) -> None:
    root = checkout(tmp_path / "a", ENTRY.format(why="adds", old="x * 2", new="x * 3"))
    (root / "tests" / "test_code.py").write_text("def test_double():\n    assert False\n")
    done = start(root)
    assert done.returncode == 2
    assert "the named tests are not green without any defect" in done.stdout
