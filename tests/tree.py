"""The size of a checkout in numbers: ``make tree``, or ``python tests/tree.py ROOT`` for another checkout.

Counted are the text files that git tracks, so commit first. A closure is what a reader of a module has to follow: the module
and the files of the package that it imports, directly or not, imports inside functions included.
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
"""The loaders among these are called ``*pretrained.py``, or (VECO's) import checkpoints themselves."""


def tracked(root):
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True).stdout
    lines = {}
    for name in filter(None, listed.split("\0")):
        try:
            lines[name] = len((root / name).read_text(encoding="utf-8").splitlines())
        except (UnicodeDecodeError, FileNotFoundError):
            continue
    return lines


def imported(root, name):
    """The files of the package that a file of the package imports."""
    folder = Path(name).parent
    for node in ast.walk(ast.parse((root / name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = folder
            for _ in range(node.level - 1):
                base = base.parent
            module = base.joinpath(*(node.module or "").split("."))
            found = [path for alias in node.names for path in _files(root, module / alias.name)]
            # What is no file is a name in the module itself.
            yield from found if len(found) == len(node.names) else [*found, *_files(root, module)]


def _files(root, module):
    candidates = (module.with_name(f"{module.name}.py"), module / "__init__.py")
    return [path.as_posix() for path in candidates if (root / path).is_file()]


def closure(root, name):
    """The file itself and everything of the package that it imports, directly or not."""
    reached, waiting = set(), [name]
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            waiting.extend(imported(root, file))
    return reached


def loaders(root, files):
    """The modules that make a model from a pretrained file."""
    models = [name for name in files for pattern in LOADERS if fnmatch(name, pattern)]
    models = [name for name in models if not name.endswith("__init__.py")]
    named = [name for name in models if name.endswith("pretrained.py")]
    covered = {str(Path(name).parent) for name in named}
    others = [name for name in models if str(Path(name).parent) not in covered]
    return sorted(named + [name for name in others if any("/checkpoints/" in file for file in imported(root, name))])


def docstring_lines(root, files):
    lines = 0
    for name in files:
        for node in ast.walk(ast.parse((root / name).read_text(encoding="utf-8"))):
            documented = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            if documented and ast.get_docstring(node) is not None:
                lines += node.body[0].end_lineno - node.body[0].lineno + 1
    return lines


def report(root):
    lines = tracked(root)

    def total(names):
        names = list(names)
        return f"{len(names):4d} files {sum(lines[name] for name in names):6d} lines"

    def folders(top):
        names = [name for name in lines if name.startswith(f"{top}/")]
        yield f"{total(names)}  {top} (all tracked text files)"
        for folder in sorted({"/".join(name.split("/")[:2]) for name in names if name.count("/") > 1}):
            yield f"{total(name for name in names if name.startswith(f'{folder}/'))}    {folder}"
        yield f"{total(name for name in names if name.count('/') == 1)}    {top}/*\n"

    yield from folders(PACKAGE)
    package = [name for name in lines if name.startswith(f"{PACKAGE}/")]
    loading = {name for name in package for pattern in LOADING if fnmatch(name, pattern)}
    yield f"{total(loading)}  {' + '.join(LOADING)}"
    for name in loaders(root, package):
        yield f"{total(closure(root, name))}    import closure of {name}"

    code = [name for name in package if name.endswith(".py")]
    share = 100 * docstring_lines(root, code) / sum(lines[name] for name in code)
    yield f"\n{share:.1f} % of the lines of {PACKAGE}/**/*.py are docstrings\n"
    yield from folders("tests")
    other = [name for name in lines if name.endswith(".py") and not name.startswith("tests/")]
    tested = sum(count for name, count in lines.items() if name.startswith("tests/"))
    yield f"{total(other)}  other Python ({', '.join(sorted({name.split('/')[0] for name in other}))})"
    yield f"{tested / sum(lines[name] for name in other):.2f} lines of tests per line of other Python"


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parents[1], metavar="ROOT")
    for line in report(parser.parse_args(arguments).root):
        print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
