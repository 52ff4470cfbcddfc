"""The verbs as a user types them: raw text to a data-bin folder that fairseq reads, bad input, kills."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from fairseq.data import Dictionary, data_utils

from data_prep.__main__ import verbs
from data_prep.io import read_json, sha256

SPLITS = ("train", "valid", "test", "held_out")
DEADLINE = 60.0


def pipeline(repo_root, *arguments, **popen):
    """Start preprocess.sh in a process group of its own."""
    line = ["bash", str(repo_root / "data_prep" / "preprocess.sh"), *map(str, arguments)]
    environment = dict(os.environ, PYTHON=sys.executable, OMP_NUM_THREADS="1")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(line, env=environment, start_new_session=True, **pipes, **popen)


def wait_for(condition):
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, run_cli):
    """Raw text with flaws -> clean -> split -> sentencepiece, by the commands; plus a split of its own."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = random.Random(11)
    words = {lang: ["".join(rng.choices(letters, k=rng.randint(1, 6))) for _ in range(60)]
             for lang, letters in (("en", "abcdeé"), ("de", "klmnoß"))}  # fmt: skip
    for lang in words:
        lines = [" ".join(rng.choices(words[lang], k=rng.randint(2, 9))) for _ in range(300)]
        (folder / f"raw.{lang}").write_bytes(("\ufeff" + "\r\n".join([*lines, "", lines[0], ""])).encode())
    raw = [folder / f"raw.{lang}" for lang in words]
    clean = [folder / f"all.{lang}" for lang in words]
    run_cli("data_prep.clean", "--inputs", *raw, "--outputs", *clean)
    run_cli("data_prep.split", "--inputs", *clean, "--output-dir", folder / "text", "--valid-ratio", 0.1,
            "--test-ratio", 0.1)  # fmt: skip
    for lang in words:
        (folder / "text" / f"held_out.{lang}").write_bytes((folder / "text" / f"valid.{lang}").read_bytes())
    run_cli("data_prep.spm", "train", "--inputs", folder / "text/train.en", folder / "text/train.de", "--model",
            folder / "m.model", "--dict", folder / "dict.txt", "--vocab-size", 60)  # fmt: skip
    assert read_json(folder / "clean.json")["counts"]["kept"] == 300
    return folder


def test_raw_text_to_data_bin_killed_on_the_way_and_run_again(corpus, repo_root, tmp_path):
    out = tmp_path / "data bin"
    arguments = ["--text", corpus / "text", "--model", corpus / "m.model", "--dict", corpus / "dict.txt", "--pairs"]
    arguments += ["en-de", "--out", out, "--workers", "2", "--splits", ",".join(SPLITS)]

    out.mkdir()
    (out / "manifest.json").write_text("of an earlier run")
    killed = pipeline(repo_root, *arguments)
    wait_for(lambda: list(out.glob(".tmp-en-de-*")))
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not (out / "manifest.json").exists()

    process = pipeline(repo_root, *arguments)
    log, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, log
    assert log.count("unchanged, skipped") == 2 * len(SPLITS)  # the pieces of before the kill
    assert not list(out.glob(".tmp-*"))
    check_data(corpus, out)

    manifest = (out / "manifest.json").read_bytes()
    written = {path: path.stat().st_mtime_ns for path in out.glob("*.bin")}
    process = pipeline(repo_root, *arguments)
    log, _ = process.communicate(timeout=DEADLINE)
    assert log.count("unchanged, skipped") == 2 * len(SPLITS) + 1
    assert (out / "manifest.json").read_bytes() == manifest
    assert {path: path.stat().st_mtime_ns for path in out.glob("*.bin")} == written


def check_data(corpus, out):
    """What fairseq reads is, piece by piece, what sentencepiece wrote; the manifest describes it."""
    manifest = read_json(out / "manifest.json")
    for name in ("dict.txt", "dict.en.txt", "dict.de.txt"):
        assert (out / name).read_bytes() == (corpus / "dict.txt").read_bytes()
    assert (out / "sentencepiece.bpe.model").read_bytes() == (corpus / "m.model").read_bytes()
    dictionary = Dictionary.load(str(out / "dict.txt"))
    total = 0
    for split in SPLITS:
        for lang in ("en", "de"):
            name = f"{split}.{lang}"
            lines = (out / "pieces" / name).read_text(encoding="utf-8").splitlines()
            data = data_utils.load_indexed_dataset(str(out / f"{split}.en-de.{lang}"), dictionary)
            assert [dictionary.string(data[i]) for i in range(len(data))] == lines
            assert all(int(data[i][-1]) == dictionary.eos() for i in range(len(data)))
            assert not any((data[i] == dictionary.unk()).any() for i in range(len(data)))
            text = (corpus / "text" / name).read_text(encoding="utf-8").splitlines()
            assert [line.replace(" ", "").replace("\u2581", " ").strip() for line in lines] == text
            assert manifest["text"][name] == {"lines": len(text), "sha256": sha256(corpus / "text" / name)}
            total += len(lines) * (split != "held_out" and lang == "en")
    assert total == 300
    assert all(sha256(out / row["file"]) == row["sha256"] for row in manifest["data"]["en-de"]["files"])


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({}, 1, "check: error: --text: unequal line counts: train.en has 2, train.de has 1; line 2 has no counterpart"),
        ({"--pairs": "en"}, 1, "check: error: --pairs en: 'en'; valid: different pairs of two languages"),
        ({"--model": "none"}, 2, "none: no such file; --model and --dict come from"),
        ({"--workers": "0"}, 2, "--workers 0: valid: a whole number, 1 or more"),
        ({"--out": ""}, 2, "--out: missing; see --help"),
        ({"--typo": "1"}, 2, "--typo: unknown option"),
    ],
)
def test_preprocess_refuses_before_it_makes_anything(corpus, repo_root, tmp_path, change, status, message):
    text = tmp_path / "text"
    text.mkdir()
    (text / "train.en").write_text("a b\nc\n")
    (text / "train.de").write_text("k l\n")
    good = {"--text": text, "--model": corpus / "m.model", "--dict": corpus / "dict.txt", "--pairs": "en-de"}
    good.update({"--out": tmp_path / "out", "--splits": "train", **change})
    process = pipeline(repo_root, *(item for pair in good.items() for item in pair))
    log, _ = process.communicate(timeout=DEADLINE)
    assert (process.returncode, message in log, "Traceback" in log) == (status, True, False), log
    assert not (tmp_path / "out").exists()


def test_verbs_are_listed_and_bad_input_is_one_line(run_cli, tmp_path):
    listed = run_cli("data_prep").stdout
    assert all(f"  {verb} " in listed for verb in verbs())
    (tmp_path / "a").write_bytes(b"ok\n\xff\n")
    failed = run_cli("data_prep.clean", "--inputs", tmp_path / "a", "--outputs", tmp_path / "b", check=False)
    assert failed.returncode == 1
    assert failed.stderr.startswith(f"clean: error: --inputs {tmp_path}/a, line 2: not UTF-8 (byte 0xff at byte 1")
    assert failed.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_terminated_verb_removes_its_unfinished_output(repo_root, tmp_path):
    os.mkfifo(tmp_path / "endless")
    line = [sys.executable, "-m", "data_prep.clean", "--inputs", tmp_path / "endless", "--outputs", tmp_path / "out"]
    process = subprocess.Popen(line, cwd=repo_root, stderr=subprocess.DEVNULL)
    with open(tmp_path / "endless", "wb") as pipe:
        pipe.write(b"a line\n")
        pipe.flush()
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
        process.terminate()
        assert process.wait(DEADLINE) == 128 + signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir()] == ["endless"]
