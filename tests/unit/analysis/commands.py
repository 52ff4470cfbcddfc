"""Analyses by their verbs: what they write as JSON, and what they say when they refuse."""

import json

import pytest

from fairseq_plugins.__main__ import main


def run(verb, path, *line):
    assert main([verb, *map(str, line), "--json", str(path)]) == 0
    return json.loads(path.read_text(encoding="utf-8"))


def refused(capsys, verb, *line):
    """Return the message of a verb that ends with status 2."""
    with pytest.raises(SystemExit) as error:
        main([verb, *map(str, line)])
    assert error.value.code == 2
    return capsys.readouterr().err


def written(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)
