"""Progress on standard error: single lines, counts of lines, heartbeats of long silent calls.

Standard output is for results. A terminal gets a line every few seconds, a log one a minute.
"""

import logging
import sys
import threading
import time
from contextlib import contextmanager
from typing import Iterable, Iterator, Optional, TypeVar

Item = TypeVar("Item")
TERMINAL_SECONDS = 5.0
LOG_SECONDS = 60.0


class _Clock(logging.Handler):
    """Time of the last line on standard error, by :func:`say` or by a logger."""

    def __init__(self) -> None:
        super().__init__()
        self.time = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        self.time = time.monotonic()


_last_line = _Clock()


def say(text: str) -> None:
    """Print one line on standard error."""
    sys.stderr.write(f"{text}\n")  # one call: lines of several workers must not mix
    sys.stderr.flush()
    _last_line.time = time.monotonic()


def report_seconds() -> float:
    """Return the seconds between two lines of progress."""
    return TERMINAL_SECONDS if sys.stderr.isatty() else LOG_SECONDS


def with_progress(items: Iterable[Item], label: str) -> Iterator[Item]:
    """Pass lines of text, or records of one line each, through and report their number."""
    pause = report_seconds()
    start = last_report = time.monotonic()
    for count, item in enumerate(items, start=1):
        now = time.monotonic()
        if now - last_report >= pause:
            say(f"{label}: {count:,} lines, {count / (now - start):,.0f} lines/s")
            last_report = now
        yield item


@contextmanager
def heartbeat(label: str, seconds: Optional[float] = None) -> Iterator[None]:
    """Report that the block is still at work, whenever nothing else was said for a while.

    Args:
        label: name of the work.
        seconds: of silence before a report; default: :func:`report_seconds`.
    """
    pause = report_seconds() if seconds is None else seconds
    is_over = threading.Event()
    start = _last_line.time = time.monotonic()

    def beat() -> None:
        while not is_over.wait(max(0.0, _last_line.time + pause - time.monotonic())):
            now = time.monotonic()
            if now - _last_line.time >= pause:
                say(f"{label}: at work for {now - start:,.0f} s")

    thread = threading.Thread(target=beat, daemon=True)
    logging.getLogger().addHandler(_last_line)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        logging.getLogger().removeHandler(_last_line)
