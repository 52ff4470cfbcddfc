"""One run at a time in an output; several jobs at a time in a run: what the second run says, what a kill or an error leaves."""

import fcntl
import os
import signal
import time

import pytest

from data_prep import binarize, cut_vocabulary, nlu_folder, ted
from data_prep.io import InputError, atomic_writers
from data_prep.locks import alone
from data_prep.parallel import for_each
from data_prep.toy.__main__ import main as toy
from tests.unit.data_prep.files import refused


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


def square(number):
    if number < 0:
        raise InputError(f"--inputs {number}: bad")
    time.sleep(0.02 * (3 - number % 3))
    return number * number, os.getpid()


@pytest.mark.parametrize("workers", [1, 3])
def test_results_have_the_order_of_the_jobs(workers, capfd):
    results = for_each(square, list(range(7)), workers, "squares")
    assert [value for value, _ in results] == [number * number for number in range(7)]
    assert (os.getpid() in {process for _, process in results}) == (workers == 1)
    assert ("squares: 7 of 7 done" in capfd.readouterr().err) == (workers > 1)
    refused("--inputs -1: bad", for_each, square, [1, -1, 2], workers, "squares")


def die(number):
    os.kill(os.getpid(), signal.SIGKILL)


def with_output(path):
    if path.name == "bad":
        while not list(path.parent.glob(".good.tmp-*")):
            time.sleep(0.01)
        raise InputError("--inputs: bad")
    with atomic_writers([path], "--outputs") as (file,):
        file.write("half")
        time.sleep(20)


def test_a_killed_worker_is_reported():
    with pytest.raises(OSError, match="squares: a process ended without a result, status -9"):
        for_each(die, [1, 2], 2, "squares")


def test_the_first_error_ends_the_others_and_removes_their_unfinished_outputs(tmp_path):
    start = time.monotonic()
    refused("--inputs: bad", for_each, with_output, [tmp_path / "good", tmp_path / "bad"], 2, "files")
    assert time.monotonic() - start < 10
    assert list(tmp_path.iterdir()) == []
