"""Whatever can skip a test says why; a test that may fail is no test."""

import ast

from tests.contract.repository import dotted, sources

WORDS = {"skip", "skipif", "importorskip", "SkipTest", "skipIf", "skipUnless", "skipTest"}
REASON_WORDS = 4


def test_every_skip_has_its_reason():
    wrong = []
    for source in sources("tests"):
        for node in ast.walk(source.tree):
            name = dotted(node.func).split(".")[-1] if isinstance(node, ast.Call) else ""
            if name in WORDS:
                texts = [str(part.value) for part in ast.walk(node) if isinstance(part, ast.Constant)]
                if not any(len(text.split()) >= REASON_WORDS for text in texts):
                    wrong.append(f"{source.name}:{node.lineno}: {name} without a reason of {REASON_WORDS} words")
            elif isinstance(node, ast.Attribute) and node.attr == "xfail":
                wrong.append(f"{source.name}:{node.lineno}: xfail")
    assert wrong == []
