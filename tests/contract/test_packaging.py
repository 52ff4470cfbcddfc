"""setup.py, constraints.txt, the Makefile and the documents agree with each other."""

import ast
import importlib
import re
from typing import Dict, List

import pytest
from setuptools import find_packages

import fairseq_plugins
from tests.contract.repository import PACKAGE, ROOT, Source, listed_files

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "NOTICE")


def _setup_values() -> Dict[str, object]:
    """The literal assignments of setup.py."""
    source = Source.parse("setup.py", (ROOT / "setup.py").read_text(encoding="utf-8"))
    values: Dict[str, object] = {}
    for node in source.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            code = ast.unparse(node.value)
            try:
                values[node.targets[0].id] = eval(code, {"__builtins__": {}}, dict(values))
            except (NameError, TypeError, SyntaxError):
                continue
    return values


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0].lower().replace("_", "-")


@pytest.fixture(scope="module")
def constraints() -> Dict[str, str]:
    """The tested set: name -> version."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(pin) == 2 for pin in pins)
    return {_name(name): version for name, version in pins}


def test_only_the_package_is_packaged():
    include = [PACKAGE, f"{PACKAGE}.*"]
    packages = set(find_packages(where=str(ROOT), include=include))
    folders = {"/".join(name.split("/")[:-1]) for name in listed_files() if re.match(rf"{PACKAGE}/.*\.py$", name)}
    assert packages == {folder.replace("/", ".") for folder in folders}, "a folder of the package has no __init__.py"
    assert f"include={include!r}".replace("'", '"') in (ROOT / "setup.py").read_text(encoding="utf-8")


def test_the_tested_set_covers_and_satisfies_what_is_installed(constraints: Dict[str, str]):
    values = _setup_values()
    extras = values["EXTRAS"]
    assert isinstance(extras, dict)
    requirements: List[str] = [*values["REQUIREMENTS"], *extras["test"], *extras["check"]]  # type: ignore[misc]
    needed = {_name(item) for item in requirements if 'python_version < "3.11"' not in item}
    assert needed <= set(constraints)
    exact = dict(item.split(";")[0].split("==") for item in requirements if "==" in item.split(";")[0])
    exact.pop("fairseq")  # the version for Python < 3.11, where the tested set is not used
    assert {_name(name): version for name, version in exact.items()}.items() <= constraints.items()
    assert constraints["torch"] == "2.13.0"
    assert not any("+" in version for version in constraints.values()), "a local build such as +cpu is on no index"


def test_one_version_everywhere():
    version = fairseq_plugins.__version__
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_documents_link_only_to_what_exists():
    for name in DOCUMENTS:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert text.strip()
        links = [link for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if "://" not in link]
        missing = [link for link in links if not (ROOT / link).exists()]
        assert not missing, f"{name} links to {missing}"


def test_documented_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    assert {"install", "quickstart", "test", "check", "format", "results", "clean", "help"} <= targets
    for name in ("README.md", "CONTRIBUTING.md", ".ci/run"):
        used = set(re.findall(r"(?:`|^|exec )make ([a-z]+)", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))
        assert used <= targets, f"{name}: {used - targets}"
    assert "exec make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("transformers", "XLMRobertaForMaskedLM"),
        ("transformers", "MBartForConditionalGeneration"),
        ("transformers", "BertForMaskedLM"),
        ("transformers", "GPT2LMHeadModel"),
        ("gensim.models", "Word2Vec"),
        ("matplotlib.figure", "Figure"),
        ("scipy.stats", "ttest_rel"),
        ("sklearn.linear_model", "LogisticRegression"),
    ],
)
def test_what_make_test_installs_can_be_used(module: str, name: str):
    # transformers imports torchaudio, which fairseq requires, wherever it is installed: it must not be a broken one.
    assert callable(getattr(importlib.import_module(module), name))
