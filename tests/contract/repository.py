"""The files of the checkout, as the contract tests read them."""

import ast
import re
import subprocess
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "fairseq_plugins"
CODE_FOLDERS = (PACKAGE, "runtime", "data_prep", "examples", "benchmarks", "tests")
IGNORED = re.compile(r"/(\.git|__pycache__|runs|build|dist|\.venv[^/]*|[^/]*_cache)/")

Source = namedtuple("Source", "name text tree")
"""A Python file: its path below the root with forward slashes, its text, and the tree of it."""


def listed_files():
    """List the files that git tracks or would track.

    In a copy without git, list every file outside the ignored folders.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    process = None
    if (ROOT / ".git").exists():
        process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if process is not None and process.returncode == 0:
        names = [name for name in process.stdout.split("\0") if name]
    else:
        names = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*")]
        names = [name for name in names if not IGNORED.search(f"/{name}/")]
    return sorted(name for name in names if (ROOT / name).is_file())


def texts():
    """Yield name and text of every listed file that is UTF-8 text."""
    for name in listed_files():
        try:
            yield name, (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def sources(*folders):
    """Parse the Python files below some folders of the root."""
    files = [
        Source(name, text, ast.parse(text, filename=name))
        for name, text in texts()
        if name.endswith(".py") and name.split("/")[0] in folders
    ]
    assert files, f"no Python in {folders}"
    return files


def dotted(node):
    """Return ``a.b.c`` for the expression a.b.c, and "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""
