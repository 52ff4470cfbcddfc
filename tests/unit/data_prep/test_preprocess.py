"""Test preprocess.sh with BPE codes and a folder for each pair, and its lock after a kill."""

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
from tests.conftest import ROOT

OPTIONS = (
    "--text text --dict dict.txt --out bin --splits train,valid --pairs de-en,fr-en"
    " --codes codes --per-pair"
)


@pytest.fixture
def work(tmp_path):
    for pair, size in (("de-en", 4), ("fr-en", 6)):
        (tmp_path / "text" / pair).mkdir(parents=True)
        for split in ("train", "valid"):
            for lang in pair.split("-"):
                (tmp_path / "text" / pair / f"{split}.{lang}").write_text(f"ab {lang}\n" * size)
    (tmp_path / "codes").write_text("#version: 0.2\na b</w>\n")
    pieces = ("ab", "d@@", "e@@", "e", "n", "f@@", "r")
    (tmp_path / "dict.txt").write_text("".join(f"{piece} 1\n" for piece in pieces))
    return tmp_path


def start(folder, *more, python=sys.executable, stderr=subprocess.PIPE):
    """Start preprocess.sh in a process group of its own."""
    line = ["bash", str(ROOT / "data_prep" / "preprocess.sh"), *OPTIONS.split(), *more]
    environment = dict(os.environ, PYTHON=str(python))
    options = dict(cwd=folder, env=environment, stderr=stderr, text=True, start_new_session=True)
    return subprocess.Popen(line, **options)


def preprocess(folder, *more, status=0):
    process = start(folder, *more)
    errors = process.communicate(timeout=120)[1]
    assert process.returncode == status, errors
    return errors


def test_codes_and_a_folder_for_each_pair(work):
    errors = preprocess(work, "--workers", "2")
    assert "bpe apply: 8 of 8 done" in errors and "binarize: 2 of 2 done" in errors
    manifest = read_json(work / "bin" / "manifest.json")
    assert manifest["codes"]["sha256"] == sha256(work / "codes")
    assert sha256(work / "bin" / "codes.bpe") == sha256(work / "codes")
    assert manifest["data"]["fr-en"]["counts"]["train.fr"] == {"lines": 6, "tokens": 24}
    assert (work / "bin/pieces/de-en/train.de").read_text() == "ab d@@ e\n" * 4
    assert check_manifest(work / "bin", work / "text")
    before = (work / "bin" / "manifest.json").read_bytes()
    assert preprocess(work, "--workers", "3").count("unchanged, skipped") == 8 + 2
    assert (work / "bin" / "manifest.json").read_bytes() == before


def test_the_lock_is_held_until_the_children_of_a_killed_script_end(work):
    stub = work / "slow"
    hang = f'case "$*" in *apply*) touch "{work}/started"; exec sleep 60;; esac'
    stub.write_text(f'#!/bin/sh\n{hang}\nexec "{sys.executable}" "$@"\n')
    stub.chmod(0o755)
    first = start(work, python=stub, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not (work / "started").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        errors = preprocess(work, status=1)
        assert f"another run is at work there (process {first.pid} on " in errors
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(first.pid, signal.SIGKILL)
