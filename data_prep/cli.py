"""Share what every verb's command line needs: errors in one line, clean ends on signals."""

import argparse
import logging
import signal
import sys
import warnings
from typing import Any, Callable, List, NoReturn, Optional

from .io import InputError
from .progress import say

EXIT_BAD_INPUT = 1
EXIT_TERMINATED = 128 + signal.SIGTERM
EXIT_INTERRUPTED = 128 + signal.SIGINT


def run(verb: str, main: Callable[[Optional[List[str]]], None]) -> NoReturn:
    """Run a verb's main and exit: 0 done, 1 bad input or a file that cannot be read or written, 2 wrong usage."""
    end_on_terminate()
    # fairseq, where a verb imports it, would show everybody's notes.
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
    """Let SIGTERM end the process as an exception does: unfinished outputs are removed on the way out."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: object) -> NoReturn:
    sys.exit(EXIT_TERMINATED)


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows the defaults that say something."""

    def _get_help_string(self, action: argparse.Action) -> Optional[str]:
        if action.default is None or action.default is False or action.default == "":
            return action.help
        return super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """Argument parser of a verb, also of its sub-commands: defaults shown, option names never abbreviated."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **{"formatter_class": HelpFormatter, "allow_abbrev": False, **kwargs})


def parser(verb: str, description: Optional[str]) -> argparse.ArgumentParser:
    """Make the argument parser of a verb."""
    return Parser(prog=f"python -m data_prep.{verb}", description=description)
