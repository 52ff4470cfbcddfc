"""preprocess.sh as a whole, with BPE codes and a folder for each pair."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from data_prep.files import sha256
from data_prep.io import read_json
from data_prep.pieces.manifest import check_manifest


@pytest.fixture
def work(tmp_path):
    for pair, size in (("de-en", 4), ("fr-en", 6)):
        (tmp_path / "text" / pair).mkdir(parents=True)
        for name in ("train", "valid"):
            for lang in pair.split("-"):
                (tmp_path / "text" / pair / f"{name}.{lang}").write_text(f"ab {lang}\n" * size)
    (tmp_path / "codes").write_text("#version: 0.2\na b</w>\n")
    (tmp_path / "dict.txt").write_text("".join(f"{piece} 1\n" for piece in ("ab", "d@@", "e@@", "e", "n", "f@@", "r")))
    return tmp_path


def command(repo_root):
    options = "--text text --dict dict.txt --out bin --splits train,valid --pairs de-en,fr-en"
    return ["bash", str(repo_root / "data_prep" / "preprocess.sh"), *options.split()]


def preprocess(repo_root, folder, *more, status=0):
    line = [*command(repo_root), *more]
    environment = dict(os.environ, PYTHON=sys.executable)
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stderr
    return done.stderr


def test_codes_and_a_folder_for_each_pair(work, repo_root):
    said = preprocess(repo_root, work, "--codes", "codes", "--per-pair", "--workers", "2")
    assert "bpe apply: 8 of 8 done" in said
    assert "binarize: 2 of 2 done" in said
    manifest = read_json(work / "bin" / "manifest.json")
    assert manifest["codes"]["sha256"] == sha256(work / "codes") == sha256(work / "bin" / "codes.bpe")
    assert manifest["data"]["fr-en"]["counts"]["train.fr"] == {"lines": 6, "tokens": 24}
    assert (work / "bin/pieces/de-en/train.de").read_text() == "ab d@@ e\n" * 4
    assert check_manifest(work / "bin", work / "text")
    before = (work / "bin" / "manifest.json").read_bytes()
    said = preprocess(repo_root, work, "--codes", "codes", "--per-pair", "--workers", "3")
    assert said.count("unchanged, skipped") == 8 + 2
    assert (work / "bin" / "manifest.json").read_bytes() == before


@pytest.mark.parametrize("survivor", [False, True])
def test_the_lock_is_the_scripts_and_its_childrens(work, repo_root, survivor):
    """A kill frees the folder, unless something that the script started is still writing there."""
    stub = work / "slow"
    hang = f'case "$*" in *apply*) touch "{work}/started"; exec sleep 60;; esac'
    stub.write_text(f'#!/bin/sh\n{hang}\nexec "{sys.executable}" "$@"\n')
    stub.chmod(0o755)
    environment = dict(os.environ, PYTHON=str(stub))
    options = ["--codes", "codes", "--per-pair", "--pairs", "de-en"]
    line = [*command(repo_root), *options]
    first = subprocess.Popen(line, cwd=work, env=environment, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not (work / "started").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(first.pid, signal.SIGKILL) if survivor else os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        said = preprocess(repo_root, work, *options, status=int(survivor))
        assert (f"another run is at work there (process {first.pid} on " in said) == survivor
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(first.pid, signal.SIGKILL)
