"""The same work on many files or pairs, several at a time, with progress and a clean end on errors and signals."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, Sequence, Tuple, TypeVar

from . import cli

Job = TypeVar("Job")
Result = TypeVar("Result")
PARENT_SECONDS = 1.0
END_SECONDS = 10.0  # what a worker has to remove its unfinished outputs


def for_each(function: Callable[[Job], Result], jobs: Sequence[Job], workers: int, label: str) -> List[Result]:
    """Return the results of a function, in the order of the jobs.

    Every job has a process of its own, without locks between them, so that ending one can never block another.

    Args:
        function: one that can be pickled, when there are several workers.
        jobs: its argument for each call.
        workers: processes at a time; with one, or with a single job, everything happens in this process.
        label: what to call the work on standard error.

    Raises:
        Exception: the first one that a call raises; the other calls are ended, and their unfinished outputs removed.
        OSError: a process ended without a result, as the system ends one for lack of memory.
    """
    if min(workers, len(jobs)) <= 1:
        return [function(job) for job in jobs]
    results: Dict[int, Any] = {}
    waiting = list(enumerate(jobs))[::-1]
    running: Dict[Any, Tuple[int, Any]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                index, job = waiting.pop()
                connection, process = _start(function, job)
                running[connection] = index, process
            for connection in multiprocessing.connection.wait(list(running)):
                index, process = running[connection]
                results[index] = _result(connection, process, label)
                del running[connection]
                cli.say(f"{label}: {len(results)} of {len(jobs)} done")
    finally:
        _end(process for _, process in running.values())
    return [results[index] for index in range(len(jobs))]


def _start(function: Callable[[Any], Any], job: Any) -> Tuple[Any, Any]:
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_work, args=(function, job, sender), daemon=True)
    process.start()
    sender.close()  # so that the end of the worker closes the pipe
    return receiver, process


def _work(function: Callable[[Any], Any], job: Any, sender: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupted command ends its workers itself
    cli.end_on_terminate()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        answer: Tuple[Any, Any] = None, function(job)
    except Exception as error:  # sent to the command, which raises it
        answer = error, None
    sender.send(answer)


def _end_with(parent: int) -> None:
    """End this worker when the command that started it was killed and so could not end it."""
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(1)


def _result(connection: Any, process: Any, label: str) -> Any:
    try:
        error, result = connection.recv()
    except EOFError:
        process.join()
        raise OSError(f"{label}: a process ended without a result, status {process.exitcode}") from None
    process.join()
    connection.close()
    if error is not None:
        raise error
    return result


def _end(processes: Iterable[Any]) -> None:
    left = list(processes)
    for process in left:
        process.terminate()
    for process in left:
        process.join(END_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
