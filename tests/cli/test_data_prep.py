"""The verbs as a user types them: raw text to a data-bin folder that fairseq reads, bad input, kills."""

import os
import random
import signal
import subprocess
import sys
import time
from itertools import product

import pytest
from fairseq.data import Dictionary, data_utils

from data_prep.files import sha256
from data_prep.io import read_json
from tests.conftest import ROOT

SPLITS = ("train", "valid", "test", "held_out")
DEADLINE = 60.0


def pipeline(options):
    """Start preprocess.sh in a process group of its own."""
    line = ["bash", ROOT / "data_prep" / "preprocess.sh", *(str(item) for pair in options.items() for item in pair)]
    environment = dict(os.environ, PYTHON=sys.executable, OMP_NUM_THREADS="1")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(line, env=environment, start_new_session=True, **pipes)


def ended(process):
    log, _ = process.communicate(timeout=DEADLINE)
    return process.returncode, log


def wait_for(condition):
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def corpus(path, run_cli):
    """Raw text with flaws -> clean -> split -> sentencepiece, by the commands; plus a split of its own."""
    rng = random.Random(11)
    for lang, letters in (("en", "abcdeé"), ("de", "klmnoß")):
        words = ["".join(rng.choices(letters, k=rng.randint(1, 6))) for _ in range(60)]
        lines = [" ".join(rng.choices(words, k=rng.randint(2, 9))) for _ in range(300)]
        (path / f"raw.{lang}").write_bytes(("\ufeff" + "\r\n".join([*lines, "", lines[0], ""])).encode())

    def run(verb, line):
        run_cli(f"data_prep.{verb}", *line.split(), cwd=path)

    run("clean", "--inputs raw.en raw.de --outputs all.en all.de")
    run("split", "--inputs all.en all.de --output-dir text --valid-ratio 0.1 --test-ratio 0.1")
    run("spm", "train --inputs text/train.en text/train.de --model m.model --dict dict.txt --vocab-size 60")
    run("score", "--reference text/test.de --system x=text/test.de --json score.json")
    assert read_json(path / "score.json")["systems"][0]["bleu"] == pytest.approx(100)
    for lang in ("en", "de"):
        (path / "text" / f"held_out.{lang}").write_bytes((path / "text" / f"valid.{lang}").read_bytes())
    assert read_json(path / "clean.json")["counts"]["kept"] == 300
    return path


def test_raw_text_to_data_bin_killed_on_the_way_and_run_again(corpus, tmp_path):
    out = tmp_path / "data bin"
    options = {"--text": corpus / "text", "--model": corpus / "m.model", "--dict": corpus / "dict.txt", "--workers": 2}
    options.update({"--pairs": "en-de", "--out": out, "--splits": ",".join(SPLITS)})

    out.mkdir()
    (out / "manifest.json").write_text("of an earlier run")
    killed = pipeline(options)
    wait_for(lambda: list(out.glob(".tmp-en-de-*")))
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not (out / "manifest.json").exists()

    status, log = ended(pipeline(options))
    assert status == 0, log
    assert log.count("unchanged, skipped") == 2 * len(SPLITS)  # the pieces of before the kill
    assert not list(out.glob(".tmp-*"))
    check_data(corpus, out)

    manifest = (out / "manifest.json").read_bytes()
    written = {path: path.stat().st_mtime_ns for path in out.glob("*.bin")}
    assert ended(pipeline(options))[1].count("unchanged, skipped") == 2 * len(SPLITS) + 1
    assert (out / "manifest.json").read_bytes() == manifest
    assert {path: path.stat().st_mtime_ns for path in out.glob("*.bin")} == written


def check_data(corpus, out):
    """What fairseq reads is, piece by piece, what sentencepiece wrote; the manifest describes it."""
    manifest = read_json(out / "manifest.json")
    for name in ("dict.txt", "dict.en.txt", "dict.de.txt"):
        assert (out / name).read_bytes() == (corpus / "dict.txt").read_bytes()
    assert (out / "sentencepiece.bpe.model").read_bytes() == (corpus / "m.model").read_bytes()
    dictionary = Dictionary.load(str(out / "dict.txt"))
    for split, lang in product(SPLITS, ("en", "de")):
        name = f"{split}.{lang}"
        lines = (out / "pieces" / name).read_text(encoding="utf-8").splitlines()
        data = list(data_utils.load_indexed_dataset(str(out / f"{split}.en-de.{lang}"), dictionary))
        assert [dictionary.string(row) for row in data] == lines
        assert all(int(row[-1]) == dictionary.eos() and dictionary.unk() not in row for row in data)
        text = (corpus / "text" / name).read_text(encoding="utf-8").splitlines()
        assert [line.replace(" ", "").replace("\u2581", " ").strip() for line in lines] == text
        assert manifest["text"][name] == {"lines": len(text), "sha256": sha256(corpus / "text" / name)}
    assert all(sha256(out / row["file"]) == row["sha256"] for row in manifest["data"]["en-de"]["files"])


def test_preprocess_refuses_before_it_makes_anything(corpus, tmp_path):
    text = tmp_path / "text"
    text.mkdir()
    (text / "train.en").write_text("a b\nc\n")
    (text / "train.de").write_text("k l\n")
    good = {"--text": text, "--model": corpus / "m.model", "--dict": corpus / "dict.txt", "--pairs": "en-de"}
    good.update({"--out": tmp_path / "out", "--splits": "train"})
    unequal = "unequal line counts: train.en has 2, train.de has 1"
    for change, status, message in (({}, 1, unequal), ({"--workers": "0"}, 2, "--workers 0: valid: ")):
        found, log = ended(pipeline({**good, **change}))
        assert (found, message in log, "Traceback" in log) == (status, True, False), log
        assert not (tmp_path / "out").exists()


def test_bad_input_is_one_line(run_cli, tmp_path):
    (tmp_path / "a").write_bytes(b"ok\n\xff\n")
    failed = run_cli("data_prep.clean", "--inputs", tmp_path / "a", "--outputs", tmp_path / "b", check=False)
    assert failed.returncode == 1
    assert failed.stderr.startswith(f"clean: error: --inputs {tmp_path}/a, line 2: not UTF-8 ")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_terminated_verb_removes_its_unfinished_output(tmp_path):
    os.mkfifo(tmp_path / "endless")
    line = [sys.executable, "-m", "data_prep.clean", "--inputs", tmp_path / "endless", "--outputs", tmp_path / "out"]
    process = subprocess.Popen(line, cwd=ROOT, stderr=subprocess.DEVNULL)
    with open(tmp_path / "endless", "wb") as pipe:
        pipe.write(b"a line\n")
        pipe.flush()
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
        process.terminate()
        assert process.wait(DEADLINE) == 128 + signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir()] == ["endless"]
