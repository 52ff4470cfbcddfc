"""Test the data_prep verbs as a user types them: text to data-bin, bad input, kills."""

import os
import random
import signal
import subprocess
import sys
from itertools import product

import pytest
from fairseq.data import Dictionary, data_utils

from data_prep.files import sha256
from data_prep.io import read_json
from tests.conftest import ROOT

from .commands import finish, kill, start, wait_until

SPLITS = ("train", "valid", "test", "held_out")


@pytest.fixture(scope="module")
def corpus(path, run_cli):
    """Run clean, split, spm and score on raw text with flaws; add a fourth split."""
    rng = random.Random(11)
    for lang, letters in (("en", "abcdeé"), ("de", "klmnoß")):
        words = ["".join(rng.choices(letters, k=rng.randint(1, 6))) for _ in range(60)]
        lines = [" ".join(rng.choices(words, k=rng.randint(2, 9))) for _ in range(300)]
        text = "\ufeff" + "\r\n".join([*lines, "", lines[0], ""])
        (path / f"raw.{lang}").write_bytes(text.encode())
    for line in (
        "clean --inputs raw.en raw.de --outputs all.en all.de",
        "split --inputs all.en all.de --output-dir text --valid-ratio 0.1 --test-ratio 0.1",
        "spm train --inputs text/train.en text/train.de --model m.model --dict dict.txt "
        "--vocab-size 60",
        "score --reference text/test.de --system x=text/test.de --json score.json",
    ):
        run_cli(*f"data_prep.{line}".split(), cwd=path)
    assert read_json(path / "clean.json")["counts"]["kept"] == 300
    assert read_json(path / "score.json")["systems"][0]["bleu"] == pytest.approx(100)
    for lang in ("en", "de"):
        lines = (path / "text" / f"valid.{lang}").read_bytes()
        (path / "text" / f"held_out.{lang}").write_bytes(lines)
    return path


@pytest.fixture
def preprocess(corpus, tmp_path):
    """Start preprocess.sh for en-de, from another folder."""

    def call(text, out, splits, *more):
        line = ["bash", ROOT / "data_prep" / "preprocess.sh", "--text", text, "--out", out]
        line += ["--model", corpus / "m.model", "--dict", corpus / "dict.txt", "--pairs", "en-de"]
        return start([*line, "--splits", splits, *more], tmp_path, PYTHON=sys.executable)

    return call


def test_raw_text_to_data_bin_also_after_a_kill(corpus, preprocess, tmp_path):
    out = tmp_path / "data bin"
    arguments = [corpus / "text", out, ",".join(SPLITS), "--workers", 2]
    out.mkdir()
    (out / "manifest.json").write_text("of an earlier run")
    process = preprocess(*arguments)
    wait_until(lambda: list(out.glob(".tmp-en-de-*")), process)
    kill(process)
    assert not (out / "manifest.json").exists()

    status, output = finish(preprocess(*arguments))
    assert status == 0, output
    assert output.count("unchanged, skipped") == 2 * len(SPLITS)  # the pieces from before the kill
    assert not list(out.glob(".tmp-*"))
    check_data(corpus, out)

    manifest = (out / "manifest.json").read_bytes()
    times = {path: path.stat().st_mtime_ns for path in out.glob("*.bin")}
    _, output = finish(preprocess(*arguments))
    assert output.count("unchanged, skipped") == 2 * len(SPLITS) + 1
    assert (out / "manifest.json").read_bytes() == manifest
    assert {path: path.stat().st_mtime_ns for path in out.glob("*.bin")} == times


def check_data(corpus, out):
    """Check that fairseq reads the pieces of sentencepiece and that the manifest describes them."""
    manifest = read_json(out / "manifest.json")
    for name in ("dict.txt", "dict.en.txt", "dict.de.txt"):
        assert (out / name).read_bytes() == (corpus / "dict.txt").read_bytes()
    assert (out / "sentencepiece.bpe.model").read_bytes() == (corpus / "m.model").read_bytes()
    dictionary = Dictionary.load(str(out / "dict.txt"))
    for split, lang in product(SPLITS, ("en", "de")):
        name = f"{split}.{lang}"
        pieces = (out / "pieces" / name).read_text(encoding="utf-8").splitlines()
        data = list(data_utils.load_indexed_dataset(str(out / f"{split}.en-de.{lang}"), dictionary))
        assert [dictionary.string(row) for row in data] == pieces
        for row in data:
            assert int(row[-1]) == dictionary.eos()
            assert dictionary.unk() not in row
        file = corpus / "text" / name
        text = file.read_text(encoding="utf-8").splitlines()
        assert [line.replace(" ", "").replace("\u2581", " ").strip() for line in pieces] == text
        assert manifest["text"][name] == {"lines": len(text), "sha256": sha256(file)}
    for row in manifest["data"]["en-de"]["files"]:
        assert sha256(out / row["file"]) == row["sha256"]


def test_preprocess_refuses_before_it_writes(preprocess, tmp_path):
    text, out = tmp_path / "text", tmp_path / "out"
    text.mkdir()
    (text / "train.en").write_text("a b\nc\n")
    (text / "train.de").write_text("k l\n")
    for more, expected_status, message in (
        ([], 1, "unequal line counts: train.en has 2, train.de has 1"),
        (["--workers", 0], 2, "--workers 0: valid: "),
    ):
        status, output = finish(preprocess(text, out, "train", *more))
        assert status == expected_status
        assert message in output
        assert "Traceback" not in output
        assert not out.exists()


def test_bad_input_is_one_line(run_cli, tmp_path):
    (tmp_path / "a").write_bytes(b"ok\n\xff\n")
    files = ["--inputs", tmp_path / "a", "--outputs", tmp_path / "b"]
    process = run_cli("data_prep.clean", *files, check=False)
    assert process.returncode == 1
    assert process.stderr.startswith(f"clean: error: --inputs {tmp_path}/a, line 2: not UTF-8 ")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_terminated_verb_removes_its_unfinished_output(tmp_path):
    os.mkfifo(tmp_path / "endless")
    files = ["--inputs", tmp_path / "endless", "--outputs", tmp_path / "out"]
    line = [sys.executable, "-m", "data_prep.clean", *files]
    process = subprocess.Popen(line, cwd=ROOT, stderr=subprocess.DEVNULL)
    with open(tmp_path / "endless", "wb") as pipe:
        pipe.write(b"a line\n")
        pipe.flush()
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir()] == ["endless"]
