"""Text files: every kind of bad input is refused with its place, outputs appear whole or not at all."""

import os
import resource

import pytest

from data_prep import io
from data_prep.cut_checkpoint import open_checkpoint
from data_prep.generation_text import read_json_text
from data_prep.io import InputError

GOOD = b"one\ntwo\n"


def write(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"fine\ncaf\xe9\n", r"--inputs .*text, line 2: not UTF-8 \(byte 0xe9 at byte 4 of the line\); valid: UTF-8"),
        ("hi\n".encode("utf-16"), "line 1: not UTF-8 .*looks like UTF-16"),
        (b"\x1f\x8b\x08\x00\xff", "line 1: not UTF-8 .*compressed file: unpack it first"),
        (b"cut in a character \xc3", "line 1: not UTF-8"),
        (b"", r"--inputs .*text: the file is empty; valid: at least one line"),
        (b"one\r\ntwo\r\n", r"line 1: character U\+000D at position 4.*data_prep\.clean"),
        (b"one\nt\rwo\n", r"line 2: character U\+000D at position 2"),
        ("one\u2028two\n".encode(), r"line 1: character U\+2028 at position 4"),
        ("one\x85\n".encode(), r"line 1: character U\+0085"),
        (b"one\x0ctwo\n", r"line 1: character U\+000C"),
        (b"\x00\n", r"line 1: character U\+0000"),
        ("\ufeffone\n".encode(), "line 1: starts with a byte order mark"),
    ],
)
def test_bad_text_is_refused_with_option_file_and_line(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        list(io.read_lines(write(tmp_path / "text", content), "--inputs"))


def test_missing_file_and_folder_are_named(tmp_path):
    with pytest.raises(InputError, match=r"--inputs .*absent: no such file"):
        list(io.read_lines(tmp_path / "absent", "--inputs"))
    with pytest.raises(InputError, match="a folder; valid: a text file"):
        list(io.read_lines(tmp_path, "--inputs"))


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
    shorter = write(tmp_path / "c", b"x\n")
    with pytest.raises(InputError, match=r"--inputs: unequal line counts: .*a has 3, .*c has 1; line 2 has no counter"):
        list(io.read_parallel([first, shorter], "--inputs"))


def left_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_outputs_appear_together_with_lf_and_utf8(tmp_path):
    with io.atomic_writers([tmp_path / "new" / "a", tmp_path / "b"], "--outputs") as files:
        files.pop().write("x\n")  # what the caller does with its list loses no file
        files.pop().write("é\n")
        assert not (tmp_path / "new" / "a").exists()
        assert not (tmp_path / "b").exists()
    assert (tmp_path / "new" / "a").read_bytes() == "é\n".encode()
    assert left_in(tmp_path) == ["b", "new"]


def test_an_error_keeps_the_old_output(tmp_path):
    old = write(tmp_path / "a", GOOD)

    def fail_halfway():
        with io.atomic_writers([old, tmp_path / "b"], "--outputs") as (file, _):
            file.write("half")
            raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        fail_halfway()
    assert old.read_bytes() == GOOD
    assert left_in(tmp_path) == ["a"]


def write_lines(paths, size):
    with io.atomic_writers(paths, "--outputs") as files:
        for file in files:
            file.write("new\n" * size)


@pytest.mark.parametrize("names", [["a"], ["a", "b"]])
@pytest.mark.parametrize("size", [100, 100_000])  # noticed at the end, and while lines are written
def test_a_full_disk_keeps_the_old_output(tmp_path, names, size):
    """Nothing of the attempt stays, and the message says where."""
    olds = [write(tmp_path / name, GOOD) for name in names]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, before[1]))  # the system refuses as a full disk does
    try:
        with pytest.raises(OSError, match=f"File too large: '{tmp_path}"):
            write_lines(olds, size)
        with pytest.raises(OSError, match=f"File too large: '{tmp_path}/a'"):
            io.write_bytes(olds[0], b"new\n" * size)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [old.read_bytes() for old in olds] == [GOOD] * len(names)
    assert left_in(tmp_path) == names


def test_an_output_without_text_is_refused(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    with (
        pytest.raises(InputError, match=r"--outputs .*b: no line was left"),
        io.atomic_writers(paths, "--outputs") as (file, _),
    ):
        file.write("only here\n")
    assert left_in(tmp_path) == []
    with io.atomic_writers(paths, "--outputs", empty_ok=True):
        pass
    assert left_in(tmp_path) == ["a", "b"]


def test_outputs_must_be_new_and_different(tmp_path):
    source = write(tmp_path / "a", GOOD)
    (tmp_path / "folder").mkdir()
    for paths, message in (
        ([tmp_path / "folder" / ".." / "a"], "would overwrite an input"),
        ([tmp_path / "b", tmp_path / "b"], "named twice"),
        ([tmp_path / "folder"], "a folder"),
    ):
        with pytest.raises(InputError, match=message), io.atomic_writers(paths, "--outputs", [source]):
            pass
    assert source.read_bytes() == GOOD
    with pytest.raises(InputError, match="2 files for 1 of --inputs"):
        io.same_number([source], ["x", "y"])


def test_deeply_nested_json_is_no_json(tmp_path):
    nested = "[" * 100_000 + "]" * 100_000
    write(tmp_path / "config.json", nested.encode())
    assert io.read_json(tmp_path / "config.json") is None
    with pytest.raises(InputError, match=r"--squad x.*nested too deep"):
        read_json_text(nested, "--squad x")
    with pytest.raises(InputError, match="--checkpoint"):
        open_checkpoint(tmp_path)


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
    with pytest.raises(InputError, match="pipe: no file; valid: a file name"):
        write_to(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_to(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_bytes() == b"new\n"
