"""Scripts that print the head of their own file as usage print all of it, and nothing else."""

import re

import pytest

from tests.contract.repository import ROOT

USAGE = re.compile(r'sed -n (\d+),(\d+)p "\$0"')
SCRIPTS = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("examples", "data_prep")
    for path in (ROOT / folder).rglob("*.sh")
    if USAGE.search(path.read_text(encoding="utf-8"))
)


def test_scripts_are_found() -> None:
    assert "examples/sga/evaluate.sh" in SCRIPTS and len(SCRIPTS) > 20


@pytest.mark.parametrize("script", SCRIPTS)
def test_usage_is_the_head_of_the_script(script: str) -> None:
    lines = (ROOT / script).read_text(encoding="utf-8").splitlines()
    end = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    for first, last in USAGE.findall("\n".join(lines)):
        assert (int(first), int(last)) == (2, end), f"{script}: the head is lines 2 to {end}"
