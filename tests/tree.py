"""Print the size of a checkout: ``make tree``, or ``python tests/tree.py ROOT`` for another one.

Counts the text files that git tracks, so commit first. The import closure of a module is the module
and the files of the package that it imports, directly or not, including imports inside functions.
"""

import argparse
import ast
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

PACKAGE = "fairseq_plugins"
LOADING = (f"{PACKAGE}/checkpoints/*.py", f"{PACKAGE}/*pretrained.py")
LOADERS = (f"{PACKAGE}/models/*/*.py", f"{PACKAGE}/deltalm/*.py")
"""Loaders are named ``*pretrained.py``; in folders without one they import checkpoints."""


def tracked(root):
    """Return the number of lines of each tracked text file."""
    command = ["git", "ls-files", "-z"]
    output = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    lines = {}
    for name in filter(None, output.split("\0")):
        try:
            lines[name] = len((root / name).read_text(encoding="utf-8").splitlines())
        except (UnicodeDecodeError, FileNotFoundError):
            continue
    return lines


def imports_of(root, name):
    """Yield the files of the package that a file of the package imports."""
    folder = Path(name).parent
    for node in ast.walk(ast.parse((root / name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = folder
            for _ in range(node.level - 1):
                base = base.parent
            module = base.joinpath(*(node.module or "").split("."))
            files = [path for alias in node.names for path in _files(root, module / alias.name)]
            yield from files
            if len(files) < len(node.names):  # some are names in the module itself
                yield from _files(root, module)


def _files(root, module):
    candidates = (module.with_name(f"{module.name}.py"), module / "__init__.py")
    return [path.as_posix() for path in candidates if (root / path).is_file()]


def closure(root, name):
    """Return the file itself and the files of the package that it imports, directly or not."""
    reached, waiting = set(), [name]
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            waiting.extend(imports_of(root, file))
    return reached


def imports_checkpoints(root, name):
    return any("/checkpoints/" in file for file in imports_of(root, name))


def loaders(root, files):
    """List the modules that make a model from a pretrained file."""
    models = [name for name in files for pattern in LOADERS if fnmatch(name, pattern)]
    models = [name for name in models if not name.endswith("__init__.py")]
    by_name = [name for name in models if name.endswith("pretrained.py")]
    folders = {Path(name).parent for name in by_name}
    candidates = [name for name in models if Path(name).parent not in folders]
    by_import = [name for name in candidates if imports_checkpoints(root, name)]
    return sorted(by_name + by_import)


def docstring_lines(root, files):
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    lines = 0
    for name in files:
        for node in ast.walk(ast.parse((root / name).read_text(encoding="utf-8"))):
            if isinstance(node, kinds) and ast.get_docstring(node) is not None:
                lines += node.body[0].end_lineno - node.body[0].lineno + 1
    return lines


class Report:
    """Lines of the report; ``lines``: number of lines by file."""

    def __init__(self, root):
        self.root, self.lines = root, tracked(root)

    def total(self, names):
        names = list(names)
        return f"{len(names):4d} files {sum(self.lines[name] for name in names):6d} lines"

    def below(self, folder):
        return [name for name in self.lines if name.startswith(f"{folder}/")]

    def folders(self, top):
        names = self.below(top)
        yield f"{self.total(names)}  {top} (all tracked text files)"
        for folder in sorted(
            {"/".join(name.split("/")[:2]) for name in names if name.count("/") > 1}
        ):
            yield f"{self.total(self.below(folder))}    {folder}"
        yield f"{self.total(name for name in names if name.count('/') == 1)}    {top}/*\n"

    def loading(self):
        package = self.below(PACKAGE)
        loading = {name for name in package for pattern in LOADING if fnmatch(name, pattern)}
        yield f"{self.total(loading)}  {' + '.join(LOADING)}"
        for name in loaders(self.root, package):
            yield f"{self.total(closure(self.root, name))}    import closure of {name}"

    def shares(self):
        code = [name for name in self.below(PACKAGE) if name.endswith(".py")]
        share = docstring_lines(self.root, code) / sum(self.lines[name] for name in code)
        yield f"\n{100 * share:.1f} % of the lines of {PACKAGE}/**/*.py are docstrings\n"
        yield from self.folders("tests")
        tests = set(self.below("tests"))
        python = [name for name in self.lines if name.endswith(".py") and name not in tests]
        folders = ", ".join(sorted({name.split("/")[0] for name in python}))
        yield f"{self.total(python)}  other Python ({folders})"
        tested = sum(self.lines[name] for name in tests)
        code_lines = sum(self.lines[name] for name in python)
        yield f"{tested / code_lines:.2f} lines of tests per line of other Python"

    def __iter__(self):
        yield from self.folders(PACKAGE)
        yield from self.loading()
        yield from self.shares()


def main(arguments):
    default = Path(__file__).resolve().parents[1]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("root", nargs="?", type=Path, default=default, metavar="ROOT")
    for line in Report(parser.parse_args(arguments).root):
        print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
