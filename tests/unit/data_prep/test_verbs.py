"""Test the table of verbs: two spellings, light imports, and options made of dataclass fields."""

import importlib
import subprocess
import sys
from dataclasses import dataclass

import pytest

from data_prep import cli
from data_prep.options import Options, add_fields, from_args, option
from data_prep.verbs import VERBS, describe_verbs
from tests.conftest import ROOT
from tests.unit.data_prep.files import assert_refused

HEAVY = {"torch", "fairseq", "fairseq_plugins", "gensim"}
ABSENT = {"filelock"}  # from the environment of Snakemake, which only hashes and writes


def python(*words):
    line = [sys.executable, *words]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("verb", ["spm", "lexicon"])  # a module, and a package
def test_both_spellings_run_the_verb(verb):
    dotted, spaced = python("-m", f"data_prep.{verb}"), python("-m", "data_prep", verb)
    assert dotted.returncode == spaced.returncode == 2
    assert dotted.stderr == spaced.stderr
    assert dotted.stderr.startswith(f"usage: python -m data_prep {verb} ")


def test_every_verb_is_described_and_starts_without_heavy_packages():
    assert list(VERBS) == sorted(VERBS) and all(describe_verbs().values())
    names = [f"data_prep.{module}" for module in VERBS.values()]
    code = f"import sys, importlib; [importlib.import_module(name).main for name in {names}]"
    assert python("-c", f"{code}; print({HEAVY | ABSENT} & set(sys.modules))").stdout == "set()\n"


def test_a_wrong_name_of_a_verb_is_explained():
    with pytest.raises(ModuleNotFoundError, match=r"data_prep\.spm .* data_prep\.pieces\.spm"):
        importlib.import_module("data_prep.spm")
    unknown = python("-m", "data_prep", "nosuch")
    assert unknown.returncode == 2 and "nosuch" in unknown.stderr and "  spm " in unknown.stdout


@dataclass(frozen=True)
class Example(Options):
    """Fields of every kind."""

    kind: str = option("a", "kind", choices=("a", "b"))
    count: int = option(1, "count", minimum=1)
    share: float = option(0.5, "share", minimum=0, maximum=1)
    most: int = option(None, "most", minimum=2)
    strict: bool = option(False, "strict")
    hidden: str = "x"


def test_fields_of_a_dataclass_are_options():
    parser = cli.parser("x", None)
    add_fields(parser, Example, Example(count=3), leave_out=["kind"])
    assert from_args(Example, parser.parse_args([])) == Example(count=3)
    line = "--count 2 --share 1 --most 4 --strict".split()
    assert from_args(Example, parser.parse_args(line)) == Example("a", 2, 1.0, 4, True)
    for fields, message in (
        ({"kind": "c"}, "--kind c: valid: a, b"),
        ({"count": 0}, "--count 0: valid: 1 or more"),
        ({"share": float("nan")}, "--share nan: valid: 0 to 1"),
        ({"most": 1}, "--most 1: valid: 2 or more"),
    ):
        assert_refused(message, Example, **fields)
