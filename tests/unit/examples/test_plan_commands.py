"""The commands of the shipped sweeps: filled in, read by bash, of scripts that exist."""

import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "examples" / "miniature"))
from plan import read_plan

PLANS = sorted((ROOT / "examples" / "miniature").glob("*.yaml"))


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_bash_reads_every_command_and_its_scripts_exist(path):
    plan = read_plan(path)
    names = {"out": "out", "data": "data", "run": "run", "hours": 0.1, "seed": 1, "pair": plan.directions[0], "keep": "k"}
    commands = [*plan.prepare, *(command for arm in plan.arms for command in (arm.train, arm.evaluate))]
    text = "\n".join(command.format(**names, options="--cpu") for command in commands)
    done = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    named = re.findall(r"(?:bash|\$PYTHON|python) (\S+\.(?:sh|py))", text)
    assert not [script for script in named if not (ROOT / script).is_file()]
