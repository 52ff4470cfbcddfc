"""Test data-bins with a target dictionary: cut_vocabulary, preprocess.sh --target-dict."""

import os
import subprocess
import sys

import pytest
from fairseq.data import Dictionary, data_utils

from data_prep.io import read_json
from data_prep.pieces import binarize, cut_vocabulary
from data_prep.pieces.manifest import check_manifest
from tests.nlu_bins import write
from tests.unit.data_prep.files import assert_refused

PIECES = ("ab", "d@@", "e@@", "<2de>", "e", "n", "f@@", "r")
TARGET = ["ab", "e@@", "<2de>", "n"]


@pytest.fixture
def work(tmp_path):
    for pair in ("de-en", "fr-en"):
        for split in ("train", "valid"):
            for lang in pair.split("-"):
                write(tmp_path / "text" / pair / f"{split}.{lang}", *[f"ab {lang}"] * 4)
    write(tmp_path / "codes", "#version: 0.2", "a b</w>")
    write(tmp_path / "dict.txt", *(f"{piece} 1" for piece in PIECES))
    write(tmp_path / "pieces.en", "ab e@@ n")
    return tmp_path


def cut(folder):
    line = f"--dict {folder}/dict.txt --pieces {folder}/pieces.en --output {folder}/cut"
    cut_vocabulary.main(line.split())


def preprocess(repo_root, folder, *more, status=0):
    line = "--text text --dict dict.txt --out bin --splits train,valid --codes codes --per-pair"
    script = ["bash", str(repo_root / "data_prep" / "preprocess.sh"), *line.split(), *more]
    environment = dict(os.environ, PYTHON=sys.executable)
    done = subprocess.run(
        script, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == status, done.stderr
    return done.stderr


def test_a_dictionary_is_cut_without_a_checkpoint(work):
    cut(work)
    assert Dictionary.load(str(work / "cut" / "dict.txt")).symbols[4:] == TARGET
    assert (work / "cut" / "rows.tsv").read_text().splitlines()[4:] == [
        "4\t4\tab",
        "5\t6\te@@",
        "6\t7\t<2de>",
        "7\t9\tn",
    ]
    manifest = read_json(work / "cut" / "cut_vocabulary.json")
    assert (manifest["counts"]["rows_before"], manifest["counts"]["rows_after"]) == (12, 8)
    assert check_manifest(work / "cut") == 3
    cut(work)  # its own folder is replaced


def test_preprocess_takes_two_dictionaries(work, repo_root):
    cut(work)
    pairs = ["--pairs", "de-en,fr-en"]
    target = ["--target-dict", "cut/dict.txt"]
    preprocess(repo_root, work, *pairs, *target)
    symbols = {
        lang: Dictionary.load(str(work / "bin" / f"dict.{lang}.txt")) for lang in ("de", "fr", "en")
    }
    assert symbols["en"].symbols[4:] == TARGET
    assert symbols["de"].symbols[4:] == symbols["fr"].symbols[4:] == list(PIECES)
    for pair in ("de-en", "fr-en"):
        for lang in pair.split("-"):
            rows = data_utils.load_indexed_dataset(
                str(work / "bin" / f"train.{pair}.{lang}"), symbols[lang]
            )
            assert symbols[lang].string(rows[0]) == " ".join(["ab", f"{lang[0]}@@", lang[1]])
    assert check_manifest(work / "bin", work / "text")
    assert preprocess(repo_root, work, *pairs, *target).count("unchanged, skipped") == 8 + 2
    said = preprocess(repo_root, work, "--pairs", "de-en", status=1)
    assert "holds fr-en, made with another dictionary than --target-dict (none)" in said


def test_pieces_are_counted_by_the_dictionary_of_their_side(work, repo_root):
    write(work / "few.txt", "ab 1")
    said = preprocess(repo_root, work, "--pairs", "de-en", "--target-dict", "few.txt", status=1)
    assert "train.en: 8 of 12 pieces (66.7 %) are unknown" in said
    assert "train.de" not in said.split("error:")[1]


def test_a_language_on_both_sides_is_refused(work):
    words = work / "dict.txt"
    line = f"""--pieces {work} --pairs de-en,en-de --dict {words} --target-dict {words}
        --output {work}/out"""
    assert_refused(
        "--pairs de-en,en-de: de is a source and a target; valid: with --target-dict",
        binarize.main,
        line.split(),
    )
