"""What ``python -m fairseq_plugins…`` prints: its own lines. fairseq's notes and others' warnings stay with the stock commands."""

import argparse
import contextlib
import logging
import os
import sys
import threading
import time
import warnings
from typing import Any, Callable, Iterator

logger = logging.getLogger(__name__)

PACKAGE = os.path.dirname(os.path.realpath(__file__))
FORMAT = "%(asctime)s | %(levelname)s | %(message)s"
OTHERS = ("fairseq", "fairseq_cli", "hydra", "sacrebleu", f"{__package__}.compat")
"""Loggers whose notes are no news to who runs a command of ours; their warnings are."""


def is_running() -> bool:
    """True where Python is starting a command of this package, with ``-m`` or by the path of the folder."""
    program = sys.argv[0] if sys.argv else ""
    if program == "-m":  # what Python puts there while it looks for the module, and imports its package
        return any(argument.split(".")[0] == __package__ for argument in getattr(sys, "orig_argv", [__package__]))
    return os.path.realpath(program) in (PACKAGE, os.path.join(PACKAGE, "__main__.py"))


def log_own_lines() -> None:
    """Show what this package logs, on standard error, and of others their warnings; ``-W`` brings Python's warnings back."""
    logging.basicConfig(format=FORMAT, level=logging.INFO, force=True)
    for name in OTHERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


def run(parser: argparse.ArgumentParser, work: Callable[[], Any]) -> int:
    """Exit status of a command: 0, or 2 with a message where its work raises ValueError or OSError."""
    try:
        with heartbeat():
            work()
    except (ValueError, OSError) as error:
        parser.error(str(error))
    return 0


class _LastRecord(logging.Handler):
    """Notes when something was logged."""

    time = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        self.time = time.monotonic()


@contextlib.contextmanager
def heartbeat(seconds: float = 20.0) -> Iterator[None]:
    """Log that the command is still at work, whenever nothing else was logged for so long."""
    over, seen = threading.Event(), _LastRecord()
    start = seen.time = time.monotonic()

    def beat() -> None:
        while not over.wait(min(1.0, seconds / 2)):
            now = time.monotonic()
            if now - seen.time >= seconds:
                logger.info("at work for %.0f s", now - start)

    thread = threading.Thread(target=beat, daemon=True)
    logging.getLogger().addHandler(seen)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        logging.getLogger().removeHandler(seen)
