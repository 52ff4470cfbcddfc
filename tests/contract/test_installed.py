"""A make target installs what it runs: `make test` installs more than users have."""

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


def closure(name, extras, found):
    """Names of the distributions that one brings; of those that are not installed nothing is known."""
    for line in metadata.requires(name) or ():
        requirement = Requirement(line)
        marker, needed = requirement.marker, canonicalize_name(requirement.name)
        if marker and not any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            continue
        if (needed, *requirement.extras) not in found:
            found.add((needed, *requirement.extras))
            try:
                closure(needed, requirement.extras, found)
            except metadata.PackageNotFoundError:
                pass
    return {names[0] for names in found}


def module_of(name):
    """The module behind ``python -m NAME``: data_prep.VERB is none."""
    package, _, verb = name.partition(".")
    return f"data_prep.{VERBS[verb]}" if package == "data_prep" else name


@pytest.mark.parametrize(("rules", "extra"), [("translator", "recipes"), ("study", "study")])
def test_the_workflows_import_nothing_that_their_target_does_not_install(rules, extra):
    brought = closure("fairseq-plugins", [extra], set()) | {"fairseq-plugins"}
    owners = metadata.packages_distributions()
    refused = [top for top, names in owners.items() if not {canonicalize_name(name) for name in names} & brought]
    assert "pytest" in refused and "torch" not in refused
    modules = set(COMMAND.findall((ROOT / "examples" / "rules" / f"{rules}.smk").read_text(encoding="utf-8")))
    assert {"recipes.progress", "fairseq_plugins"} <= modules
    modules.add("fairseq_plugins.checkpoints.average")  # what the verb imports
    modules = {module_of(name) for name in modules}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORT, ",".join(refused), *sorted(modules)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
