"""Test that names are nouns, docstrings begin with a verb, and lines fit."""

import ast
import re

import pytest

from tests.contract.repository import sources

FOLDERS = ("fairseq_plugins", "data_prep", "runtime", "examples", "benchmarks", "tests")
COLUMNS = 100
PARTICIPLES = """found given kept wanted shown read written taken made named known told asked left
lost done put held met drawn said chosen built carried counted cut dropped filled fitting followed
got gone learned learnt let meant moved needed passed picked placed sent stated stored stopped tried
turned"""
PRONOUNS = """one other others own another each both such same some rest what which who whole it
them it these those there where here"""
VAGUE = {*PARTICIPLES.split(), *PRONOUNS.split()}
OPENING = re.compile(
    r"(What|Whether|As|Where|Those|Of|That|Who|Which|How|When|In|Only|Not|No|None|All|One|Every"
    r"|Each)\b"
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def assigned_names(tree):
    """Yield assigned names and attributes, and arguments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            yield getattr(node, "id", None) or node.attr, node.lineno


def docstrings(tree):
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
            yield ast.get_docstring(node), getattr(node, "lineno", 1)


def is_vague(name):
    return name in VAGUE


def is_opening(docstring):
    return bool(OPENING.match(docstring))


def is_long(line):
    return len(line) > COLUMNS


def numbered_lines(source):
    return ((line, number) for number, line in enumerate(source.text.split("\n"), 1))


KINDS = {
    "name": (lambda source: assigned_names(source.tree), is_vague, 0.01),
    "docstring": (lambda source: docstrings(source.tree), is_opening, 0.01),
    "line": (numbered_lines, is_long, 0.005),
}
"""Kind of text -> function that lists texts, function that finds poor ones, their highest share."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_code_reads_like_english(folder, kind):
    list_texts, is_poor, share = KINDS[kind]
    count, poor = 0, []
    for source in sources(folder):
        for text, line in list_texts(source):
            count += 1
            if is_poor(text):
                poor.append(f"{source.name}:{line}: {text.splitlines()[0]}")
    assert len(poor) <= share * count, "\n".join(poor)
