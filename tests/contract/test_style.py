"""Test sizes and habits that no setting of a linter covers."""

import ast

from tests.contract.repository import CODE_FOLDERS, PACKAGE, dotted, sources

FILE_LINES = 400
FUNCTION_LINES = 60
FORWARD_LINES = 40
SKIPS = {"skip", "skipif", "importorskip", "SkipTest", "skipIf", "skipUnless", "skipTest"}
REASON_WORDS = 4


def violations(source):
    lines = len(source.text.splitlines())
    if lines > FILE_LINES:
        yield f"{source.name}: {lines} lines; at most {FILE_LINES}"
    in_package = source.name.split("/")[0] == PACKAGE
    for node in ast.walk(source.tree):
        called = dotted(node.func) if isinstance(node, ast.Call) else ""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            limit = FORWARD_LINES if node.name == "forward" else FUNCTION_LINES
            if node.end_lineno - node.lineno >= limit:
                yield f"{source.name}:{node.lineno}: {node.name} has more than {limit} lines"
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            yield f"{source.name}:{node.lineno}: star import"
        elif isinstance(node, ast.ExceptHandler) and node.type is None:
            yield f"{source.name}:{node.lineno}: bare except"
        elif in_package and called == "print":
            yield f"{source.name}:{node.lineno}: print; the package logs"
        elif isinstance(node, ast.Attribute) and node.attr == "xfail":
            yield f"{source.name}:{node.lineno}: xfail; a test that may fail is no test"
        elif called.split(".")[-1] in SKIPS:
            texts = [str(part.value) for part in ast.walk(node) if isinstance(part, ast.Constant)]
            if not any(len(text.split()) >= REASON_WORDS for text in texts):
                fault = f"{called} without a reason of {REASON_WORDS} words"
                yield f"{source.name}:{node.lineno}: {fault}"


def test_all_code_is_within_the_limits():
    assert [text for source in sources(*CODE_FOLDERS) for text in violations(source)] == []
