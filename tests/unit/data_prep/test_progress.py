"""Test that progress goes to standard error, and only after a while of silence."""

import logging
import sys
import time
from types import SimpleNamespace

import pytest

from data_prep import progress


def test_silent_work_is_reported(capsys):
    with progress.heartbeat("verb", 0.1):
        time.sleep(0.5)
    streams = capsys.readouterr()
    assert 1 <= streams.err.count("verb: at work for 0 s\n") <= 5 and streams.out == ""


@pytest.mark.parametrize("speak", [progress.say, logging.getLogger("somebody").warning])
def test_work_that_reports_itself_has_no_heartbeat(capsys, speak):
    with progress.heartbeat("verb", 1.0):
        for _ in range(10):
            time.sleep(0.15)
            speak("part")
    assert "at work" not in capsys.readouterr().err


@pytest.mark.parametrize(("is_terminal", "seconds"), [(True, 5), (False, 60)])
def test_progress_is_rarer_in_a_log_than_on_a_terminal(monkeypatch, capsys, is_terminal, seconds):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    clock = iter(range(1000))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    assert list(progress.with_progress(range(250), "verb")) == list(range(250))
    lines = capsys.readouterr().err.splitlines()
    assert 250 // seconds <= len(lines) <= 250 // (seconds - 1)  # `say` reads the clock, too
    assert lines[0].startswith(f"verb: {seconds} lines, ")
