"""What is said while a command works: on standard error, when nothing else was said for a while."""

import logging
import sys
import time
from types import SimpleNamespace

import pytest

from data_prep import progress


def test_a_silent_wait_is_reported(capsys):
    with progress.heartbeat("verb", 0.1):
        time.sleep(0.5)
    said = capsys.readouterr()
    assert 1 <= said.err.count("verb: at work for 0 s\n") <= 5 and said.out == ""


@pytest.mark.parametrize("speak", [lambda: progress.say("part"), lambda: logging.getLogger("a").warning("part")])
def test_a_talking_wait_is_not(capsys, speak):
    with progress.heartbeat("verb", 1.0):
        for _ in range(10):
            time.sleep(0.15)
            speak()
    assert "at work" not in capsys.readouterr().err


@pytest.mark.parametrize(("is_terminal", "seconds"), [(True, 5), (False, 60)])
def test_a_log_gets_a_line_a_minute(monkeypatch, capsys, is_terminal, seconds):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    clock = iter(range(1000))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    assert list(progress.with_progress(range(250), "verb")) == list(range(250))
    lines = capsys.readouterr().err.splitlines()
    assert 250 // seconds <= len(lines) <= 250 // (seconds - 1)  # `say` looks at the clock, too
    assert lines[0].startswith(f"verb: {seconds} lines, ")
