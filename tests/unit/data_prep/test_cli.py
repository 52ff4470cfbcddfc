"""What the verbs share on the command line: progress, exit codes, and the list of verbs."""

import pytest

from data_prep import cli
from data_prep.io import InputError


def test_progress_passes_everything_on_and_reports(capsys):
    assert list(cli.with_progress(iter("abc"), "reading", seconds=0.0)) == ["a", "b", "c"]
    captured = capsys.readouterr()
    assert "reading: 3 lines" in captured.err
    assert captured.out == ""
    assert list(cli.with_progress("abc", "reading", seconds=60.0)) == ["a", "b", "c"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (None, 0, ""),
        (InputError("--inputs x: bad"), 1, "verb: error: --inputs x: bad\n"),
        (OSError(28, "No space left on device", "out"), 1, "verb: error: [Errno 28] No space left on device: 'out'\n"),
        (KeyboardInterrupt(), 130, "verb: interrupted\n"),
    ],
)
def test_run_turns_errors_into_one_line(capsys, monkeypatch, error, status, message):
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)

    def main(argv):
        if error is not None:
            raise error

    with pytest.raises(SystemExit) as ended:
        cli.run("verb", main)
    assert ended.value.code == status
    assert capsys.readouterr().err == message


def test_options_are_not_abbreviated_and_silent_defaults_not_shown():
    parser = cli.parser("verb", "text")
    parser.add_argument("--inputs", help="files")
    parser.add_argument("--size", default=3, help="number")
    with pytest.raises(SystemExit):
        parser.parse_args(["--inp", "a"])
    assert "None" not in parser.format_help()
    assert "number (default: 3)" in parser.format_help()
