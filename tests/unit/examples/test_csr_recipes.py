"""The scripts of the restore stage: what they give to the stock commands and where their outputs go."""

import os
import subprocess
from pathlib import Path
from typing import List

from tests.contract.repository import ROOT

PROGRAM = """#!/usr/bin/env bash
# Stands for Python and the stock commands: notes its arguments, writes the output that they name.
echo "$(basename "$0") $*" >>"$CALLS"
while [ $# -gt 1 ]; do [ "$1" != --output ] || echo x >"$2"; shift; done
"""


def calls(folder: Path, command: str, **env: str) -> List[str]:
    """Command lines that a script runs when its programs do nothing."""
    for name in ("python", "fairseq-train", "fairseq-generate", "fairseq-validate", "fairseq-preprocess"):
        (folder / name).write_text(PROGRAM, encoding="utf-8")
        (folder / name).chmod(0o755)
    noted = folder / "calls"
    noted.unlink(missing_ok=True)
    given = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PYTHON": str(folder / "python"), "CALLS": str(noted)}
    line = ["bash", *f"examples/csr/{command}".split()]
    done = subprocess.run(line, cwd=ROOT, env={**os.environ, **given, **env}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return noted.read_text(encoding="utf-8").splitlines()


def test_zero_shot_decoding_leaves_the_outputs_of_the_pair_alone(tmp_path: Path) -> None:
    calls(tmp_path, f"generate.sh {tmp_path} run", PAIR="de-en")
    calls(tmp_path, f"generate.sh {tmp_path} run", PAIR="fr-en", BIN=str(tmp_path / "other"))
    files = sorted(path.relative_to(tmp_path / "run").as_posix() for path in (tmp_path / "run").rglob("*.*"))
    assert files == [
        "beam.en",
        "fr-en/beam.en",
        "fr-en/generate.err",
        "fr-en/generate.log",
        "generate.err",
        "generate.log",
    ]


def test_a_language_that_the_model_lacks_is_named(tmp_path: Path) -> None:
    line = ["bash", "examples/csr/nli.sh", "test", str(tmp_path), "run"]
    env = {**os.environ, "LANGS": "en_XX,de_DE", "TESTS": "en,fr"}
    done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode != 0 and done.stderr == "LANGS is en_XX,de_DE; it has no language fr\n"
