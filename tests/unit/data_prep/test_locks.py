"""One run at a time in an output: what the second one says, and what a kill leaves."""

import fcntl
import os
import signal
import time

import pytest

from data_prep import binarize, cut_vocabulary, nlu_folder, ted
from data_prep.io import InputError
from data_prep.locks import alone
from data_prep.toy.__main__ import main as toy


def run_binarize(out):
    dictionary = out.parent / "dict.txt"
    dictionary.write_text("a 1\n")
    binarize.main(["--pieces", str(out.parent), "--pairs", "de-en", "--dict", str(dictionary), "--output", str(out)])


def run_nlu(out):
    with nlu_folder.whole_folder(out, []):
        pass


CUT = ["--checkpoint", "none.pt", "--dict", "none.txt", "--pieces", "none", "--output"]
COMMANDS = {
    "toy": ("out/.lock", lambda out: toy(["--out", str(out)])),
    "binarize": ("out/.steps/binarize.lock", run_binarize),
    "corpora": ("out/.steps/lock", lambda out: ted.main(["--raw", "none", "--output", str(out), "--pairs", "de-en"])),
    "cut_vocabulary": (".out.lock", lambda out: cut_vocabulary.main([*CUT, str(out)])),
    "nlu": (".out.lock", run_nlu),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_second_run_is_refused(tmp_path, capsys, name):
    lock, command = COMMANDS[name]
    path, out = tmp_path / lock, tmp_path / "out"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("process 17")
        file.flush()
        with pytest.raises((InputError, SystemExit)) as refused:
            command(out)
    said = f"{refused.value}{capsys.readouterr().err}"
    assert f"{out}: another run is at work there (process 17)" in said
    assert [file for file in tmp_path.rglob("*") if file.is_file() and file.name != "dict.txt"] == [path]


def test_a_kill_frees_it(tmp_path):
    ready, done = os.pipe()
    child = os.fork()
    if not child:
        with alone(tmp_path / "made" / "lock", "--out x"):
            os.write(done, b"+")
            time.sleep(60)
        os._exit(0)
    try:
        assert os.read(ready, 1) == b"+"
        refusal = pytest.raises(InputError, match=rf"--out x: another run is at work there \(process {child} on ")
        with refusal, alone(tmp_path / "made" / "lock", "--out x"):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with alone(tmp_path / "made" / "lock", "--out x"):
        assert [path.name for path in tmp_path.rglob("*")] == ["made", "lock"]
    assert [path.name for path in tmp_path.rglob("*")] == ["made"]  # which another run made
    with alone(tmp_path / "own" / "lock", "--out x"):
        pass
    assert [path.name for path in tmp_path.rglob("*")] == ["made"]


def test_nlu_puts_back_what_a_kill_moved_away(tmp_path):
    """Killed between its two moves: the old folder is away, the new one not there."""
    moved, users = tmp_path / ".out.tmp-0123abcd" / "old", tmp_path / ".out.tmp-of-a-user"
    users.mkdir()
    moved.mkdir(parents=True)
    (moved / "manifest.json").write_text('{"verb": "nlu tags"}')
    with pytest.raises(InputError, match="later"), nlu_folder.whole_folder(tmp_path / "out", []):
        raise InputError("later")
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == [
        users.name, "out", "out/manifest.json"
    ]  # fmt: skip
