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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"fine\ncaf\xe9\n", "text, line 2: not UTF-8 (byte 0xe9 at byte 4 of the line); valid: UTF-8"),
        ("hi\n".encode("utf-16"), "looks like UTF-16"),
        (b"\x1f\x8b\x08\x00\xff", "compressed file: unpack it first"),
        (b"cut in a character \xc3", "line 1: not UTF-8"),
        (b"", "text: the file is empty; valid: at least one line"),
        (b"one\nt\rwo\n", "line 2: character U+000D at position 2"),
        ("one\u2028two\n".encode(), "line 1: character U+2028 at position 4"),
        ("one\x85\n".encode(), "line 1: character U+0085"),
        (b"one\x0ctwo\n", "line 1: character U+000C"),
        (b"\x00\n", "line 1: character U+0000"),
        ("\ufeffone\n".encode(), "line 1: starts with a byte order mark"),
    ],
)
def test_bad_text_is_refused_with_option_file_and_line(tmp_path, content, message):
    path = write(tmp_path / "text", content)
    refused(["--inputs ", message], lambda: list(io.read_lines(path, "--inputs")))
    refused("absent: no such file", lambda: list(io.read_lines(tmp_path / "absent", "--inputs")))
    refused("a folder; valid: a text file", lambda: list(io.read_lines(tmp_path, "--inputs")))


def test_lines_end_at_lf_only(tmp_path):
    text = "a\u2028b\x85c\x0bd\x1ee\rf\n\ttab, nbsp\u00a0 \nlast without LF"
    path = write(tmp_path / "text", text.encode())
    assert list(io.read_lines(path, "--inputs", strict=False)) == text.split("\n")
    assert io.count_lines(path, "--inputs") == 3
    joined = write(tmp_path / "joined", "one\n\ufefftwo\n".encode())  # no byte order mark there
    assert list(io.read_lines(joined, "--inputs")) == ["one", "\ufefftwo"]


def test_parallel_lines_and_unequal_counts(tmp_path):
    first, second = write(tmp_path / "a", b"1\n2\n3\n"), write(tmp_path / "b", b"x\ny\nz")
    assert list(io.read_parallel([first, second], "--inputs")) == [("1", "x"), ("2", "y"), ("3", "z")]
    both = [first, write(tmp_path / "c", b"x\n")]
    words = ["a has 3, ", "c has 1; line 2 has no counterpart"]
    refused(words, lambda: list(io.read_parallel(both, "--inputs")))


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
    """Nothing of the attempt stays, and the message says where."""
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
    for names, message in (
        (["folder/../a"], "would overwrite an input"),
        (["b", "b"], "named twice"),
        (["folder"], "a folder"),
        (["b"], "b: no line was left"),
    ):
        refused(message, write_lines, [tmp_path / name for name in names], "", 0, inputs=[source])
    assert tree(tmp_path) == {"a": GOOD}
    write_lines([tmp_path / "b"], "", 0, empty_ok=True)
    assert tree(tmp_path) == {"a": GOOD, "b": b""}
    refused("2 files for 1 of --inputs", io.same_number, [source], ["x", "y"])


def test_deeply_nested_json_is_no_json(tmp_path):
    nested = "[" * 100_000 + "]" * 100_000
    write(tmp_path / "config.json", nested.encode())
    assert io.read_json(tmp_path / "config.json") is None
    refused(["--squad x", "nested too deep"], read_json_text, nested, "--squad x")
    refused("--checkpoint", open_checkpoint, tmp_path)


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
