"""What an analysis leaves behind: Markdown tables on standard output, a JSON file, names of models."""

import argparse
import json
import os
import sys
from pathlib import PurePath
from typing import Any, Callable, Dict, List, Sequence

from ..checkpoints import atomic_path
from ..own_commands import heartbeat


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], text_columns: int = 1) -> str:
    """A Markdown table, padded so that it can be read as it stands.

    Args:
        columns: header.
        rows: cells; floats are shown with four decimals.
        text_columns: columns from the left that are aligned to the left; the others to the right.
    """
    cells = [list(columns), *([_shown(cell) for cell in row] for row in rows)]
    widths = [max(3, *(len(row[number]) for row in cells)) for number in range(len(columns))]
    lines = []
    for row in cells:
        padded = [
            cell.ljust(width) if number < text_columns else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("| " + " | ".join(padded) + " |")
    rule = ["-" * width if number < text_columns else "-" * (width - 1) + ":" for number, width in enumerate(widths)]
    lines.insert(1, "| " + " | ".join(rule) + " |")
    return "\n".join(lines)


def _shown(cell: Any) -> str:
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell)


def say(text: str) -> None:
    """Write a result to standard output; logging goes to standard error."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--json`` and ``--plot``."""
    parser.add_argument("--json", metavar="FILE", help="write every number there")
    parser.add_argument("--plot", metavar="FILE", help="draw it: .svg or .png; needs matplotlib, the extra 'plots'")


def add_tsv_option(parser: argparse.ArgumentParser, text: str = "write the table there, tab-separated") -> None:
    """Add ``--tsv``."""
    parser.add_argument("--tsv", metavar="FILE", help=text)


def check_outputs(args: argparse.Namespace) -> None:
    """Refuse outputs that could not be written, before the work.

    Raises:
        ValueError: the folder of ``--json``, ``--plot`` or ``--tsv`` does not exist, or the plot has an unknown kind.
    """
    for option in ("json", "plot", "tsv"):
        path = getattr(args, option, None)
        if path is not None and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise ValueError(f"--{option} {path}: its folder does not exist; valid: a file in an existing folder")
    if args.plot is not None:
        from . import plots

        plots.check(args.plot)


def write_json(path: str, content: Any) -> None:
    """Write a JSON file at once; not-a-number becomes null."""
    with atomic_path(path) as temporary:
        temporary.write_text(
            json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
        )


def write_tsv(path: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write a tab-separated table at once; None becomes an empty cell."""
    lines = ["\t".join("" if cell is None else str(cell) for cell in row) for row in [columns, *rows]]
    with atomic_path(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def named_paths(items: Sequence[str], option: str, valid: str, kind: str = "NAME=FILE") -> Dict[str, str]:
    """``en=FILE de=FILE`` as a dictionary, in that order.

    Args:
        items: as typed.
        option: where, for messages.
        valid: an example, for messages.
        kind: what an item is, for messages.

    Raises:
        ValueError: a part without ``=``, a name twice.
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


def run(parser: argparse.ArgumentParser, work: Callable[[argparse.Namespace], None], argv: Any = None) -> int:
    """Run a command; exit status 0, or 2 with a message."""
    args = parser.parse_args(argv)
    try:
        check_outputs(args)
        with heartbeat():
            work(args)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    return 0
