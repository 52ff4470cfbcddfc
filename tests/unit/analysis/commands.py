"""Run analyses by their verbs: read their JSON file, or the message of a refusal."""

import json

import pytest

from fairseq_plugins.__main__ import main


def run(verb, path, *line):
    """Run a verb with ``--json PATH`` and return the content of the file."""
    assert main([verb, *map(str, line), "--json", str(path)]) == 0
    return json.loads(path.read_text(encoding="utf-8"))


def read_refusal(capsys, verb, *line):
    """Return the message of a verb that ends with status 2."""
    with pytest.raises(SystemExit) as error:
        main([verb, *map(str, line)])
    assert error.value.code == 2
    return capsys.readouterr().err


def write_lines(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def read_cells(text, start):
    """Return the cells of the rows of Markdown tables that begin with ``start``."""
    rows = [line for line in text.splitlines() if line.startswith(f"| {start}")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
