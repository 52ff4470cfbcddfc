"""Raw text of ``translate``: lines that are not UTF-8 are named, long ones are cut and named."""

import io
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


def test_room_is_what_the_symbols_of_the_task_leave():
    task = builders.task()  # adds <s> and </s>
    assert count_room(task, (10, 20)) == 8 and count_room(task, 10) == 8
    assert count_room(task, (1, 20)) == 1
    assert count_room(task, None) == float("inf") and count_room(task, (None, None)) == float("inf")


@pytest.mark.parametrize(
    ("lines", "warning"),
    [
        (["a b", "", "a  b"], None),
        (["a b c", "a b"], "longer than 2 pieces and cut: line 7"),
        (["a b c", "a", *6 * ["a b c"]], "longer than 2 pieces and cut: lines 7, 9, 10, 11, 12, …"),
    ],
)
def test_lines_that_are_too_long_are_cut_and_named(caplog, lines, warning):
    cutter = SourceCutter(2, first_line=7)
    assert [cutter.cut(line).split() for line in lines] == [line.split()[:2] for line in lines]
    cutter.warn()
    assert [record.message for record in caplog.records] == ([warning] if warning else [])
