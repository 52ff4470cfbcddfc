"""Output of an analysis: Markdown tables, JSON and TSV files, progress, and names of models."""

import argparse
import json
import os
import sys
import time
from pathlib import PurePath
from typing import Any, Dict, List, Optional, Sequence

from data_prep.files import atomic_path

from . import plots


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], text_columns: int = 1) -> str:
    """Format a Markdown table, padded so that it can be read as it stands.

    Args:
        columns: headers.
        rows: cells; floats are shown with four decimals.
        text_columns: number of first columns that are aligned to the left, the others to the right.
    """

    def show(cell: Any) -> str:
        """Format a cell."""
        return f"{cell:.4f}" if isinstance(cell, float) else str(cell)

    def align(cell: str, column: int, filler: str = " ") -> str:
        """Pad a cell to the width of its column."""
        if column < text_columns:
            return cell.ljust(widths[column], filler)
        return cell.rjust(widths[column], filler)

    cells = [[show(cell) for cell in row] for row in [columns, *rows]]
    widths = [max(3, *map(len, column)) for column in zip(*cells)]
    lines = [[align(cell, column) for column, cell in enumerate(row)] for row in cells]
    ends = ["-" if column < text_columns else ":" for column in range(len(widths))]
    lines.insert(1, [align(end, column, filler="-") for column, end in enumerate(ends)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def say(text: str) -> None:
    """Write a result to standard output; logging goes to standard error."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def check_outputs(args: argparse.Namespace) -> None:
    """Check the outputs of a verb before its work.

    Raises:
        ValueError: the folder of ``--json``, ``--plot`` or ``--tsv`` does not exist, or the plot
            has an unknown kind.
    """
    for option in ("json", "plot", "tsv"):
        path = getattr(args, option, None)
        if path is not None and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise ValueError(
                f"--{option} {path}: its folder does not exist; valid: a file in an existing folder"
            )
    plot = getattr(args, "plot", None)
    if plot is not None:
        plots.check(plot)


def write_json(path: Optional[str], content: Any) -> None:
    """Write a JSON file atomically, or nothing if ``path`` is None.

    Raises:
        ValueError: a number that is not finite.
    """
    if path is not None:
        _write(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))


def write_tsv(path: Optional[str], columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write a tab-separated table atomically, or nothing if ``path`` is None.

    None becomes an empty cell.
    """
    if path is not None:
        lines = []
        for row in [columns, *rows]:
            lines.append("\t".join("" if cell is None else str(cell) for cell in row))
        _write(path, "\n".join(lines))


def _write(path: str, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


class Progress:
    """Decide when progress is logged: at most once in ``seconds``."""

    def __init__(self, seconds: float = 10.0):
        self.seconds, self.last = seconds, time.monotonic()

    def is_due(self) -> bool:
        """Return True if a line is to be logged now; the next one is due ``seconds`` later."""
        due = time.monotonic() - self.last > self.seconds
        if due:
            self.last = time.monotonic()
        return due


def named_paths(
    items: Sequence[str], option: str, valid: str, kind: str = "NAME=FILE"
) -> Dict[str, str]:
    """Parse ``en=FILE de=FILE`` into a dictionary, in that order.

    Args:
        option, valid, kind: option, an example, and the form of an item, for messages.

    Raises:
        ValueError: an item without ``=``, or a name twice.
    """
    paths: Dict[str, str] = {}
    for item in items:
        name, equals, path = item.partition("=")
        if name in paths:
            raise ValueError(f"{option} {item}: {name} is there twice; valid: {valid}")
        if not (name and equals and path):
            raise ValueError(f"{option} {item}: no {kind}; valid: {valid}")
        paths[name] = path
    return paths


def short_names(paths: Sequence[str]) -> List[str]:
    """Shorten paths to as many last parts as tell them apart."""
    parts = [PurePath(path).parts for path in paths]
    for count in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(part[-count:]) for part in parts]
        if len(set(names)) == len(set(paths)):
            break
    return names


def names_of_sides(paths: Sequence[str]) -> List[str]:
    """Return short names; the same model twice is ``NAME A`` and ``NAME B``."""
    names = short_names(paths)
    if len(set(names)) == len(names):
        return names
    return [f"{name} {letter}" for name, letter in zip(names, "AB")]
