"""When a command is the package's own."""

import sys

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
