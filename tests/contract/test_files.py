"""What no file of the checkout may contain: paths of one machine, hosts of package registries."""

import re

import pytest

from tests.contract.repository import texts

# Written in parts, so that this file passes its own test.
FOLDERS = ("work", "root", "home", "tmp", "opt", "mnt", "scratch", "Users", "var/tmp")
MACHINE_PATH = re.compile(r"(?<![\w.~$}\])*-])/(?:" + "|".join(FOLDERS) + r")/[\w.]")
HOSTS = ("py" + "pi.org", "python" + "hosted.org", "download." + "pytorch.org", "ana" + "conda.org", "npm" + "js")
INDEX_OPTIONS = ("--index" + "-url", "--extra-index" + "-url", "--find" + "-links", "PIP_INDEX" + "_URL")
REGISTRY = re.compile("|".join(re.escape(word) for word in (*HOSTS, *INDEX_OPTIONS)))


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRY], ids=["paths of a machine", "package registries"])
def test_no_file_has(pattern):
    lines = [(name, number, line) for name, text in texts() for number, line in enumerate(text.splitlines(), 1)]
    assert len(lines) > 10_000
    assert [f"{name}:{number}: {line.strip()[:160]}" for name, number, line in lines if pattern.search(line)] == []
