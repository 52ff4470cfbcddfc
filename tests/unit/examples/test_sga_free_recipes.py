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


def test_the_references_of_pairs_are_not_read_when_they_are_decoded(tmp_path: Path) -> None:
    """fairseq-generate leaves out a sentence whose reference is longer than the model's outputs."""
    read = tmp_path / "out" / "sga" / "sources"
    assert given(tmp_path, "generate", "pairs", "mask_predict")[0] == str(read)
    assert {file.name: file.read_text(encoding="utf-8") for file in read.iterdir()} == {
        name: name for name in BIN if ".target." not in name or name.startswith("dict")
    }
    assert given(tmp_path, "generate", "pairs", "mask_predict")[0] == str(read), "a second time too"
    assert given(tmp_path, "generate", "data_to_text", "mask_predict")[0] == str(tmp_path / "out" / "bin")
    assert given(tmp_path, "train", "pairs", "mask_predict")[0] == str(tmp_path / "out" / "bin")


def test_some_examples_of_a_split(tmp_path: Path) -> None:
    """Spread over it, the same lines of every file of the split, references too, and all of training."""
    data, text = tmp_path / "data", tmp_path / "out" / "text"
    data.mkdir()
    for split in ("train", "valid", "test"):
        for side in ("source", "target"):
            (data / f"{split}.{side}").write_text("".join(f"{line}\n" for line in range(7)), encoding="utf-8")
    environment = {**os.environ, "PYTHON": "true", "TEST_LINES": "3", "VALID_LINES": "9"}
    command = ["bash", "examples/sga/prepare_free.sh", "pairs", str(data), str(tmp_path / "out")]
    subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=False)  # nothing makes the data-bin
    whole = "0123456"
    found = {path.name: path.read_text(encoding="utf-8").replace("\n", "") for path in text.iterdir()}
    assert found == {f"{split}.{side}": kept for split, kept in (("train", whole), ("valid", whole), ("test", "246"))
                     for side in ("source", "target")}  # fmt: skip


@pytest.mark.parametrize(("script", "source", "target"), [("prepare_free.sh {task} data {out}", 254, 80),
                                                          ("pretrain_free.sh {task} data {out} 1", 4094, 4096)])  # fmt: skip
def test_the_frozen_model_sees_texts_of_any_length(tmp_path: Path, script: str, source: int, target: int) -> None:
    """What training leaves out is counted in the frozen model's pieces, which are not there before its text is."""
    program = tmp_path / "python"
    program.write_text(f"#!/usr/bin/env bash\necho \"$@\" >>'{tmp_path}/calls'\n", encoding="utf-8")
    program.chmod(0o755)
    environment = {**os.environ, "PYTHON": str(program)}
    command = ["bash", *f"examples/sga/{script}".format(task="data_to_text", out=tmp_path / "out").split()]
    subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=False)  # its files are not there
    first, *later = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    if script.startswith("pretrain"):
        assert later[0].startswith("-m data_prep.spm train "), "no other model's pieces, which may not know the script"
    assert first.startswith("-m data_prep.triples ") and f"--max-source {source} --max-target {target}" in first
