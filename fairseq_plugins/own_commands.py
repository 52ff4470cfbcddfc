"""Recognise the commands of this package, set up what they print, and end them.

They print their own notes, and of fairseq and other packages only warnings.
"""

import argparse
import importlib
import logging
import os
import sys
import warnings
from typing import Any, Callable, NoReturn, Union

from data_prep.progress import heartbeat

PROGRAM = "fairseq-plugins"
PACKAGE = os.path.dirname(os.path.realpath(__file__))
FORMAT = "%(asctime)s | %(levelname)s | %(message)s"
QUIET_LOGGERS = ("fairseq", "fairseq_cli", "hydra", "sacrebleu", f"{__package__}.compat")
"""Loggers whose notes the commands of this package hide; warnings are shown."""


def is_running() -> bool:
    """Return True if Python is starting a verb or, by ``-m``, a module of this package."""
    return is_verb() or _module().split(".")[0] == __package__


def is_verb() -> bool:
    """Return True if Python is starting the command line of verbs.

    It is started as ``fairseq-plugins``, as ``python -m fairseq_plugins``, or by the folder's path.
    """
    program = sys.argv[0] if sys.argv else ""
    is_folder = os.path.realpath(program) in (PACKAGE, os.path.join(PACKAGE, "__main__.py"))
    is_module = _module() in (__package__, f"{__package__}.__main__")
    return is_folder or is_module or os.path.basename(program) == PROGRAM


def _module() -> str:
    """Return the module of this package that ``python -m`` is about to run, or an empty string.

    While Python imports the packages of that module, ``sys.argv[0]`` is ``-m`` and the module's
    name stands in ``sys.orig_argv`` alone.
    """
    if not sys.argv or sys.argv[0] != "-m":
        return ""
    names = [word for word in sys.orig_argv if word.split(".")[0] == __package__]
    return names[0] if names else ""


def log_own_lines() -> None:
    """Log to standard error: the notes of this package, and only warnings of other loggers.

    Python's own warnings are hidden unless ``python -W`` asks for them.
    """
    logging.basicConfig(format=FORMAT, level=logging.INFO, force=True)
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


def refuse(parser: argparse.ArgumentParser, error: Union[str, Exception]) -> NoReturn:
    """Exit with status 2 and a message in one line."""
    parser.exit(2, f"{parser.prog}: error: {error}\n")
    raise AssertionError("argparse has left the process")


def run(parser: argparse.ArgumentParser, work: Callable[[], Any]) -> int:
    """Run the work of a command; return the exit status 0.

    Exits with status 2 and a message in one line if the work raises ValueError or OSError.
    """
    try:
        with heartbeat(parser.prog):
            work()
    except BrokenPipeError:  # the reader has left, as in "| head"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError) as error:
        refuse(parser, error)
    return 0


def forward(*words: str) -> int:
    """Run a verb for a module that was a command up to 0.1.0; a note tells the new command."""
    verb = " ".join([PROGRAM, *words])
    sys.stderr.write(f"This command is now {verb}; its old name ends with the next release.\n")
    return int(importlib.import_module(f"{__package__}.__main__").main([*words, *sys.argv[1:]]))
