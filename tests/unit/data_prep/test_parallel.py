"""Test several jobs at a time: the order of results, killed workers, what an error leaves."""

import os
import signal
import time

import pytest

from data_prep.files import atomic_texts, leftovers
from data_prep.io import InputError
from data_prep.parallel import for_each
from tests.unit.data_prep.files import assert_refused


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
    assert_refused("--inputs -1: bad", for_each, square, [1, -1, 2], workers, "squares")


def die(number):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_is_reported():
    with pytest.raises(OSError, match="squares: .* status -9"):
        for_each(die, [1, 2], 2, "squares")


def write_or_fail(path):
    if path.name == "bad":
        while not leftovers(path.parent, "good"):
            time.sleep(0.01)
        raise InputError("--inputs: bad")
    with atomic_texts([path], "--outputs") as (file,):
        file.write("half")
        time.sleep(20)


def test_the_first_error_stops_other_jobs_and_removes_their_partial_outputs(tmp_path):
    start = time.monotonic()
    paths = [tmp_path / "good", tmp_path / "bad"]
    assert_refused("--inputs: bad", for_each, write_or_fail, paths, 2, "files")
    assert time.monotonic() - start < 10
    assert list(tmp_path.iterdir()) == []
