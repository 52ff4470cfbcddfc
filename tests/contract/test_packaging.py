"""Test that setup.py, constraints.txt, the Makefile and the documents agree."""

import ast
import re
import sys
from pathlib import Path

from setuptools import find_packages

import fairseq_plugins
import fairseq_plugins_runtime
from tests.contract.repository import PACKAGE, ROOT, listed_files

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")


def read_text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def distribution_name(requirement):
    return re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0].lower().replace("_", "-")


def test_only_the_packages_are_packaged():
    include = [PACKAGE, f"{PACKAGE}.*", "data_prep", "data_prep.*"]
    packages = set(find_packages(where=str(ROOT), include=include))
    python = [name for name in listed_files() if re.match(rf"({PACKAGE}|data_prep)/.*\.py$", name)]
    folders = {name.rpartition("/")[0].replace("/", ".") for name in python}
    assert packages == folders, "a folder of the packages has no __init__.py"
    assert f"include={include!r}".replace("'", '"') in read_text("setup.py")


def test_other_files_than_python_are_packaged():
    values = re.search(r"package_data=(\{.*\}),", read_text("setup.py"))
    patterns = {
        (folder, pattern)
        for folder, names in ast.literal_eval(values[1]).items()
        for pattern in names
    }
    files = [
        name for name in listed_files() if re.match(rf"({PACKAGE}|data_prep)/.*(?<!\.py)$", name)
    ]
    files = [name for name in files if Path(name).name != "ruff.toml"]  # settings of a checker
    assert len(files) > 5
    for name in files:
        folder, _, file = name.rpartition("/")
        assert {(folder, file), (folder, f"*{Path(file).suffix}")} & patterns, (
            f"{name}: not in package_data"
        )


def setup_values():
    """Return the constants of setup.py."""
    values = {"__file__": str(ROOT / "setup.py")}
    exec(read_text("setup.py").rpartition("\nsetup(")[0], values)
    return values


def test_make_install_installs_the_imports_of_data_prep():
    modules = set()
    for name in listed_files():
        if re.match(r"data_prep/.*\.py$", name):
            for node in ast.walk(ast.parse(read_text(name))):
                if isinstance(node, ast.Import):
                    modules.update(alias.name.partition(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    modules.add(node.module.partition(".")[0])
    optional = {"py3langid", "tokenizers"}  # of the extras study and huggingface
    modules -= {*sys.stdlib_module_names, PACKAGE, "data_prep"} | optional
    requirements = {distribution_name(item) for item in setup_values()["REQUIREMENTS"]}
    assert {"gensim", "sentencepiece"} <= modules
    assert {name.lower().replace("_", "-") for name in modules} <= requirements


def test_constraints_cover_and_satisfy_the_requirements():
    lines = read_text("constraints.txt").splitlines()
    constraints = {
        distribution_name(line): line.partition("==")[2]
        for line in lines
        if line and not line.startswith("#")
    }
    values = setup_values()
    requirements = values["REQUIREMENTS"] + sum(
        (values["EXTRAS"][name] for name in ("test", "check", "docs")), []
    )
    requirements = [
        item.split(";")[0] for item in requirements if 'python_version < "3.11"' not in item
    ]
    assert {distribution_name(item) for item in requirements} <= set(constraints)
    exact = dict(item.split("==") for item in requirements if "==" in item)
    assert {
        distribution_name(name): version for name, version in exact.items()
    }.items() <= constraints.items()
    assert all(version and "+" not in version for version in constraints.values()), (
        "no index has +cpu"
    )


def test_all_versions_are_equal():
    version = fairseq_plugins.__version__
    assert f"version: {version}\n" in read_text("CITATION.cff") and f"## {version}" in read_text(
        "CHANGELOG.md"
    )
    assert fairseq_plugins_runtime.__version__ == version, (
        "an export is read by the runtime of the same version"
    )


def test_links_of_documents_lead_to_files():
    for name in DOCUMENTS:
        links = [
            link
            for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", read_text(name))
            if "://" not in link
        ]
        assert [f"{name}: {link}" for link in links if not (ROOT / link).exists()] == []


def test_documented_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", read_text("Makefile"), re.MULTILINE))
    assert {
        "install",
        "quickstart",
        "test",
        "check",
        "format",
        "results",
        "clean",
        "help",
    } <= targets
    workflows = [name for name in listed_files() if name.startswith(".github/workflows/")]
    for name in ("README.md", "CONTRIBUTING.md", ".ci/run", *workflows):
        used = set(re.findall(r"(?:`|^|exec |run: )make ([a-z-]+)", read_text(name), re.MULTILINE))
        assert used and used <= targets, f"{name}: {used - targets}"
