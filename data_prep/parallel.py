"""Run a function on several jobs at a time, in processes that end cleanly on errors and signals."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Sequence, TypeVar

from . import cli

Job = TypeVar("Job")
Result = TypeVar("Result")
PARENT_SECONDS = 1.0
END_SECONDS = 10.0  # time for a worker to remove its unfinished outputs


class _Worker(NamedTuple):
    number: int  # of its job
    process: Any


def for_each(
    function: Callable[[Job], Result], jobs: Sequence[Job], workers: int, label: str
) -> List[Result]:
    """Return the results of a function, in the order of the jobs.

    Every job has a process of its own, without locks between them, so that ending one can never
    block another.

    Args:
        function: can be pickled if there are several workers.
        jobs: argument of each call.
        workers: processes at a time; with 1, or with a single job, no process is started.
        label: name of the work on standard error.

    Raises:
        Exception: the first one that a call raises; the other calls are ended.
        OSError: a process ended without a result, as the system ends one for lack of memory.
    """
    if min(workers, len(jobs)) <= 1:
        return [function(job) for job in jobs]
    results: Dict[int, Any] = {}
    waiting = list(enumerate(jobs))[::-1]
    running: Dict[Any, _Worker] = {}  # by the connection to the worker
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                index, job = waiting.pop()
                receiver, sender = multiprocessing.Pipe(duplex=False)
                arguments = (function, job, sender)
                process = multiprocessing.Process(target=_work, args=arguments, daemon=True)
                process.start()
                sender.close()  # so that the end of the worker closes the pipe
                running[receiver] = _Worker(index, process)
            for connection in multiprocessing.connection.wait(list(running)):
                worker = running[connection]
                results[worker.number] = _receive(connection, worker.process, label)
                del running[connection]
                cli.say(f"{label}: {len(results)} of {len(jobs)} done")
    finally:
        _end(worker.process for worker in running.values())
    return [results[index] for index in range(len(jobs))]


def _work(function: Callable[[Any], Any], job: Any, sender: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupted command ends its workers itself
    cli.end_on_terminate()
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    try:
        sender.send((None, function(job)))
    except Exception as error:  # raised again by the command
        sender.send((error, None))


def _end_with_parent(parent: int) -> None:
    """End this worker when the command that started it was killed and so could not end it."""
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(1)


def _receive(connection: Any, process: Any, label: str) -> Any:
    try:
        error, result = connection.recv()
    except EOFError:
        process.join()
        reason = f"a process ended without a result, status {process.exitcode}"
        raise OSError(f"{label}: {reason}") from None
    process.join()
    connection.close()
    if error is not None:
        raise error
    return result


def _end(processes: Iterable[Any]) -> None:
    unfinished = list(processes)
    for process in unfinished:
        process.terminate()
    for process in unfinished:
        process.join(END_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
