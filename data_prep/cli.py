"""Command lines of all verbs: parsers, errors in one line, clean ends on signals."""

import argparse
import logging
import signal
import sys
import warnings
from typing import Any, Callable, List, Mapping, NoReturn, Optional

from .io import InputError
from .progress import say

EXIT_BAD_INPUT = 1
EXIT_TERMINATED = 128 + signal.SIGTERM
EXIT_INTERRUPTED = 128 + signal.SIGINT


def run(verb: str, main: Callable[[Optional[List[str]]], None]) -> NoReturn:
    """Run a verb's main and exit: 0 done, 1 bad input or an unusable file, 2 wrong usage."""
    end_on_terminate()
    # fairseq, if a verb imports it, would show the notes of every package.
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.WARNING)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    try:
        main(None)
    except (InputError, OSError) as error:
        say(f"{verb}: error: {error}")
        sys.exit(EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        say(f"{verb}: interrupted")
        sys.exit(EXIT_INTERRUPTED)
    sys.exit(0)


def end_on_terminate() -> None:
    """Let SIGTERM end the process as an exception does, so that unfinished outputs are removed."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: object) -> NoReturn:
    sys.exit(EXIT_TERMINATED)


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Show defaults, except None, False and the empty text."""

    def _get_help_string(self, action: argparse.Action) -> Optional[str]:
        if action.default is None or action.default is False or action.default == "":
            return action.help
        return super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """Argument parser of a verb and of its sub-commands; option names are never abbreviated."""

    def __init__(self, *args: Any, **kwargs: Any):
        defaults = {"formatter_class": HelpFormatter, "allow_abbrev": False}
        super().__init__(*args, **{**defaults, **kwargs})


def parser(verb: str, description: Optional[str]) -> argparse.ArgumentParser:
    """Make the argument parser of a verb."""
    return Parser(prog=f"python -m data_prep {verb}", description=description)


def list_counts(counts: Mapping[str, int]) -> str:
    """Return counts as ``name 1,000, other 20``."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())
