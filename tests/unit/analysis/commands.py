"""Commands of the analyses: what they write as JSON, and what they say when they refuse."""

import json

import pytest


def run(main, path, *line):
    assert main([*map(str, line), "--json", str(path)]) == 0
    return json.loads(path.read_text(encoding="utf-8"))


def refused(capsys, main, *line):
    """The message of a command that ends with status 2."""
    with pytest.raises(SystemExit) as error:
        main([*map(str, line)])
    assert error.value.code == 2
    return capsys.readouterr().err


def written(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)
