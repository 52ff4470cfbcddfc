"""Translate waiting requests in common batches: a queue in order of arrival and a thread."""

import logging
import threading
from collections import deque
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Callable, Deque, Hashable, List, Optional, Sequence, Tuple

logger = logging.getLogger(__name__)


class Stopped(Exception):
    """Raised for a waiting request when the service ends."""


class Failed(Exception):
    """Raised for a request whose lines made the model fail; the log has the error."""


class Job:
    """Lines of a request, which are answered together or not at all.

    Args:
        group: jobs of the same group may share a batch.
        run: returns a result per line. A batch calls the ``run`` of its first job.
        lines: at least one.
        costs: tokens of each line.

    Attributes:
        future: its result is a list with a result per line. Cancelling it removes the job from the
            queue.
    """

    def __init__(
        self,
        group: Hashable,
        run: Callable[[List[str]], Sequence[Any]],
        lines: Sequence[str],
        costs: Sequence[int],
    ) -> None:
        self.group, self.run, self.lines, self.costs = group, run, lines, costs
        self.future: Future[List[Any]] = Future()
        self.next_line = 0  # number of the first line that is in no batch
        self._results: List[Any] = []

    @property
    def waiting(self) -> bool:
        """Return True if some lines are in no batch yet."""
        return self.next_line < len(self.lines) and not self.future.done()

    def take(self, room: int, first: bool) -> List[int]:
        """Take the next lines that fit into ``room`` tokens; return their numbers.

        With ``first`` at least a line is taken, however long it is.
        """
        numbers: List[int] = []
        while self.next_line < len(self.lines) and (
            self.costs[self.next_line] <= room or (first and not numbers)
        ):
            room -= self.costs[self.next_line]
            numbers.append(self.next_line)
            self.next_line += 1
        return numbers

    def receive(self, results: Sequence[Any]) -> None:
        """Store the results of the lines in the last batch, and answer if no line is left.

        Batches run one after another, so results come in the order of the lines.
        """
        self._results.extend(results)
        if len(self._results) == len(self.lines):
            with suppress(InvalidStateError):  # the future was cancelled
                self.future.set_result(self._results)

    def fail(self, error: Exception) -> None:
        """Answer with an error."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)


Batch = List[Tuple[Job, List[int]]]  # jobs, and the numbers of their lines


class Batcher:
    """Queue of jobs and the thread that runs them.

    A batch begins with the line that has waited longest. Lines of its group follow in order of
    arrival while they fit; no line overtakes another line of its group.

    Args:
        batch_tokens: tokens of a batch; a longer line is a batch by itself.
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
        """Put a job at the end of the queue. Raises Stopped after :meth:`close`."""
        with self._changed:
            if self._closed:
                raise Stopped
            self._jobs.append(job)
            self._changed.notify()

    def close(self) -> None:
        """Answer waiting jobs with Stopped and let the running batch finish.

        A job waits if some of its lines are in no batch yet, even if others are being run.
        """
        with self._changed:
            self._closed = True
            for job in self._jobs:
                if job.waiting:
                    job.fail(Stopped())
            self._changed.notify()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended, at most ``seconds``."""
        self._thread.join(seconds)

    def _work(self) -> None:
        while True:
            batch = self._next()
            if batch is None:
                return
            self._run(batch)

    def _next(self) -> Optional[Batch]:
        """Wait for jobs and take the next batch; None after :meth:`close`."""
        with self._changed:
            while True:
                self._jobs = deque(job for job in self._jobs if job.waiting)
                if self._jobs:
                    return self._take()
                if self._closed:
                    return None
                self._changed.wait()

    def _take(self) -> Batch:
        """Take the lines of the next batch: those of the first job, and of others of its group."""
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
        """Run a batch. If it fails, run each job alone, so that only the jobs at fault fail."""
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
