"""Test the queue: requests share batches in order, and fail or end one by one."""

import random
import threading
from concurrent.futures import CancelledError

import pytest

from fairseq_plugins_runtime.serve.batching import Batcher, Failed, Job, Stopped
from tests.runtime.serving import SECONDS


class Model:
    """Record the lines of every call; the first call waits until ``go`` is set."""

    def __init__(self):
        self.calls, self.entered, self.go = [], threading.Event(), threading.Event()

    def run(self, lines):
        self.calls.append(lines)
        self.entered.set()
        assert self.go.wait(SECONDS)
        if "poison" in lines:
            raise RuntimeError("poison")
        return [line.upper() for line in lines]


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def batcher(model):
    """A queue whose first job runs until ``model.go``: jobs that are submitted wait."""
    batcher = Batcher(batch_tokens=10)
    batcher.start()
    batcher.submit(Job("pair", model.run, ["first"], [1]))
    assert model.entered.wait(SECONDS)
    yield batcher
    model.go.set()
    batcher.close()
    batcher.join(SECONDS)


def submit(batcher, model, text, cost=1, group="pair"):
    """Submit the words of a text as lines of the same cost."""
    lines = text.split()
    job = Job(group, model.run, lines, [cost] * len(lines))
    batcher.submit(job)
    return job.future


def test_waiting_lines_share_batches_in_order_of_arrival(batcher, model):
    futures = [
        submit(batcher, model, "a b c", 3),
        submit(batcher, model, "other", 1, group="second"),
        submit(batcher, model, "d e", 3),
        submit(batcher, model, "long", 30),
        submit(batcher, model, "f", 1),
    ]
    model.go.set()
    results = [future.result(SECONDS) for future in futures]
    assert results == [["A", "B", "C"], ["OTHER"], ["D", "E"], ["LONG"], ["F"]]
    assert model.calls == [["first"], ["a", "b", "c"], ["other"], ["d", "e"], ["long"], ["f"]]


def test_the_end_of_a_large_request_shares_its_batch(batcher, model):
    large, small = submit(batcher, model, "a b c d", 4), submit(batcher, model, "e", 2)
    model.go.set()
    assert large.result(SECONDS) == ["A", "B", "C", "D"] and small.result(SECONDS) == ["E"]
    assert model.calls == [["first"], ["a", "b"], ["c", "d", "e"]]


def test_a_cancelled_request_leaves_the_queue(batcher, model):
    cancelled, waiting = submit(batcher, model, "cancelled"), submit(batcher, model, "waiting")
    assert cancelled.cancel()
    model.go.set()
    assert waiting.result(SECONDS) == ["WAITING"] and model.calls == [["first"], ["waiting"]]
    with pytest.raises(CancelledError):
        cancelled.result(SECONDS)


def test_only_the_request_at_fault_fails(batcher, model):
    futures = [submit(batcher, model, lines) for lines in ("a", "b poison", "c")]
    model.go.set()
    assert futures[0].result(SECONDS) == ["A"] and futures[2].result(SECONDS) == ["C"]
    with pytest.raises(Failed):
        futures[1].result(SECONDS)
    lossy = Job("pair", lambda lines: lines[1:], ["a", "b"], [1, 1])
    batcher.submit(lossy)
    with pytest.raises(Failed):
        lossy.future.result(SECONDS)
    assert submit(batcher, model, "d").result(SECONDS) == ["D"]


def test_closing_finishes_the_running_batch_and_stops_the_other_requests(model):
    batcher = Batcher(batch_tokens=10)
    batcher.start()
    running = Job("pair", model.run, ["a"], [1])
    unfinished = Job("pair", model.run, ["b", "c"], [2, 10])
    with batcher._changed:  # the thread sees both jobs at once
        batcher.submit(running)
        batcher.submit(unfinished)
    assert model.entered.wait(SECONDS)
    waiting = submit(batcher, model, "d")
    batcher.close()
    for future in (unfinished.future, waiting):
        with pytest.raises(Stopped):
            future.result(SECONDS)
    with pytest.raises(Stopped):
        submit(batcher, model, "e")
    model.go.set()
    assert running.future.result(SECONDS) == ["A"]
    batcher.join(SECONDS)
    assert not batcher._thread.is_alive() and model.calls == [["a", "b"]]


def test_concurrent_requests_get_their_own_results(batcher, model):
    model.go.set()
    draw, results = random.Random(1), {}
    texts = [
        " ".join(f"l{number}_{place}" for place in range(draw.randint(1, 6)))
        for number in range(200)
    ]

    def client(start):
        for number in range(start, len(texts), 8):
            future = submit(batcher, model, texts[number], 1 + number % 4)
            results[number] = future.result(SECONDS)

    threads = [threading.Thread(target=client, args=(start,)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert results == {number: text.upper().split() for number, text in enumerate(texts)}
