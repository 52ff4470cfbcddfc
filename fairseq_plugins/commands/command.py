"""Shared parts of the verbs: a parser, checks of input files, and how a command runs and ends."""

import argparse
import ast
import importlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterable, Optional, Sequence

from .. import own_commands, register

PACKAGE = Path(own_commands.PACKAGE)


class Parser(argparse.ArgumentParser):
    """Argument parser of a verb and of its sub-commands; option names are never abbreviated."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})


def new_parser(verb: str, description: str, **kwargs: Any) -> Parser:
    """Make the parser of ``fairseq-plugins VERB``; ``kwargs`` are those of argparse."""
    return Parser(prog=f"{own_commands.PROGRAM} {verb}", description=description, **kwargs)


def read_docstring(module: str) -> str:
    """Return the docstring of a module below the package without importing the module."""
    path = PACKAGE.joinpath(*module.split(".")).with_suffix(".py")
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def check_exists(option: str, path: Optional[str]) -> None:
    """Raise ValueError unless the path is a file or a folder; None passes."""
    if path is not None and not os.path.exists(path):
        raise ValueError(f"{option} {path}: no such file or folder")


def check_named(option: str, texts: Optional[Iterable[str]]) -> None:
    """Raise ValueError for a ``NAME=PATH`` whose path does not exist.

    A text without ``=`` passes here; the verb refuses it later.
    """
    for text in texts or ():
        name, _, path = text.partition("=")
        if path:
            check_exists(f"{option} {name}:", path)


def import_all() -> None:
    """Register the package with fairseq; exit with a sentence if it cannot be imported."""
    try:
        register()
    except ImportError as error:
        sys.exit(
            f"{own_commands.PROGRAM}: error: the package cannot be imported: {error}. "
            "Install what setup.py lists, or run `make install`."
        )


@dataclass(frozen=True)
class Command:
    """A verb of the command line.

    Attributes:
        build_parser: makes the parser, without importing torch or fairseq.
        work: does the work; raises ValueError or OSError for input that is at fault.
        check: raises ValueError for options that can be refused before torch is imported.
    """

    build_parser: Callable[[], Parser]
    work: Callable[[argparse.Namespace], None]
    check: Callable[[argparse.Namespace], None] = lambda args: None

    def __call__(self, words: Sequence[str]) -> int:
        """Run the verb with these words of the command line; return the exit status."""
        parser = self.build_parser()
        return run(parser, parser.parse_args(words), self.work, self.check)


def run(
    parser: Parser,
    args: argparse.Namespace,
    work: Callable[[argparse.Namespace], None],
    check: Callable[[argparse.Namespace], None],
) -> int:
    """Check the options, register the package with fairseq, and do the work.

    Returns:
        The exit status 0. The process exits with status 2 and a sentence if the input is at fault.
    """
    try:
        check(args)
    except ValueError as error:
        own_commands.refuse(parser, error)
    import_all()
    return own_commands.run(parser, lambda: work(args))


def import_below(module: str) -> Any:
    """Import a module of the package, as ``analysis.cka``."""
    return importlib.import_module(f"{__package__.rpartition('.')[0]}.{module}")
