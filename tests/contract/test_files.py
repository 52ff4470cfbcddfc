"""What no file of the checkout may contain: paths of one machine, hosts of package registries."""

import re
from typing import Iterator, List

import pytest

from tests.contract.repository import texts

# Written in parts, so that this file passes its own test.
FOLDERS = ("work", "root", "home", "tmp", "opt", "mnt", "scratch", "Users", "var/tmp")
MACHINE_PATH = re.compile(r"(?<![\w.~$}\])*-])/(?:" + "|".join(FOLDERS) + r")/[\w.]")
HOSTS = ("py" + "pi.org", "python" + "hosted.org", "download." + "pytorch.org", "ana" + "conda.org", "npm" + "js")
INDEX_OPTIONS = ("--index" + "-url", "--extra-index" + "-url", "--find" + "-links", "PIP_INDEX" + "_URL")
REGISTRY = re.compile("|".join(re.escape(word) for word in (*HOSTS, *INDEX_OPTIONS)))


def lines_with(pattern: "re.Pattern[str]", name: str, text: str) -> Iterator[str]:
    """``file:line: text`` for every line that the pattern occurs in."""
    for number, line in enumerate(text.splitlines(), 1):
        if pattern.search(line):
            yield f"{name}:{number}: {line.strip()[:160]}"


def found(pattern: "re.Pattern[str]") -> List[str]:
    """Every line of the checkout that the pattern occurs in."""
    return [hit for name, text in texts() for hit in lines_with(pattern, name, text)]


def test_no_machine_paths():
    assert found(MACHINE_PATH) == []


def test_no_registry_hosts():
    assert found(REGISTRY) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_machine_path_is_found(folder: str):
    line = 'DATA="' + f'/{folder}/corpus/train.en"'
    assert list(lines_with(MACHINE_PATH, "x.sh", line)) == [f"x.sh:1: {line}"]


@pytest.mark.parametrize(
    "line", ["#!/usr/bin/env bash", "${TMPDIR:-/tmp}", "../shared/data/x", "$OUT/tmp/x", "a/work/b"]
)
def test_other_paths_pass(line: str):
    assert list(lines_with(MACHINE_PATH, "x.sh", line)) == []


@pytest.mark.parametrize("word", [*HOSTS, *INDEX_OPTIONS])
def test_a_registry_is_found(word: str):
    assert list(lines_with(REGISTRY, "x.md", f"see {word} for more")) != []
