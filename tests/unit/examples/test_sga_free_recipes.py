"""The scripts of SGA's free generation: the limit of the sources is one for both alignments, only pairs are cut when read."""

import os
import subprocess
from pathlib import Path
from typing import List

import pytest

from tests.contract.repository import ROOT

PRINTS = "#!/usr/bin/env bash\nprintf '%s\\n' \"$@\"\n"
BIN = [f"test.source-target.{side}.{kind}" for side in ("source", "target") for kind in ("bin", "idx")]
BIN += ["dict.source.txt", "dict.target.txt"]
CUT = ["--max-source-positions", "50", "--truncate-source"]


def given(folder: Path, script: str, task: str, alignment: str) -> List[str]:
    """What a script gives to fairseq, with 100 positions; a command that prints its arguments stands for fairseq's."""
    name = f"fairseq-{script}"
    data = folder / "out" / "bin"
    data.mkdir(parents=True, exist_ok=True)
    for file in BIN:
        (data / file).write_text(file, encoding="utf-8")
    (folder / name).write_text(PRINTS, encoding="utf-8")
    (folder / name).chmod(0o755)
    more = {"train": ["0.5", "1"], "generate": ["4"]}[script]
    done = subprocess.run(
        ["bash", f"examples/sga/{script}_free.sh", task, str(folder / "out"), "sga", *more],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHON": "true", "POSITIONS": "100", "ALIGNMENT": alignment},
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    log = folder / "out" / "sga" / "generate-4-10.log"
    return (log.read_text(encoding="utf-8") if script == "generate" else done.stdout).splitlines()


@pytest.mark.parametrize("script", ["train", "generate"])
@pytest.mark.parametrize("alignment", ["mask_predict", "ctc"])
def test_only_the_text_of_pairs_is_cut_when_it_is_read(tmp_path: Path, script: str, alignment: str) -> None:
    """Elsewhere the end of a source is the answer of a question, which must stay."""
    pairs = given(tmp_path, script, "pairs", alignment)
    place = pairs.index("--truncate-source")
    assert pairs[place - 2 : place + 1] == CUT
    assert (alignment in pairs) is (script == "train")
    for task in ("question_generation", "data_to_text", "summarisation"):
        arguments = given(tmp_path, script, task, alignment)
        assert "--user-dir" in arguments
        assert not set(CUT[::2]) & set(arguments)
