"""Draw mutants of mutmut with a seed, and judge each by the tests that reach its function.

    make mutants MUTANTS='--count 400 --seed 1'
    python tests/mutants/random_mutants.py --root other/checkout --count 20

mutmut makes every mutant, records which test calls which function, and forks a process per mutant
in which torch and fairseq are imported already. Mutants of texts alone (messages, log lines, keys)
are not drawn. The draw is by hash of seed, function and change, so two checkouts share the mutants
of the functions that they share. A function that no test calls counts as survived.
"""

import argparse
import ast
import collections
import contextlib
import difflib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import NamedTuple

PACKAGE = "fairseq_plugins"
FOLDERS = tuple(
    "ops common masked_lm sga csr deltalm veco understanding baselines checkpoints compat".split()
)
TESTS = ("tests/unit", "tests/reference")
COPIED = ("README.md", "benchmarks", "data_prep", "examples", "setup.py")
# fairseq reads signatures, and torch's exporter code: mutmut's wrappers hide both from them.
CONFIGURATION = """
[tool.mutmut]
source_paths = ["{package}"]
only_mutate = {mutated}
also_copy = {copied}
pytest_add_cli_args_test_selection = {tests}
pytest_add_cli_args = [
    "-p", "no:cacheprovider", "-m", "not slow", "--ignore", "tests/unit/export", "--deselect",
    "tests/unit/checkpoints/test_golden.py::test_format_1_translates_in_python",
]
process_isolation = "forkserver"
timeout_multiplier = 12.0
timeout_constant = 10.0
track_dependencies = false
"""
DETECTED = ("killed", "timeout", "segfault", "suspicious")


class Mutant(NamedTuple):
    """A mutant: the file, mutmut's name for it, and where it stands in the draw."""

    path: Path
    name: str
    rank: str


class WithoutTexts(ast.NodeTransformer):
    """Remove texts: strings, arguments of exceptions and of calls that log."""

    def visit_Constant(self, node):
        return ast.Constant("") if isinstance(node.value, str) else node

    def visit_JoinedStr(self, node):
        return ast.Constant("")

    def visit_Call(self, node):
        self.generic_visit(node)
        node.keywords = [
            keyword for keyword in node.keywords if keyword.arg not in ("help", "metavar")
        ]
        if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in (
            "logger",
            "logging",
        ):
            node.args, node.keywords = [], []
        return node

    def visit_Raise(self, node):
        if isinstance(node.exc, ast.Call):
            node.exc.args = []
        return self.generic_visit(node)


def meaning(function):
    """Return a function's tree without texts and without its name, which mutmut changes."""
    tree = ast.parse(textwrap.dedent(function))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    definition = next(node for node in ast.walk(tree) if isinstance(node, kinds))
    definition.name = ""
    return ast.dump(WithoutTexts().visit(definition))


def change(before, after):
    lines = difflib.unified_diff(before.splitlines()[1:], after.splitlines()[1:], n=0, lineterm="")
    return [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]


def mutants(seed):
    """Yield the mutants of the checkout in the working folder that change more than texts."""
    from mutmut.mutation.data import MutantLineSpans, SourceFileMutationData
    from mutmut.mutation.diff_apply import generated_function_names
    from mutmut.utils.file_utils import walk_mutatable_files

    for path in walk_mutatable_files():
        data, spans = SourceFileMutationData(path=path), MutantLineSpans.load(path)
        data.load()
        originals = {}
        counts = collections.Counter()
        for name in data.exit_code_by_key:
            original, generated = generated_function_names(name)
            if original not in originals:
                (before,) = spans.read_function_sources([original])
                originals[original] = before, meaning(before)
            (after,) = spans.read_function_sources([generated])
            before, original_meaning = originals[original]
            if meaning(after) != original_meaning:
                key = "\n".join([str(seed), original, *change(before, after)])
                counts[key] += 1
                yield Mutant(
                    path, name, hashlib.sha256(f"{key} {counts[key]}".encode()).hexdigest()
                )


def prepare(root, work, tests):
    """Copy the tracked files and add mutmut's configuration."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, work / name)
    mutated = [f"{PACKAGE}/{folder}/*" for folder in FOLDERS]
    options = dict(package=PACKAGE, mutated=mutated, copied=list(COPIED), tests=list(tests))
    with open(work / "pyproject.toml", "a", encoding="utf-8") as file:
        file.write(CONFIGURATION.format(**options))


def generate(jobs):
    """Let mutmut write all mutants of the working folder."""
    from mutmut.__main__ import create_mutants
    from mutmut.utils.file_utils import copy_also_copy_files, copy_src_dir

    Path("mutants").mkdir()
    copy_src_dir()
    copy_also_copy_files()
    create_mutants(jobs)


def report(sample):
    """Yield the survivors with their changes, a table by folder, and the score."""
    from mutmut.mutation.data import SourceFileMutationData
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.stats import status_by_exit_code

    counts = collections.defaultdict(collections.Counter)
    for mutant in sorted(sample):
        data = SourceFileMutationData(path=mutant.path)
        data.load()
        status = status_by_exit_code[data.exit_code_by_key[mutant.name]]
        counts[mutant.path.parts[1]][status] += 1
        if status not in DETECTED:
            diff = get_diff_for_mutant(mutant.name, path=mutant.path)
            yield f"\n{mutant.name}: {status}\n" + "\n".join(diff.splitlines()[2:])
    yield "\n| folder | mutants | detected | survived | no test |\n|---|---|---|---|---|"
    total = collections.Counter()
    for folder, of_folder in [*sorted(counts.items()), ("all", total)]:
        total.update({} if folder == "all" else of_folder)
        detected = sum(of_folder[status] for status in DETECTED)
        cells = (
            folder,
            sum(of_folder.values()),
            detected,
            of_folder["survived"],
            of_folder["no tests"],
        )
        yield f"| {' | '.join(map(str, cells))} |"
    score = 100 * sum(total[status] for status in DETECTED) / len(sample)
    yield f"\nscore: {score:.1f} % of {len(sample)} mutants detected"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=Path(__file__).resolve().parents[2],
        help="default: this checkout",
    )
    parser.add_argument("--count", type=int, default=400, help="mutants to draw (default 400)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default 1)")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default 2)")
    parser.add_argument(
        "--only",
        default="",
        help="draw among the mutants whose name contains this, as in .ops.ctc.",
    )
    parser.add_argument(
        "--work",
        type=Path,
        metavar="DIR",
        help="keeps what was judged: the same call goes on there",
    )
    parser.add_argument(
        "--tests", nargs="+", default=TESTS, help=f"tests that judge (default {' '.join(TESTS)})"
    )
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with contextlib.ExitStack() as stack:
        work = args.work or stack.enter_context(tempfile.TemporaryDirectory(prefix="mutants-"))
        folder = Path(work).resolve()
        if not (folder / "generated").exists():
            folder.mkdir(parents=True, exist_ok=True)
            prepare(args.root.resolve(), folder, args.tests)
            os.chdir(folder)
            generate(args.jobs)
            Path("generated").touch()
        os.chdir(folder)
        population = [mutant for mutant in mutants(args.seed) if args.only in mutant.name]
        sample = sorted(population, key=lambda mutant: mutant.rank)[: args.count]
        print(
            f"{len(population)} mutants change more than texts; {len(sample)} are drawn with seed "
            f"{args.seed}",
            flush=True,
        )
        mutmut = [sys.executable, "-c", "from mutmut.__main__ import cli; cli()"]
        names = [mutant.name for mutant in sample]
        subprocess.run([*mutmut, "run", "--max-children", str(args.jobs), *names], check=True)
        for line in report(sample):
            print(line)


if __name__ == "__main__":
    main()
