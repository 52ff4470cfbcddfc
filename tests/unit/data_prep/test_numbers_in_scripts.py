"""Test that bash scripts check numbers: bash runs the command in ``x[$(command)]``."""

import os
import re
import subprocess
import sys

import pytest

from tests.contract.repository import ROOT

FOLDERS = (ROOT / "data_prep", ROOT / "examples" / "quickstart")
SCRIPTS = sorted(path for folder in FOLDERS for path in folder.glob("*.sh"))
UNCHANGED = {"PYTHON", "PYTHONPATH", "PATH", "BASH_SOURCE", "EXIT"}
CORPUS = "--out out --archive corpus.tgz"
PREPROCESS = "--text text --model corpus.tgz --dict corpus.tgz --pairs de-en --out out"
DISTILL = "--data bin --pair de-en --checkpoint corpus.tgz --out out"


def run(script, arguments, folder, variables):
    (folder / "corpus.tgz").touch()
    out = {"PYTHON": sys.executable, "OUT": str(folder / "out")}
    line = ["bash", str(ROOT / script), *arguments]
    pipes = {"capture_output": True, "text": True, "timeout": 120, "check": False}
    return subprocess.run(line, cwd=folder, env={**os.environ, **out, **variables}, **pipes)


@pytest.mark.cases(
    "script arguments number values",
    ("data_prep/ted.sh", CORPUS, "--workers", ["-1", "0"]),
    ("data_prep/preprocess.sh", PREPROCESS, "--workers", ["-1", "0"]),
    ("data_prep/distill.sh", DISTILL, "--shards", ["-1", "0"]),
    ("examples/quickstart/run.sh", "", "UPDATES", ["-1", "0"]),
    ("examples/quickstart/run.sh", "", "TOY_SEED", ["-1"]),
)
def test_a_bad_number_is_refused_before_anything_runs(tmp_path, script, arguments, number, values):
    for value in [f"x[$(touch {tmp_path / 'ran'})]", *values]:
        is_option = number.startswith("--")
        option, variables = ([number, value], {}) if is_option else ([], {number: value})
        process = run(script, [*arguments.split(), *option], tmp_path, variables)
        assert process.returncode == 2
        assert number in process.stderr and "whole number" in process.stderr
        assert not (tmp_path / "ran").exists() and not (tmp_path / "out").exists()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_no_variable_of_the_environment_is_run(tmp_path, script):
    """Set every name that a script uses, also those that it sets itself."""
    variables = re.findall(r"\$\{?[!#]?([A-Za-z_]\w*)", script.read_text(encoding="utf-8"))
    bait = f"x[$(touch {tmp_path / 'ran'})]"
    environment = dict.fromkeys(sorted({*variables} - UNCHANGED), bait)
    run(str(script), [*CORPUS.split(), "--workers", "1"], tmp_path, environment)
    assert not (tmp_path / "ran").exists()
