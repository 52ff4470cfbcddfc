"""Test raw text for translation: bad UTF-8 is named; long lines are cut and named."""

import io
import re
import sys

import pytest

from fairseq_plugins.raw_text import SourceCutter, count_room, read_lines
from tests import builders


def test_a_line_that_is_not_utf8_is_named(tmp_path, monkeypatch):
    content = "ä\u2028\n\nb\r\n".encode() + "ü\n".encode("latin-1") + b"c\n"
    (tmp_path / "text").write_bytes(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="ascii"))
    for name in ("-", str(tmp_path / "text")):
        lines = read_lines(name)
        assert [next(lines) for _ in range(3)] == ["ä\u2028", "", "b"]
        with pytest.raises(ValueError, match=f"--input {name}: line 4 is not UTF-8"):
            next(lines)


def test_special_symbols_of_the_task_take_room():
    """SGA's task adds <s> and </s>; one piece fits always."""
    room, task = float("inf"), builders.task()
    for max_positions, expected in (
        ((10, 20), 8),
        (10, 8),
        ((1, 20), 1),
        (None, room),
        ((None, None), room),
    ):
        assert count_room(task, max_positions) == expected


@pytest.mark.cases(
    "lines warning",
    (["a b", "", "a  b"], None),
    (["a b c", "a b"], "2 pieces and cut: line 7$"),
    (["a b c", "a", *6 * ["a b c"]], "2 pieces and cut: lines 7, 9, 10, 11, 12, …$"),
)
def test_long_lines_are_cut_and_named(caplog, lines, warning):
    cutter = SourceCutter(2, first_line=7)
    for line in lines:
        assert cutter.cut(line).split() == line.split()[:2]
    cutter.warn()
    if warning is None:
        assert not caplog.records
    else:
        (record,) = caplog.records
        assert re.search(warning, record.message)
