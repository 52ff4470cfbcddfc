"""The bash script of data_prep.nlu: the bytes of fairseq-preprocess, and errors that leave nothing behind."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from data_prep.spm import apply
from tests.nlu_raw import model_and_dictionary, write


def script(root: Path, *arguments: Any) -> "subprocess.CompletedProcess[str]":
    """Run data_prep/nlu.sh from another folder."""
    line = ["bash", str(root / "data_prep/nlu.sh"), *map(str, arguments)]
    return subprocess.run(
        line, cwd=root.parent, env={**os.environ, "PYTHON": sys.executable}, capture_output=True, text=True, timeout=300
    )


def test_the_script_writes_what_fairseq_preprocess_writes(repo_root: Path, tmp_path: Path, run_cli: Any) -> None:
    model, dictionary = model_and_dictionary(tmp_path / "model")
    lines = ["the cat saw １２", "der Hund 🙂", "日本語の文 ½"]
    train = write(tmp_path / "train.tsv", *(f"{line}\tclass{number % 2}" for number, line in enumerate(lines)))
    bad = write(tmp_path / "bad.tsv", "a\tclass0", "a")
    options = ["--sentencepiece", model, "--dict", dictionary, f"train.en={train}", "--text", "1"]
    out = tmp_path / "bin" / "nlu"
    failed = script(repo_root, "sentences", out, *options, f"test.de={bad}")
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr
    last = failed.stderr.strip().split("\n")[-1]
    assert last == f"nlu: error: input test.de: {bad}, line 2: 1 columns; valid: 2, separated by tabs, as in line 1"
    assert not (tmp_path / "bin").exists()
    done = script(repo_root, "sentences", out, *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("| set      | rows |")
    assert "INFO" not in done.stderr

    pieces = tmp_path / "pieces.en"
    text = write(tmp_path / "text.en", *lines)
    apply(model, [text], [pieces], dictionary, max_unknown=1.0)
    made = tmp_path / "made"
    line = ["--source-lang", "en", "--trainpref", tmp_path / "pieces", "--srcdict", dictionary, "--destdir", made]
    run_cli("preprocess", "--only-source", *line)
    for part in ("bin", "idx"):
        assert (made / f"train.en-None.en.{part}").read_bytes() == (out / f"input0/train.en.{part}").read_bytes()
    assert (made / "dict.en.txt").read_bytes() == (out / "input0/dict.txt").read_bytes() == dictionary.read_bytes()


def test_the_script_explains_itself(repo_root: Path) -> None:
    for arguments, status in (([], 2), (["--help"], 0)):
        shown = script(repo_root, *arguments)
        assert shown.returncode == status
        assert "usage: bash data_prep/nlu.sh VERB OUT" in shown.stdout + shown.stderr
    listed = script(repo_root, "questions", "--help").stdout
    assert "xtreme-xquad" in listed
    assert "--label-map" not in listed
