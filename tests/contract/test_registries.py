"""Every name that the package registers with fairseq leads to a class of the package, and so does the README's table."""

import ast
import re
from typing import Any, Dict, Iterator, Mapping, Tuple

import pytest
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_INV_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.scoring import SCORER_REGISTRY
from fairseq.tasks import TASK_REGISTRY

import fairseq_plugins
from fairseq_plugins.__main__ import registered, report
from tests.contract.repository import PACKAGE, ROOT, dotted, sources, table_rows

REGISTRIES: Dict[str, Mapping[str, Any]] = {
    "register_task": TASK_REGISTRY,
    "register_criterion": CRITERION_REGISTRY,
    "register_model": MODEL_REGISTRY,
    "register_scorer": SCORER_REGISTRY,
}
README_COLUMNS = {"`--task`": TASK_REGISTRY, "`--arch`": ARCH_MODEL_REGISTRY, "`--criterion`": CRITERION_REGISTRY}


def decorators() -> Iterator[Tuple[str, str, str]]:
    """(file, function, name) of every ``@register_...("name")`` in the package."""
    for source in sources(PACKAGE):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                function = dotted(node.func).split(".")[-1]
                if function in REGISTRIES:
                    yield source.name, function, node.args[0].value


def is_ours(entry: Any) -> bool:
    """True if a registered class is defined in the package."""
    return entry.__module__.split(".")[0] == PACKAGE


def test_every_registered_name_is_our_class():
    found = list(decorators())
    assert {name for _, _, name in found} >= {"sga_translation", "sga_ctc", "tlm_pretraining"}
    for file, function, name in found:
        entry = REGISTRIES[function].get(name)
        assert entry is not None, (
            f"{file}: {name} is never registered: fairseq_plugins/__init__.py must import the file"
        )
        assert is_ours(entry), f"{file}: the name {name} belongs to {entry.__module__}, choose another"


def test_every_architecture_of_our_models_builds_our_class():
    models = [name for _, function, name in decorators() if function == "register_model"]
    assert models
    for model in models:
        for name in ARCH_MODEL_INV_REGISTRY.get(model, [model]):
            assert is_ours(ARCH_MODEL_REGISTRY[name]), f"--arch {name} is the class of another package"


@pytest.mark.parametrize(
    ("option", "names"),
    [
        ("--task", {"sga_translation"}),
        ("--criterion", {"sga_ctc"}),
        ("--arch", {"sga_xlmr_base", "sga_xlmr_large", "sga_tiny"}),
    ],
)
def test_the_public_names_exist(option: str, names: set):
    assert names <= set(registered(PACKAGE)[option])


def test_the_methods_of_the_readme_exist():
    rows = table_rows((ROOT / "README.md").read_text(encoding="utf-8"), "method")
    assert rows
    for row in rows:
        for column, registry in README_COLUMNS.items():
            names = re.findall(r"`([^`]+)`", row[column])
            assert names, f"README: {row['method']} names nothing under {column}"
            assert set(names) <= set(registry), (
                f"README: {row['method']}: {column} {sorted(set(names) - set(registry))}"
            )


def test_the_report_names_path_versions_and_registered_names():
    lines = dict(line.split(None, 1) for line in report(fairseq_plugins).splitlines() if " " in line)
    assert lines["--user-dir"] == str(ROOT / PACKAGE)
    assert lines["fairseq_plugins"] == fairseq_plugins.__version__
    assert {"Python", "fairseq", "torch", "numpy", "sentencepiece", "sacrebleu"} <= set(lines)
    assert "not installed" not in lines["fairseq"]
    for option in ("--task", "--criterion", "--arch"):
        assert lines[option].split(", ") == registered(PACKAGE)[option]
