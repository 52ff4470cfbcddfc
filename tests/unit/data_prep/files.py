"""Read the files that a verb wrote, and assert that a call is refused."""

import pytest

from data_prep.io import InputError


def read_lines(path):
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    return text[:-1].split("\n")


def read_tree(folder):
    """Return the content of every file below a folder by its relative name."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def assert_refused(words, call, *arguments, **options):
    """Assert that the call raises an InputError whose text contains one or several words."""
    with pytest.raises(InputError) as error:
        call(*arguments, **options)
    for word in [words] if isinstance(words, str) else words:
        assert word in str(error.value)


def interrupt(*_):
    raise KeyboardInterrupt
