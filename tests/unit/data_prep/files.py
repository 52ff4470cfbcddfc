"""What is in a file or a folder, and calls that are refused."""

import pytest

from data_prep.io import InputError


def lines(path):
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    return text[:-1].split("\n")


def tree(folder):
    """Name -> content of every file below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(words, call, *arguments, **options):
    """The call ends with an error that has these words: one text or several."""
    with pytest.raises(InputError) as error:
        call(*arguments, **options)
    for word in [words] if isinstance(words, str) else words:
        assert word in str(error.value)


def killed(*_):
    raise KeyboardInterrupt
