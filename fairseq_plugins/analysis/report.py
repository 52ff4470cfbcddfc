"""What an analysis leaves behind: Markdown tables on standard output, a JSON file, names of models."""

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
    """A Markdown table, padded so that it can be read as it stands.

    Floats are shown with four decimals. The first ``text_columns`` columns are aligned to the left, the others to the right.
    """
    cells = [[f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in row] for row in [columns, *rows]]
    widths = [max(3, *map(len, column)) for column in zip(*cells)]
    cells.insert(1, ["-" * width if n < text_columns else "-" * (width - 1) + ":" for n, width in enumerate(widths)])
    lines = []
    for row in cells:
        padded = [c.ljust(w) if n < text_columns else c.rjust(w) for n, (c, w) in enumerate(zip(row, widths))]
        lines.append("| " + " | ".join(padded) + " |")
    return "\n".join(lines)


def say(text: str) -> None:
    """Write a result to standard output; logging goes to standard error."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def check_outputs(args: argparse.Namespace) -> None:
    """Refuse outputs that could not be written, before the work.

    Raises ValueError: the folder of ``--json``, ``--plot`` or ``--tsv`` does not exist, or the plot has an unknown kind.
    """
    given = {option: getattr(args, option, None) for option in ("json", "plot", "tsv")}
    for option, path in given.items():
        if path is not None and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise ValueError(f"--{option} {path}: its folder does not exist; valid: a file in an existing folder")
    if given["plot"] is not None:
        plots.check(given["plot"])


def write_json(path: Optional[str], content: Any) -> None:
    """Write a JSON file at once; nothing where ``path`` is None. Refuses numbers that are not finite."""
    if path is not None:
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        _write(path, text)


def write_tsv(path: Optional[str], columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write a tab-separated table at once; nothing where ``path`` is None. None becomes an empty cell."""
    if path is not None:
        lines = ["\t".join("" if cell is None else str(cell) for cell in row) for row in [columns, *rows]]
        _write(path, "\n".join(lines))


def _write(path: str, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


class Progress:
    """Tells when the next line of progress is due: some seconds after the last one."""

    def __init__(self, seconds: float = 10.0):
        self.seconds, self.last = seconds, time.monotonic()

    def is_due(self) -> bool:
        """Whether to log a line now; if so, the next one is due later."""
        due = time.monotonic() - self.last > self.seconds
        if due:
            self.last = time.monotonic()
        return due


def named_paths(items: Sequence[str], option: str, valid: str, kind: str = "NAME=FILE") -> Dict[str, str]:
    """``en=FILE de=FILE`` as a dictionary, in that order.

    Raises ValueError: an item without ``=``, a name twice; names ``option``, what an item is (``kind``) and an example (``valid``).
    """
    found: Dict[str, str] = {}
    for item in items:
        name, equals, path = item.partition("=")
        if not (name and equals and path) or name in found:
            wrong = f"{name} is there twice" if name in found else f"no {kind}"
            raise ValueError(f"{option} {item}: {wrong}; valid: {valid}")
        found[name] = path
    return found


def short_names(paths: Sequence[str]) -> List[str]:
    """The last parts of paths: as few as tell them apart."""
    parts = [PurePath(path).parts for path in paths]
    for count in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(part[-count:]) for part in parts]
        if len(set(names)) == len(set(paths)):
            break
    return names


def names_of_sides(paths: Sequence[str]) -> List[str]:
    """Short names; the same model twice is ``NAME A`` and ``NAME B``."""
    names = short_names(paths)
    return names if len(set(names)) == len(names) else [f"{name} {letter}" for name, letter in zip(names, "AB")]
