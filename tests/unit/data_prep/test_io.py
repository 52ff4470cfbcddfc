"""Text files: every kind of bad input is refused with its place."""

from data_prep import io
from data_prep.pieces.cut_checkpoint import open_checkpoint
from tests.unit.data_prep.files import refused


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


def test_deeply_nested_json_is_no_json(tmp_path):
    nested = "[" * 100_000 + "]" * 100_000
    (tmp_path / "config.json").write_text(nested)
    assert io.read_json(tmp_path / "config.json") is None
    refused(["--squad x", "nested too deep"], io.parse_json, nested, "--squad x")
    refused("--checkpoint", open_checkpoint, tmp_path)
