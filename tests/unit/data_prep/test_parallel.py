"""Several jobs at a time: results in order, the first error ends the others and leaves none of their files."""

import os
import signal
import time

import pytest

from data_prep.io import InputError, atomic_writers
from data_prep.parallel import for_each
from tests.unit.data_prep.files import refused


def job(number):
    if number < 0:
        raise InputError(f"--inputs {number}: bad")
    time.sleep(0.02 * (3 - number % 3))
    return number * number, os.getpid()


@pytest.mark.parametrize("workers", [1, 3])
def test_results_have_the_order_of_the_jobs(workers, capfd):
    results = for_each(job, list(range(7)), workers, "squares")
    assert [value for value, _ in results] == [number * number for number in range(7)]
    assert (os.getpid() in {process for _, process in results}) == (workers == 1)
    assert ("squares: 7 of 7 done" in capfd.readouterr().err) == (workers > 1)
    refused("--inputs -1: bad", for_each, job, [1, -1, 2], workers, "squares")


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


def test_the_first_error_ends_the_others_and_removes_their_unfinished_outputs(tmp_path):
    start = time.monotonic()
    refused("--inputs: bad", for_each, with_output, [tmp_path / "good", tmp_path / "bad"], 2, "files")
    assert time.monotonic() - start < 10
    assert list(tmp_path.iterdir()) == []
