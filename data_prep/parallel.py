"""The same work on many files or pairs, several at a time, with progress and a clean end on errors and signals."""

import functools
import multiprocessing
import os
import signal
import threading
import time
from typing import Any, Callable, Dict, List, Sequence, Tuple, TypeVar

from . import cli

Job = TypeVar("Job")
Result = TypeVar("Result")
PARENT_SECONDS = 1.0


def for_each(function: Callable[[Job], Result], jobs: Sequence[Job], workers: int, label: str) -> List[Result]:
    """Return the results of a function, in the order of the jobs.

    Args:
        function: one that can be pickled, when there are several workers.
        jobs: its argument for each call.
        workers: processes; with one, or with a single job, everything happens in this process.
        label: what to call the work on standard error.

    Raises:
        Exception: the first one that a call raises; the other calls are ended, and their unfinished outputs removed.
    """
    workers = min(workers, len(jobs))
    if workers <= 1:
        return [function(job) for job in jobs]
    results: Dict[int, Any] = {}
    pool = multiprocessing.Pool(workers, initializer=_prepare_worker)
    try:
        for index, result in pool.imap_unordered(functools.partial(_numbered, function), list(enumerate(jobs))):
            results[index] = result
            cli.say(f"{label}: {len(results)} of {len(jobs)} done")
        pool.close()
    finally:
        pool.terminate()
        pool.join()
    return [results[index] for index in range(len(jobs))]


def _prepare_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupted command ends its workers itself
    cli.end_on_terminate()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this worker when the command that started it was killed and so could not end it."""
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(1)


def _numbered(function: Callable[[Any], Any], job: Tuple[int, Any]) -> Tuple[int, Any]:
    return job[0], function(job[1])
