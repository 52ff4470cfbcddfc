"""Sizes and habits that no linter setting covers: file and function lengths, print, star imports, bare excepts."""

import ast

from tests.contract.repository import CODE_FOLDERS, PACKAGE, functions, sources

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
