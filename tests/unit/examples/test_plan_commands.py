"""The commands of the shipped sweeps: filled in, read by bash, run with programs that do nothing or fail."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Iterator, Tuple

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "examples" / "miniature"))
from plan import Arm, Plan, read_plan

PROGRAM = """#!/usr/bin/env bash
# Writes the files that the options name, as the program would.
{head}
while [ $# -gt 0 ]; do
    case $1 in
        --output | --json) mkdir -p "$(dirname "$2")"; echo x >"$2";;
    esac
    shift
done
"""
PLANS = sorted((ROOT / "examples" / "miniature").glob("*.yaml"))


def arms() -> Iterator[Tuple[Plan, Arm]]:
    """Every arm of every plan."""
    for path in PLANS:
        plan = read_plan(path)
        for arm in plan.arms:
            yield plan, arm


def filled(plan: Plan, arm: Arm, out: Path) -> Tuple[str, str]:
    """Training and evaluation of an arm, as the sweep runs them."""
    names = {"out": out, "run": "final/a", "hours": 0.1, "seed": 1, "pair": plan.directions[0]}
    options = " ".join(map(str, arm.grid[0]))
    return arm.train.format(**names, options=f"{options} --cpu"), arm.evaluate.format(**names, keep=out / "keep")


CASES = [pytest.param(plan, arm, id=f"{plan.name}-{arm.name}") for plan, arm in arms()]


@pytest.mark.parametrize(("plan", "arm"), CASES)
def test_bash_reads_them_and_their_scripts_exist(plan: Plan, arm: Arm) -> None:
    prepare = [command.format(data="data", out="out") for command in plan.prepare]
    for command in (*filled(plan, arm, Path("out")), *prepare):
        assert not re.search(r"[^$]\{[a-z]+\}", command), command
        done = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, (command, done.stderr)
        named = re.findall(r"(?:bash|\$PYTHON|python) (\S+\.(?:sh|py))", command)
        missing = [script for script in named if not (ROOT / script).is_file()]
        assert not missing, missing


@pytest.mark.parametrize(("plan", "arm"), CASES)
def test_an_evaluation_writes_its_outputs_and_fails_with_any_program(plan: Plan, arm: Arm, tmp_path: Path) -> None:
    programs, out = tmp_path / "bin", tmp_path / "out"
    programs.mkdir()
    (out / "final" / "a").mkdir(parents=True)
    environment = dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}", PYTHON=str(programs / "python"))

    def evaluate(head: str) -> "subprocess.CompletedProcess[str]":
        for name in ("python", "fairseq-train", "fairseq-generate", "fairseq-validate"):
            (programs / name).write_text(PROGRAM.format(head="" if name == "python" else head), encoding="utf-8")
            (programs / name).chmod(0o755)
        train, last = filled(plan, arm, out)
        command = [
            "bash",
            "-c",
            last if "bash" in last else f"{train} && {last}",
        ]  # a training that tests what it trained
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)

    done = evaluate("")
    assert done.returncode == 0, done.stderr
    found = {path.name for path in (out / "keep").iterdir()}
    ending = plan.target(plan.directions[0]) if not plan.metrics else ""
    wanted = {f"{stem}.{ending}" for stem in arm.outputs} if ending else set()
    assert wanted <= found, (wanted, found)
    for stem in arm.outputs if plan.metrics else ():
        assert {f"{stem}.log", f"{stem.partition('.')[0]}.json"} & found, (stem, found)
    failing = f'[ -e "{tmp_path}/failed" ] || {{ touch "{tmp_path}/failed"; exit 3; }}'
    assert evaluate(failing).returncode != 0, "the first of its programs failed, the others did not"
