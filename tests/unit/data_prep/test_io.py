"""Test that text files are read line by line, and bad ones refused with option, file and line."""

from data_prep import io
from data_prep.pieces.cut_checkpoint import open_checkpoint
from tests.unit.data_prep.files import assert_refused


def read(path):
    return list(io.read_lines(path, "--inputs"))


def test_bad_text_is_refused_with_option_file_and_line(tmp_path):
    path = tmp_path / "text"
    for content, message in (
        (b"fine\ncaf\xe9\n", "text, line 2: not UTF-8 (byte 0xe9 at byte 4"),
        ("hi\n".encode("utf-16"), "UTF-16"),
        (b"\x1f\x8b\x08\x00\xff", "compressed"),
        (b"", "text: the file is empty"),
        (b"one\nt\rwo\n", "line 2: character U+000D at position 2"),
        ("one\u2028two\n".encode(), "line 1: character U+2028 at position 4"),
        ("\ufeffone\n".encode(), "line 1: starts with a byte order mark"),
    ):
        path.write_bytes(content)
        assert_refused(["--inputs ", message], read, path)
    assert_refused("absent: no such file", read, tmp_path / "absent")


def test_lines_end_at_lf_only(tmp_path):
    text = "a\u2028b\x85c\x0bd\x1ee\rf\n\ttab, nbsp\u00a0 \nlast without LF"
    path = tmp_path / "text"
    path.write_bytes(text.encode())
    assert list(io.read_lines(path, "--inputs", strict=False)) == text.split("\n")
    assert io.count_lines(path, "--inputs") == 3
    path.write_bytes("one\n\ufefftwo\n".encode())  # in the second line it is no byte order mark
    assert read(path) == ["one", "\ufefftwo"]


def test_deeply_nested_json_is_refused(tmp_path):
    nested = "[" * 100_000 + "]" * 100_000
    (tmp_path / "config.json").write_text(nested)
    assert io.read_json(tmp_path / "config.json") is None
    assert_refused(["--squad x", "nested"], io.parse_json, nested, "--squad x")
    assert_refused("--checkpoint", open_checkpoint, tmp_path)
