"""Every test that can be skipped, or may fail, is listed in tests/SKIPS.md with its reason."""

import ast
import re
from typing import Iterator, Optional

import pytest

from tests.contract.repository import ROOT, Source, dotted, functions, sources, table_rows

WORDS = {"skip", "skipif", "importorskip", "xfail", "SkipTest", "skipIf", "skipUnless", "skipTest"}


def skips(source: Source) -> Iterator[str]:
    """``file::function`` of everything that can skip a test in a file; ``file`` alone outside of functions."""
    for node in ast.walk(source.tree):
        name = dotted(node) if isinstance(node, (ast.Attribute, ast.Name)) else ""
        if name.split(".")[-1] in WORDS and not isinstance(getattr(node, "ctx", None), ast.Store):
            function = _enclosing(source, node)
            yield f"{source.name}::{function}" if function else source.name


def _enclosing(source: Source, node: ast.AST) -> Optional[str]:
    line = getattr(node, "lineno", 0)
    around = [
        function
        for function in functions(source.tree)
        if min([function.lineno, *(item.lineno for item in function.decorator_list)])
        <= line
        <= (function.end_lineno or 0)
    ]
    return min(around, key=lambda function: (function.end_lineno or 0) - function.lineno).name if around else None


def listed() -> dict:
    """The list: place -> reason."""
    rows = table_rows((ROOT / "tests" / "SKIPS.md").read_text(encoding="utf-8"), "where")
    return {row["where"].strip("`"): row["reason"] for row in rows}


def test_every_skip_is_listed_with_its_reason():
    found = {place for source in sources("tests") for place in skips(source)}
    assert found == set(listed())
    assert all(len(re.findall(r"\w+", reason)) >= 4 for reason in listed().values())


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("import pytest\ndef test_a():\n    pytest.skip('no data')", "tests/x.py::test_a"),
        ("import pytest\n@pytest.mark.skipif(True, reason='')\ndef test_b():\n    pass", "tests/x.py::test_b"),
        ("import pytest\n@pytest.mark.xfail\ndef test_c():\n    pass", "tests/x.py::test_c"),
        ("import pytest\ngensim = pytest.importorskip('gensim')", "tests/x.py"),
    ],
)
def test_a_skip_is_found(code: str, place: str):
    assert list(skips(Source.parse("tests/x.py", code))) == [place]
