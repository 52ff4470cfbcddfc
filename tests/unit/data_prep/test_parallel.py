"""Several jobs at a time: results in order, the first error ends the others."""

import os
import signal
import time

import pytest

from data_prep.io import InputError, atomic_writers
from data_prep.parallel import for_each


def job(number):
    if number < 0:
        raise InputError(f"--inputs {number}: bad")
    time.sleep(0.02 * (3 - number % 3))
    return number * number, os.getpid()


def slow(path):
    if path is None:
        time.sleep(0.2)
        raise InputError("--inputs: bad")
    time.sleep(20)
    path.write_text("done")


@pytest.mark.parametrize("workers", [1, 3])
def test_results_have_the_order_of_the_jobs(workers, capfd):
    results = for_each(job, list(range(7)), workers, "squares")
    assert [value for value, _ in results] == [number * number for number in range(7)]
    assert (os.getpid() in {process for _, process in results}) == (workers == 1)
    assert ("squares: 7 of 7 done" in capfd.readouterr().err) == (workers > 1)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_comes_through(workers):
    with pytest.raises(InputError, match="--inputs -1: bad"):
        for_each(job, [1, -1, 2], workers, "squares")


def test_the_first_error_ends_the_others(tmp_path):
    start = time.monotonic()
    with pytest.raises(InputError, match="--inputs: bad"):
        for_each(slow, [tmp_path / "a", None], 2, "slow")
    assert time.monotonic() - start < 10
    assert not (tmp_path / "a").exists()


def killed(number):
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
        for_each(killed, [1, 2], 2, "squares")


def test_unfinished_outputs_of_the_others_are_removed(tmp_path):
    with pytest.raises(InputError, match="--inputs: bad"):
        for_each(with_output, [tmp_path / "good", tmp_path / "bad"], 2, "files")
    assert list(tmp_path.iterdir()) == []
