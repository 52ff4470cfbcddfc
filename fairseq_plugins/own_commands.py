"""What ``python -m fairseq_plugins…`` prints: its own lines. fairseq's notes and others' warnings stay with the stock commands."""

import argparse
import logging
import os
import sys
import warnings
from typing import Any, Callable

from data_prep.progress import heartbeat

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
        with heartbeat(parser.prog):
            work()
    except (ValueError, OSError) as error:
        parser.error(str(error))
    return 0
