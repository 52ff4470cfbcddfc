"""setup.py, constraints.txt, the Makefile and the documents agree with each other."""

import ast
import re
import sys
from pathlib import Path

from setuptools import find_packages

import fairseq_plugins
import fairseq_plugins_runtime
from tests.contract.repository import PACKAGE, ROOT, listed_files

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def name_of(requirement):
    return re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0].lower().replace("_", "-")


def test_only_the_packages_are_packaged():
    include = [PACKAGE, f"{PACKAGE}.*", "data_prep", "data_prep.*"]
    packages = set(find_packages(where=str(ROOT), include=include))
    python = [name for name in listed_files() if re.match(rf"({PACKAGE}|data_prep)/.*\.py$", name)]
    folders = {name.rpartition("/")[0].replace("/", ".") for name in python}
    assert packages == folders, "a folder of the packages has no __init__.py"
    assert f"include={include!r}".replace("'", '"') in text_of("setup.py")


def test_files_that_are_no_python_are_packaged():
    values = re.search(r"package_data=(\{.*\}),", text_of("setup.py"))
    patterns = {(folder, pattern) for folder, names in ast.literal_eval(values[1]).items() for pattern in names}
    files = [name for name in listed_files() if re.match(rf"({PACKAGE}|data_prep)/.*(?<!\.py)$", name)]
    files = [name for name in files if Path(name).name != "ruff.toml"]  # for who changes the code
    assert len(files) > 5
    for name in files:
        folder, _, file = name.rpartition("/")
        assert {(folder, file), (folder, f"*{Path(file).suffix}")} & patterns, f"{name}: not in package_data"


def setup_values():
    """Return the constants of setup.py."""
    values = {"__file__": str(ROOT / "setup.py")}
    exec(text_of("setup.py").rpartition("\nsetup(")[0], values)
    return values


def test_make_install_brings_what_the_commands_of_data_prep_import():
    modules = set()
    for name in listed_files():
        if re.match(r"data_prep/.*\.py$", name):
            for node in ast.walk(ast.parse(text_of(name))):
                if isinstance(node, ast.Import):
                    modules.update(alias.name.partition(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    modules.add(node.module.partition(".")[0])
    optional = {"py3langid", "tokenizers"}  # of the extras study and huggingface
    modules -= {*sys.stdlib_module_names, PACKAGE, "data_prep"} | optional
    requirements = {name_of(item) for item in setup_values()["REQUIREMENTS"]}
    assert {"gensim", "sentencepiece"} <= modules
    assert {name.lower().replace("_", "-") for name in modules} <= requirements


def test_the_tested_set_covers_and_satisfies_what_is_installed():
    lines = text_of("constraints.txt").splitlines()
    constraints = {name_of(line): line.partition("==")[2] for line in lines if line and not line.startswith("#")}
    values = setup_values()
    requirements = values["REQUIREMENTS"] + sum((values["EXTRAS"][name] for name in ("test", "check", "docs")), [])
    requirements = [item.split(";")[0] for item in requirements if 'python_version < "3.11"' not in item]
    assert {name_of(item) for item in requirements} <= set(constraints)
    exact = dict(item.split("==") for item in requirements if "==" in item)
    assert {name_of(name): version for name, version in exact.items()}.items() <= constraints.items()
    assert all(version and "+" not in version for version in constraints.values()), "+cpu is no index's"


def test_one_version_everywhere():
    version = fairseq_plugins.__version__
    assert f"version: {version}\n" in text_of("CITATION.cff") and f"## {version}" in text_of("CHANGELOG.md")
    assert fairseq_plugins_runtime.__version__ == version, "an export is read by the runtime of the same version"


def test_documents_link_only_to_what_exists():
    for name in DOCUMENTS:
        links = [link for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text_of(name)) if "://" not in link]
        assert [f"{name}: {link}" for link in links if not (ROOT / link).exists()] == []


def test_documented_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    assert {"install", "quickstart", "test", "check", "format", "results", "clean", "help"} <= targets
    workflows = [name for name in listed_files() if name.startswith(".github/workflows/")]
    for name in ("README.md", "CONTRIBUTING.md", ".ci/run", *workflows):
        used = set(re.findall(r"(?:`|^|exec |run: )make ([a-z-]+)", text_of(name), re.MULTILINE))
        assert used and used <= targets, f"{name}: {used - targets}"
