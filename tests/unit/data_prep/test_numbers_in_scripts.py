"""Numbers that the bash scripts take: bash would run the command in ``x[$(command)]`` where it computes with such a value."""

import os
import re
import subprocess
import sys

import pytest

from tests.contract.repository import ROOT

SCRIPTS = sorted([*(ROOT / "data_prep").glob("*.sh"), *(ROOT / "examples" / "quickstart").glob("*.sh")])
KEPT = {"PYTHON", "PYTHONPATH", "PATH", "BASH_SOURCE", "EXIT"}
CORPUS = ["--out", "out", "--archive", "corpus.tgz"]
PREPROCESS = ["--text", "text", "--model", "corpus.tgz", "--dict", "corpus.tgz", "--pairs", "de-en", "--out", "out"]
NUMBERS = [
    *((f"data_prep/{name}.sh", CORPUS, "--workers") for name in ("ted", "iwslt14", "wmt14", "ml50")),
    ("data_prep/preprocess.sh", PREPROCESS, "--workers"),
    ("data_prep/distill.sh", "--data bin --pair de-en --checkpoint corpus.tgz --out out".split(), "--shards"),
    ("examples/quickstart/run.sh", [], "UPDATES"),
    ("examples/quickstart/run.sh", [], "TOY_SEED"),
]
VALUES = ["x[$(touch {marker})]", "1+1", "-1", "two"]


def run(script, arguments, folder, variables):
    (folder / "corpus.tgz").touch()
    environment = {**os.environ, "PYTHON": sys.executable, "OUT": str(folder / "out"), **variables}
    line = ["bash", str(ROOT / script), *arguments]
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("script", "arguments", "number", "value"),
    [(*row, value) for row in NUMBERS for value in [*VALUES, *(["0"] if row[2] != "TOY_SEED" else [])]],
)
def test_a_number_is_checked_first(tmp_path, script, arguments, number, value):
    value = value.format(marker=tmp_path / "ran")
    option, variable = ([number, value], {}) if number.startswith("--") else ([], {number: value})
    done = run(script, [*arguments, *option], tmp_path, variable)
    assert done.returncode == 2 and number in done.stderr and "whole number" in done.stderr
    assert not (tmp_path / "ran").exists() and not (tmp_path / "out").exists()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_no_variable_of_the_environment_is_run(tmp_path, script):
    """Every name that a script uses, from outside: also those that it means to set itself."""
    names = set(re.findall(r"\$\{?[!#]?([A-Za-z_]\w*)", script.read_text(encoding="utf-8"))) - KEPT
    bait = f"x[$(touch {tmp_path / 'ran'})]"
    run(str(script), [*CORPUS, "--workers", "1"], tmp_path, dict.fromkeys(sorted(names), bait))
    assert not (tmp_path / "ran").exists()
