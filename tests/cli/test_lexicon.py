"""data_prep/lexicon.sh: a run that is killed and run again, and errors in one line."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, List

from data_prep.toy.corpus import generate
from tests.lexicon_raw import write

OPTIONS = "--dim 12 --window 3 --negative 3 --min-count 2 --top 4 --iterations 30 --threads 1".split()


def line(root: Path, *arguments: Any) -> List[str]:
    """The command, to be run from another folder."""
    return ["bash", str(root / "data_prep/lexicon.sh"), *map(str, arguments)]


def test_killed_and_run_again(repo_root: Path, tmp_path: Path) -> None:
    examples = list(generate(3, {"train": 60}))
    for language in ("en", "de"):
        write(tmp_path / f"toy.{language}", *(example.texts[language] for example in examples))
    out = tmp_path / "lexicon"
    environment = {**os.environ, "PYTHON": sys.executable}
    command = line(repo_root, "--source", "toy.en", "--target", "toy.de", "--out", out, *OPTIONS)
    settings: Any = {"cwd": tmp_path, "env": environment, "text": True}
    started = subprocess.Popen([*command, "--epochs", "100000"], stderr=subprocess.PIPE, **settings)
    assert started.stderr is not None
    until = time.monotonic() + 240
    while "epoch" not in started.stderr.readline():
        assert time.monotonic() < until and started.poll() is None
    started.send_signal(signal.SIGTERM)
    started.communicate(timeout=60)
    assert started.returncode == 128 + signal.SIGTERM
    left = sorted(path.name for path in out.rglob("*") if path.is_file())
    assert left == ["de.txt", "de.txt.json", "en.txt", "en.txt.json", "words.de.json", "words.en.json"]

    done = subprocess.run([*command, "--epochs", "2"], capture_output=True, timeout=300, **settings)
    assert done.returncode == 0, done.stderr
    assert "INFO" not in done.stderr
    assert done.stderr.count("unchanged, skipped") == 2
    assert sorted(path.name for path in out.iterdir()) == ["de-en.tsv", "en-de", "en-de.tsv"]
    first = (out / "en-de.tsv").read_text(encoding="utf-8").split("\n")[0].split("\t")
    assert len(first) == 4 and first[3] == "1" and -4 < float(first[2]) < 4


def test_the_script_explains_itself_and_its_errors(repo_root: Path, tmp_path: Path) -> None:
    settings: Any = {
        "cwd": tmp_path, "env": {**os.environ, "PYTHON": sys.executable}, "capture_output": True, "text": True, "timeout": 300
    }  # fmt: skip
    for arguments, status in (([], 2), (["--help"], 0)):
        shown = subprocess.run(line(repo_root, *arguments), **settings)
        assert shown.returncode == status
        assert "usage: bash data_prep/lexicon.sh --source" in shown.stdout + shown.stderr
    write(tmp_path / "a.zh", "我喜欢苹果")
    write(tmp_path / "a.de", "ein Text")
    failed = subprocess.run(line(repo_root, "--source", "a.zh", "--target", "a.de", "--out", "out"), **settings)
    assert failed.returncode == 1
    last = failed.stderr.strip().split("\n")[-1]
    assert last.startswith("lexicon: error: --inputs a.zh: 1 of 1 lines read (100%) are of a script without spaces")
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
