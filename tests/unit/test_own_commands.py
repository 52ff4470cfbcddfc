"""When a command is the package's own, and what is said while it works."""

import logging
import sys
import time

import pytest

from fairseq_plugins import own_commands


@pytest.mark.cases(
    "program line is_running is_verb",
    ("-m", ["python", "-m", "fairseq_plugins.analysis.cka", "--help"], True, False),
    ("-m", ["python", "-W", "error", "-m", "fairseq_plugins"], True, True),
    ("-m", ["python", "-m", "fairseq_plugins.__main__", "translate"], True, True),
    ("-m", ["python", "-m", "another", "--user-dir", "path/to/fairseq_plugins"], False, False),
    (own_commands.PACKAGE, ["python", own_commands.PACKAGE], True, True),
    ("/usr/bin/fairseq-plugins", ["python", "/usr/bin/fairseq-plugins", "cka"], True, True),
    ("/usr/bin/fairseq-train", ["python", "/usr/bin/fairseq-train", "--user-dir", own_commands.PACKAGE], False, False),
    ("-c", ["python", "-c", "import fairseq_plugins"], False, False),
)
def test_a_command_of_the_package_is_known(program, line, is_running, is_verb, monkeypatch):
    monkeypatch.setattr(sys, "argv", [program, *line[2:]])
    monkeypatch.setattr(sys, "orig_argv", line)
    assert own_commands.is_running() == is_running
    assert own_commands.is_verb() == is_verb


def test_a_silent_wait_is_reported_and_a_talking_one_is_not(caplog):
    caplog.set_level(logging.INFO)
    with own_commands.heartbeat(0.1):
        time.sleep(0.5)
    assert 1 <= caplog.text.count("at work for") <= 5
    caplog.clear()
    with own_commands.heartbeat(1.0):
        for _ in range(10):
            time.sleep(0.15)
            logging.getLogger("somebody").info("done")
    assert "at work" not in caplog.text
