"""Verbs implemented in ``data_prep`` that do not prepare data.

``fairseq-plugins`` lists them with the model verbs.
"""

import importlib
import sys
from typing import Callable, Sequence

from ..own_commands import PROGRAM


def forward(verb: str, module: str) -> Callable[[Sequence[str]], int]:
    """Make the function that runs a verb by ``main`` of a module of ``data_prep``.

    If the input is at fault, it prints a sentence and returns the exit status 2.
    """

    def run(words: Sequence[str]) -> int:
        """Run the verb with the remaining words of the command line."""
        try:
            work = importlib.import_module(f"data_prep.{module}").main
        except ModuleNotFoundError as error:
            remedy = "Run it from the checkout, or install the wheel."
            sys.exit(f"{PROGRAM} {verb}: error: {error}. {remedy}")
        input_error = importlib.import_module("data_prep.io").InputError
        try:
            work(list(words))
        except (input_error, OSError) as error:
            sys.stderr.write(f"{PROGRAM} {verb}: error: {error}\n")
            return 2
        return 0

    return run


COMMANDS = {
    "cut-vocabulary": forward("cut-vocabulary", "pieces.cut_vocabulary"),
    "score": forward("score", "scoring.score"),
}
