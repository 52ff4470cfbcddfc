"""When a command is the package's own."""

import sys

import pytest

from fairseq_plugins import own_commands


@pytest.mark.cases(
    "program line expected",
    ("-m", ["python", "-m", "fairseq_plugins.analysis.cka", "--help"], True),
    ("-m", ["python", "-W", "error", "-m", "fairseq_plugins"], True),
    ("-m", ["python", "-m", "another", "--user-dir", "path/to/fairseq_plugins"], False),
    (own_commands.PACKAGE, ["python", own_commands.PACKAGE], True),
    ("/usr/bin/fairseq-train", ["python", "/usr/bin/fairseq-train", "--user-dir", own_commands.PACKAGE], False),
    ("-c", ["python", "-c", "import fairseq_plugins"], False),
)
def test_a_command_of_the_package_is_known(program, line, expected, monkeypatch):
    monkeypatch.setattr(sys, "argv", [program, *line[2:]])
    monkeypatch.setattr(sys, "orig_argv", line, raising=False)
    assert own_commands.is_running() == expected
