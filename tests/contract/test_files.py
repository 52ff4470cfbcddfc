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


def found(pattern):
    """``file:line: text`` of every line of the checkout in which the pattern occurs."""
    return [
        f"{name}:{number}: {line.strip()[:160]}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_machine_paths():
    assert found(MACHINE_PATH) == []


def test_no_registry_hosts():
    assert found(REGISTRY) == []


@pytest.mark.parametrize(
    ("pattern", "lines", "hit"),
    [
        (MACHINE_PATH, [f'DATA="/{folder}/corpus/train.en"' for folder in FOLDERS], True),
        (MACHINE_PATH, ["#!/usr/bin/env bash", "${TMPDIR:-/tmp}", "../shared/data/x", "$OUT/tmp/x", "a/work/b"], False),
        (REGISTRY, [f"see {word} for more" for word in (*HOSTS, *INDEX_OPTIONS)], True),
    ],
)
def test_the_patterns_find_what_they_should(pattern, lines, hit):
    assert [bool(pattern.search(line)) for line in lines] == [hit] * len(lines)
