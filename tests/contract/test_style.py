"""Sizes and habits that no linter setting covers: file and function lengths, print, star imports, bare excepts."""

import ast

import pytest

from tests.contract.repository import CODE_FOLDERS, PACKAGE, Source, functions, sources

FILE_LINES = 400
FUNCTION_LINES = 60
FORWARD_LINES = 40


def violations(source):
    """Each breach in one file, as text with file and line."""
    found = []
    lines = len(source.text.splitlines())
    if lines > FILE_LINES:
        found.append(f"{source.name}: {lines} lines; at most {FILE_LINES}")
    for function in functions(source.tree):
        length = function.end_lineno - function.lineno + 1
        limit = FORWARD_LINES if function.name == "forward" else FUNCTION_LINES
        if length > limit:
            found.append(f"{source.name}:{function.lineno}: {function.name} has {length} lines; at most {limit}")
    in_package = source.name.split("/")[0] == PACKAGE
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            found.append(f"{source.name}:{node.lineno}: star import")
        elif isinstance(node, ast.ExceptHandler) and node.type is None:
            found.append(f"{source.name}:{node.lineno}: bare except")
        elif in_package and isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            found.append(f"{source.name}:{node.lineno}: print; the package logs")
    return found


def test_all_code_is_within_the_limits():
    assert [text for source in sources(*CODE_FOLDERS) for text in violations(source)] == []


def _long(name, lines):
    return f"def {name}(self):\n" + "    self.x = 1\n" * (lines - 1)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("from os import *", "star import"),
        ("try:\n    pass\nexcept:\n    pass", "bare except"),
        ("def f():\n    print(1)", "print"),
        (_long("f", FUNCTION_LINES + 1), "f has 61 lines"),
        (_long("forward", FORWARD_LINES + 1), "forward has 41 lines"),
        ("x = 1\n" * (FILE_LINES + 1), "401 lines"),
        (_long("f", FUNCTION_LINES) + _long("forward", FORWARD_LINES), None),
    ],
)
def test_a_breach_is_found(code, message):
    found = violations(Source.parse(f"{PACKAGE}/ops/x.py", code))
    assert (found == []) if message is None else (len(found) == 1 and message in found[0])
