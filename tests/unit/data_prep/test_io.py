"""Text files: every kind of bad input is refused with its place, outputs appear whole or not at all."""

import os
import resource

import pytest

from data_prep import io
from data_prep.cut_checkpoint import open_checkpoint
from data_prep.generation_text import read_json_text
from tests.unit.data_prep.files import refused, tree

GOOD = b"one\ntwo\n"


def write(path, content):
    path.write_bytes(content)
    return path


def test_bad_text_is_refused_with_option_file_and_line(tmp_path):
    for content, message in (
        (b"fine\ncaf\xe9\n", "text, line 2: not UTF-8 (byte 0xe9 at byte 4 of the line); valid: UTF-8"),
        ("hi\n".encode("utf-16"), "looks like UTF-16"),
        (b"\x1f\x8b\x08\x00\xff", "compressed file: unpack it first"),
        (b"", "text: the file is empty; valid: at least one line"),
        (b"one\nt\rwo\n", "line 2: character U+000D at position 2"),
        ("one\u2028two\n".encode(), "line 1: character U+2028 at position 4"),
        ("\ufeffone\n".encode(), "line 1: starts with a byte order mark"),
    ):
        path = write(tmp_path / "text", content)
        refused(["--inputs ", message], lambda: list(io.read_lines(path, "--inputs")))  # noqa: B023
    refused("absent: no such file", lambda: list(io.read_lines(tmp_path / "absent", "--inputs")))


def test_lines_end_at_lf_only(tmp_path):
    text = "a\u2028b\x85c\x0bd\x1ee\rf\n\ttab, nbsp\u00a0 \nlast without LF"
    path = write(tmp_path / "text", text.encode())
    assert list(io.read_lines(path, "--inputs", strict=False)) == text.split("\n")
    assert io.count_lines(path, "--inputs") == 3
    joined = write(tmp_path / "joined", "one\n\ufefftwo\n".encode())  # no byte order mark there
    assert list(io.read_lines(joined, "--inputs")) == ["one", "\ufefftwo"]


def test_outputs_appear_together_with_lf_and_utf8(tmp_path):
    with io.atomic_writers([tmp_path / "new" / "a", tmp_path / "b"], "--outputs") as files:
        files.pop().write("x\n")  # what the caller does with its list loses no file
        files.pop().write("é\n")
        assert not {"new/a", "b"} & set(tree(tmp_path))
    assert tree(tmp_path) == {"new/a": "é\n".encode(), "b": b"x\n"}


def write_lines(paths, text, count, option="--outputs", **options):
    with io.atomic_writers(paths, option, **options) as files:
        for file in files:
            file.write(text * count)


@pytest.mark.parametrize("names", [["a"], ["a", "b"]])
@pytest.mark.parametrize("count", [100, 100_000])  # noticed at the end, and while lines are written
def test_a_full_disk_keeps_the_old_output(tmp_path, names, count):
    olds = [write(tmp_path / name, GOOD) for name in names]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, before[1]))  # the system refuses as a full disk does
    try:
        with pytest.raises(OSError, match=f"File too large: '{tmp_path}"):
            write_lines(olds, "new\n", count)
        with pytest.raises(OSError, match=f"File too large: '{tmp_path}/a'"):
            io.write_bytes(olds[0], b"new\n" * count)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert tree(tmp_path) == dict.fromkeys(names, GOOD)


def test_outputs_that_are_refused(tmp_path):
    source = write(tmp_path / "a", GOOD)
    (tmp_path / "folder").mkdir()
    for name, message in (("folder/../a", "would overwrite an input"), ("folder", "a folder"), ("b", "b: no line")):
        refused(message, write_lines, [tmp_path / name], "", 0, inputs=[source])
    assert tree(tmp_path) == {"a": GOOD}
    write_lines([tmp_path / "b"], "", 0, empty_ok=True)
    assert tree(tmp_path) == {"a": GOOD, "b": b""}


@pytest.mark.parametrize("whole", [False, True])
def test_what_is_no_file_is_not_replaced(tmp_path, whole):
    """A pipe, or a device as /dev/stdout; of a link what it leads to."""

    def write_to(path):
        if whole:
            io.write_bytes(path, b"new\n")
            return
        with io.atomic_writers([path], "--output") as (file,):
            file.write("new\n")

    os.mkfifo(tmp_path / "pipe")
    refused("pipe: no file; valid: a file name", write_to, tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_to(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_bytes() == b"new\n"


def test_deeply_nested_json_is_no_json(tmp_path):
    nested = "[" * 100_000 + "]" * 100_000
    (tmp_path / "config.json").write_text(nested)
    assert io.read_json(tmp_path / "config.json") is None
    refused(["--squad x", "nested too deep"], read_json_text, nested, "--squad x")
    refused("--checkpoint", open_checkpoint, tmp_path)
