"""Test how a command of this package is recognised."""

import sys

import pytest

from fairseq_plugins import own_commands

FOLDER = own_commands.PACKAGE


@pytest.mark.cases(
    "program line is_running is_verb",
    ("-m", ["-m", "fairseq_plugins.analysis.cka", "--help"], True, False),
    ("-m", ["-W", "error", "-m", "fairseq_plugins"], True, True),
    ("-m", ["-m", "fairseq_plugins.__main__", "translate"], True, True),
    ("-m", ["-m", "another", "--user-dir", "path/to/fairseq_plugins"], False, False),
    (FOLDER, [FOLDER], True, True),
    ("/usr/bin/fairseq-plugins", ["/usr/bin/fairseq-plugins", "cka"], True, True),
    ("/usr/bin/fairseq-train", ["/usr/bin/fairseq-train", "--user-dir", FOLDER], False, False),
    ("-c", ["-c", "import fairseq_plugins"], False, False),
)
def test_commands_of_the_package_are_recognised(program, line, is_running, is_verb, monkeypatch):
    monkeypatch.setattr(sys, "argv", [program, *line[1:]])
    monkeypatch.setattr(sys, "orig_argv", ["python", *line])
    assert own_commands.is_running() == is_running
    assert own_commands.is_verb() == is_verb
