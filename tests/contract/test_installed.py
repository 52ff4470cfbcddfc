"""Test that a make target installs what it runs; `make test` installs more than users have."""

import contextlib
import re
import subprocess
import sys
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from data_prep.verbs import VERBS
from tests.contract.repository import ROOT

COMMAND = re.compile(r"python -m ([\w.]+)")
IMPORT = """
import importlib, sys
refused, names = set(sys.argv[1].split(",")), sys.argv[2:]
class Refuse:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in refused:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
sys.path[:0] = [".", "examples"]
for name in names:
    importlib.import_module(name)
"""


def closure(name, extras, requirements):
    """Return the names of all distributions that a distribution requires.

    Requirements of distributions that are not installed are unknown.
    """
    for line in metadata.requires(name) or ():
        requirement = Requirement(line)
        marker, required = requirement.marker, canonicalize_name(requirement.name)
        if marker and not any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            continue
        if (required, *requirement.extras) not in requirements:
            requirements.add((required, *requirement.extras))
            with contextlib.suppress(metadata.PackageNotFoundError):
                closure(required, requirement.extras, requirements)
    return {required for required, *_ in requirements}


def module_of(name):
    """Return the module behind ``python -m NAME``; data_prep.VERB is no module."""
    package, _, verb = name.partition(".")
    return f"data_prep.{VERBS[verb]}" if package == "data_prep" else name


@pytest.mark.cases("rules extra", ("translator", "recipes"), ("study", "study"))
def test_a_workflow_imports_only_packages_that_its_target_installs(rules, extra):
    distributions = closure("fairseq-plugins", [extra], set()) | {"fairseq-plugins"}
    refused = [
        package
        for package, names in metadata.packages_distributions().items()
        if not {canonicalize_name(name) for name in names} & distributions
    ]
    assert "pytest" in refused and "torch" not in refused
    text = (ROOT / "examples" / "rules" / f"{rules}.smk").read_text(encoding="utf-8")
    modules = set(COMMAND.findall(text))
    assert {"recipes.progress", "fairseq_plugins"} <= modules
    modules.add("fairseq_plugins.checkpoints.average")  # what the verb imports
    modules = {module_of(name) for name in modules}
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORT, ",".join(refused), *sorted(modules)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
