"""Requests that wait share batches: one queue in order of arrival, one thread that translates."""

import logging
import threading
from collections import deque
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Callable, Deque, Hashable, List, Optional, Sequence, Tuple

logger = logging.getLogger(__name__)


class Stopped(Exception):
    """The service ends; what was not in work is not answered."""


class Failed(Exception):
    """The model raised something over the lines of a request; the log has it."""


class Job:
    """The lines of one request. They are answered together or not at all.

    Args:
        group: only lines of equal groups share a batch.
        run: gives one result per line; that of the batch's first job is called.
        lines: at least one.
        costs: tokens of each line.

    Attributes:
        future: its result is a list of one result per line. Cancelling it takes the job out of the queue.
    """

    def __init__(
        self, group: Hashable, run: Callable[[List[str]], Sequence[Any]], lines: Sequence[str], costs: Sequence[int]
    ) -> None:
        self.group, self.run, self.lines, self.costs = group, run, lines, costs
        self.future: Future[List[Any]] = Future()
        self.taken = 0  # lines that went into a batch
        self._results: List[Any] = []

    @property
    def waiting(self) -> bool:
        """Whether lines are left that no batch has."""
        return self.taken < len(self.lines) and not self.future.done()

    def take(self, room: int, first: bool) -> List[int]:
        """Numbers of the next lines that fit into ``room`` tokens; where ``first``, one line however long."""
        numbers: List[int] = []
        while self.taken < len(self.lines) and (self.costs[self.taken] <= room or (first and not numbers)):
            room -= self.costs[self.taken]
            numbers.append(self.taken)
            self.taken += 1
        return numbers

    def receive(self, results: Sequence[Any]) -> None:
        """The results of the lines taken last; batches come one after the other, so they are the next ones."""
        self._results.extend(results)
        if len(self._results) == len(self.lines):
            with suppress(InvalidStateError):  # nobody waits for it any more
                self.future.set_result(self._results)

    def fail(self, error: Exception) -> None:
        """Answer with an error."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)


Batch = List[Tuple[Job, List[int]]]  # jobs, and the numbers of their lines


class Batcher:
    """The queue and its thread.

    A batch begins with the line that has waited longest. Lines of its group follow in order of arrival as long as they fit; no line
    overtakes another of its group.

    Args:
        batch_tokens: tokens of a batch; a longer line is one alone.
    """

    def __init__(self, batch_tokens: int) -> None:
        self.batch_tokens = batch_tokens
        self._jobs: Deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="batches", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Put a job at the end of the queue. Raises Stopped: after :meth:`close`."""
        with self._changed:
            if self._closed:
                raise Stopped
            self._jobs.append(job)
            self._changed.notify()

    def close(self) -> None:
        """Answer waiting jobs with Stopped and let those in work finish; a job of which a part waits is waiting."""
        with self._changed:
            self._closed = True
            for job in self._jobs:
                if job.waiting:
                    job.fail(Stopped())
            self._changed.notify()

    def join(self, seconds: float) -> None:
        """Wait until the thread is done, at most ``seconds``."""
        self._thread.join(seconds)

    def _work(self) -> None:
        while True:
            batch = self._next()
            if batch is None:
                return
            self._run(batch)

    def _next(self) -> Optional[Batch]:
        with self._changed:
            while True:
                self._jobs = deque(job for job in self._jobs if job.waiting)
                if self._jobs:
                    return self._take()
                if self._closed:
                    return None
                self._changed.wait()

    def _take(self) -> Batch:
        group, room = self._jobs[0].group, self.batch_tokens
        batch: Batch = []
        for job in self._jobs:
            if job.group != group:
                continue
            numbers = job.take(room, first=not batch)
            room -= sum(job.costs[number] for number in numbers)
            if numbers:
                batch.append((job, numbers))
            if job.waiting:
                break
        return batch

    def _run(self, batch: Batch) -> None:
        """Translate a batch; where that fails, each job alone, so that only those fail that are the reason."""
        lines = [job.lines[number] for job, numbers in batch for number in numbers]
        try:
            results = batch[0][0].run(lines)
            if len(results) != len(lines):
                raise RuntimeError(f"{len(lines)} lines gave {len(results)} results")
        except Exception:
            if len(batch) == 1:
                logger.exception("a request failed")
                batch[0][0].fail(Failed())
                return
            for part in batch:
                self._run([part])
            return
        start = 0
        for job, numbers in batch:
            job.receive(results[start : start + len(numbers)])
            start += len(numbers)
