"""The scripts of the restore stage: what they give to the stock commands and where their outputs go."""

import os
import subprocess
from pathlib import Path
from typing import List, Tuple

import pytest

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


@pytest.mark.parametrize(("more", "by_bleu"), [("", False), ("--restore-updates 2", True)])
def test_the_best_checkpoint_of_both_stages_is_that_of_the_translation(
    tmp_path: Path, more: str, by_bleu: bool
) -> None:
    (line,) = calls(tmp_path, f"restore.sh {tmp_path} mbart.pt run 4 1 {more}")
    assert ("--best-checkpoint-metric bleu" in line) is by_bleu and ("--eval-bleu " in line) is by_bleu
    (line,) = calls(tmp_path, f"finetune.sh {tmp_path} mbart.pt run 4 1")
    assert "--best-checkpoint-metric bleu" in line


@pytest.mark.parametrize(("pair", "most"), [("en-de", 130), ("en-zh", 160), ("zh-en", 130), ("en_XX-zh_CN", 160)])
def test_documents_and_summaries_are_cut(tmp_path: Path, pair: str, most: int) -> None:
    for name in ("sentencepiece.bpe.model", "dict.txt"):
        (tmp_path / name).write_text("x\n", encoding="utf-8")
    (tmp_path / "text").mkdir()
    for split in ("train", "valid", "test"):
        for language in pair.split("-"):
            (tmp_path / "text" / f"{split}.{language}").write_text("x\n", encoding="utf-8")
    found = calls(tmp_path, f"summaries.sh data {tmp_path} {tmp_path} --top 3", PAIR=pair)
    first = next(line for line in found if "data_prep.summaries" in line)
    assert (
        f"--langs {pair.replace('-', ' ')} " in first and f"--max-source 220 --max-target {most} --cut-target" in first
    )
    lexicon = next(line for line in found if "data_prep.lexicon" in line)
    source = pair.partition("-")[0]
    assert f"--source {tmp_path}/text/train.{source}" in lexicon and lexicon.endswith("--top 3")


@pytest.mark.parametrize("own", [("en", "de", "fr"), ("en_XX", "de_DE", "fr_XX")])
def test_languages_have_the_names_of_the_model(tmp_path: Path, own: Tuple[str, str, str]) -> None:
    """Files are called as ever."""
    english, german, french = own
    env = {"LANGS": f"{german},{english},{french}", "TESTS": "en,de,fr"}
    (line,) = calls(tmp_path, f"nli.sh restore {tmp_path} mbart.pt run 4 1", **env)
    lexicons = [f"{english}-{other}={tmp_path}/lexicon/en-{other[:2]}.tsv" for other in (german, french)]
    assert f"--lexicon {','.join(lexicons)} " in line and f"--restore-langs {english} " in line
    assert f"--source-lang {english} --target-lang {english} " in line
    (line,) = calls(tmp_path, f"nli.sh finetune {tmp_path} run run2 4 1", **env)
    assert f"--train-subset train.{english} --valid-subset valid.{english} " in line
    (line,) = calls(tmp_path, f"nli.sh test {tmp_path} run", **env)
    assert f"--valid-subset test.{english},test.{german},test.{french} " in line
    data = tmp_path / "data"
    for file in ("xnli/mnli_train.en.tsv", "xnli/dev.en.tsv", "lexicon/en-de.train.tsv", "lexicon/en-fr.train.tsv"):
        (data / file).parent.mkdir(parents=True, exist_ok=True)
        (data / file).write_text("a b\tc\t0\n", encoding="utf-8")
    (tmp_path / "sentencepiece.bpe.model").touch()
    found = calls(tmp_path, f"nli.sh prepare {data} {tmp_path} {tmp_path}/nli", **env)
    pieces, binary, subsets = (next(line for line in found if name in line) for name in ("spm", "preprocess", "nlu"))
    assert pieces.endswith(f"train.{english} {tmp_path}/nli/nli-text/pieces/valid.{english}")
    assert f"--source-lang {english} " in binary
    assert (
        f"train.{english}={data}/xnli/mnli_train.en.tsv" in subsets
        and f"test.{german}={data}/xnli/test.de.tsv" in subsets
    )


def test_a_language_that_the_model_lacks_is_named(tmp_path: Path) -> None:
    line = ["bash", "examples/csr/nli.sh", "test", str(tmp_path), "run"]
    env = {**os.environ, "LANGS": "en_XX,de_DE", "TESTS": "en,fr"}
    done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode != 0 and done.stderr == "LANGS is en_XX,de_DE; it has no language fr\n"


def test_the_analyses_take_all_runs_and_count_restore_stages(tmp_path: Path) -> None:
    (tmp_path / "b" / "restore").mkdir(parents=True)
    (tmp_path / "b" / "restore" / "train.log").touch()
    distance, frequency, curves = calls(tmp_path, f"analyse.sh data {tmp_path} pieces {tmp_path}/x a b", PAIR="de-en")
    assert f"distance mbart={tmp_path}/mbart.pt a={tmp_path}/a/checkpoint_best.pt b={tmp_path}/b/" in distance
    assert (
        f"--output a={tmp_path}/a/beam.en b={tmp_path}/b/beam.en" in frequency and "--train data/train.en" in frequency
    )
    assert f"--earlier b={tmp_path}/b/restore/train.log --metric valid.nll_loss" in curves
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == ["curves.md", "distance.md", "frequency.md"]
