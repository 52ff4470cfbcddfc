"""Read raw sentences for translation: UTF-8 lines, cut to the length that a model reads."""

import contextlib
import logging
import sys
from typing import Any, Iterator, List

logger = logging.getLogger(__name__)

LISTED_LINES = 5
"""Line numbers written out in a warning."""


def read_lines(path: str) -> Iterator[str]:
    """Yield the lines of a UTF-8 text without their ends, which are LF or CR LF.

    Args:
        path: a file, or ``-`` for standard input.

    Raises:
        ValueError: a line is not UTF-8; names its number from 1.
    """
    with open(path, "rb") if path != "-" else contextlib.nullcontext(sys.stdin.buffer) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                yield line.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                raise ValueError(
                    f"--input {path}: line {number} is not UTF-8; valid: a UTF-8 sentence per line"
                ) from None


def count_room(task: Any, max_positions: Any) -> float:
    """Return how many pieces of a source fit beside the special symbols that the task adds.

    Args:
        task: a fairseq task that translates.
        max_positions: most tokens of a source, or the limits of source and target; None = no limit.
    """
    import torch

    longest = max_positions[0] if isinstance(max_positions, (tuple, list)) else max_positions
    if not isinstance(longest, (int, float)):
        return float("inf")
    eos = torch.tensor([task.source_dictionary.eos()])
    added = len(task.build_dataset_for_inference([eos], [1])[0]["source"])
    return max(longest - added, 1)


class SourceCutter:
    """Cut the sentences of consecutive lines, and record which lines were cut.

    Args:
        room: pieces that fit (see :func:`count_room`).
        first_line: number of the first line.
    """

    def __init__(self, room: float, first_line: int = 1) -> None:
        self.room, self.next_line = room, first_line
        self.cut_lines: List[int] = []

    def cut(self, pieces: str) -> str:
        """Cut the pieces of the next line to the room."""
        from fairseq.tokenizer import tokenize_line

        line = self.next_line
        self.next_line += 1
        symbols = tokenize_line(pieces)
        if len(symbols) <= self.room:
            return pieces
        self.cut_lines.append(line)
        return " ".join(symbols[: int(self.room)])

    def warn(self) -> None:
        """Log a warning that lists the lines that were cut."""
        if self.cut_lines:
            numbers = ", ".join(map(str, self.cut_lines[:LISTED_LINES]))
            more = ", …" if len(self.cut_lines) > LISTED_LINES else ""
            noun = "line" if len(self.cut_lines) == 1 else "lines"
            logger.warning("longer than %d pieces and cut: %s %s%s", self.room, noun, numbers, more)
