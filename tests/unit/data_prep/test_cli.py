"""What the verbs share on the command line."""

import pytest

from data_prep import cli
from data_prep.io import InputError


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
    assert (ended.value.code, capsys.readouterr().err) == (status, message)
    assert list(cli.with_progress(iter("abc"), "reading", seconds=0.0)) == ["a", "b", "c"]
    assert "reading: 3 lines" in capsys.readouterr().err
