"""Requests that wait share batches: order, cost, cancelled ones, failures, the end."""

import random
import threading
from concurrent.futures import CancelledError

import pytest

from fairseq_plugins_runtime.serve.batching import Batcher, Failed, Job, Stopped

SECONDS = 20


class Model:
    """Notes the lines of every call; waits in its first call until ``go`` is set."""

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
    """With a first job in work, until ``model.go``: what is submitted waits."""
    batcher = Batcher(batch_tokens=10)
    batcher.start()
    batcher.submit(Job("pair", model.run, ["first"], [1]))
    assert model.entered.wait(SECONDS)
    yield batcher
    model.go.set()
    batcher.close()
    batcher.join(SECONDS)


def submit(batcher, model, lines, cost=1, group="pair"):
    job = Job(group, model.run, lines.split(), [cost] * len(lines.split()))
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
    assert [future.result(SECONDS) for future in futures] == [["A", "B", "C"], ["OTHER"], ["D", "E"], ["LONG"], ["F"]]
    assert model.calls == [["first"], ["a", "b", "c"], ["other"], ["d", "e"], ["long"], ["f"]]


def test_a_request_larger_than_a_batch_does_not_hold_up_the_room_that_is_left(batcher, model):
    large, small = submit(batcher, model, "a b c d", 4), submit(batcher, model, "e", 2)
    model.go.set()
    assert large.result(SECONDS) == ["A", "B", "C", "D"] and small.result(SECONDS) == ["E"]
    assert model.calls == [["first"], ["a", "b"], ["c", "d", "e"]]


def test_a_cancelled_request_leaves_the_queue(batcher, model):
    gone, kept = submit(batcher, model, "gone"), submit(batcher, model, "kept")
    assert gone.cancel()
    model.go.set()
    assert kept.result(SECONDS) == ["KEPT"] and model.calls == [["first"], ["kept"]]
    with pytest.raises(CancelledError):
        gone.result(SECONDS)


def test_only_the_request_fails_that_is_the_reason(batcher, model):
    futures = [submit(batcher, model, lines) for lines in ("a", "b poison", "c")]
    model.go.set()
    assert futures[0].result(SECONDS) == ["A"] and futures[2].result(SECONDS) == ["C"]
    with pytest.raises(Failed):
        futures[1].result(SECONDS)
    assert submit(batcher, model, "d").result(SECONDS) == ["D"]


def test_a_model_that_loses_a_line_answers_nobody_wrongly(batcher, model):
    model.go.set()
    job = Job("pair", lambda lines: lines[1:], ["a", "b"], [1, 1])
    batcher.submit(job)
    with pytest.raises(Failed):
        job.future.result(SECONDS)


def test_the_end_finishes_what_is_in_work_and_tells_the_others(model):
    batcher = Batcher(batch_tokens=10)
    batcher.start()
    whole, part = Job("pair", model.run, ["a"], [1]), Job("pair", model.run, ["b", "c"], [2, 10])
    with batcher._changed:  # both are there before the thread looks
        batcher.submit(whole)
        batcher.submit(part)
    assert model.entered.wait(SECONDS)
    waiting = submit(batcher, model, "d")
    batcher.close()
    for future in (part.future, waiting):
        with pytest.raises(Stopped):
            future.result(SECONDS)
    with pytest.raises(Stopped):
        submit(batcher, model, "e")
    model.go.set()
    assert whole.future.result(SECONDS) == ["A"]
    batcher.join(SECONDS)
    assert not batcher._thread.is_alive() and model.calls == [["a", "b"]]


def test_many_threads_get_each_their_own(batcher, model):
    model.go.set()
    draw, found = random.Random(1), {}
    sizes = [draw.randint(1, 6) for _ in range(200)]

    def client(start):
        for number in range(start, len(sizes), 8):
            lines = " ".join(f"l{number}_{place}" for place in range(sizes[number]))
            found[number] = (lines.upper().split(), submit(batcher, model, lines, 1 + number % 4).result(SECONDS))

    clients = [threading.Thread(target=client, args=(start,)) for start in range(8)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join(SECONDS)
    assert len(found) == len(sizes) and all(wanted == got for wanted, got in found.values())
