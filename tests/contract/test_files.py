"""Test that no file of the checkout has paths of one machine or hosts of package registries."""

import re

import pytest

from tests.contract.repository import texts

# Written in parts, so that this file passes its own test.
FOLDERS = ("work", "root", "home", "tmp", "opt", "mnt", "scratch", "Users", "var/tmp")
MACHINE_PATH = re.compile(r"(?<![\w.~$}\])*-])/(?:" + "|".join(FOLDERS) + r")/[\w.]")
HOSTS = (
    "py" + "pi.org",
    "python" + "hosted.org",
    "download." + "pytorch.org",
    "ana" + "conda.org",
    "npm" + "js",
)
INDEX_OPTIONS = (
    "--index" + "-url",
    "--extra-index" + "-url",
    "--find" + "-links",
    "PIP_INDEX" + "_URL",
)
REGISTRY = re.compile("|".join(re.escape(word) for word in (*HOSTS, *INDEX_OPTIONS)))


@pytest.mark.parametrize(
    "pattern", [MACHINE_PATH, REGISTRY], ids=["paths of a machine", "package registries"]
)
def test_no_file_has(pattern):
    count, matches = 0, []
    for name, text in texts():
        for number, line in enumerate(text.splitlines(), 1):
            count += 1
            if pattern.search(line):
                matches.append(f"{name}:{number}: {line.strip()[:160]}")
    assert count > 10_000
    assert matches == []
