"""Test the arrows of the design: which component may import which inside the package."""

import ast
import sys
from collections import namedtuple

from tests.contract.repository import PACKAGE, sources

# Component -> siblings that it may import. Arrows go only down: the rooms of papers and baselines
# stand on masked_lm and common, which stand on checkpoints and ops.
GROUND = frozenset({"ops", "checkpoints", "common", "masked_lm"})
BESIDE = {"compat", "commands", "scoring", "baselines", "analysis", "export"}
ROOMS = {source.name.split("/")[1] for source in sources(PACKAGE) if source.name.count("/") > 1}
PAPERS = ROOMS - GROUND - BESIDE
ARROWS = {
    "ops": frozenset(),
    "checkpoints": frozenset(),
    "compat": frozenset({"checkpoints"}),  # one safe reading of files
    "scoring": frozenset({"ops", "common"}),
    "common": frozenset({"ops", "checkpoints"}),
    "masked_lm": frozenset({"ops", "checkpoints", "common"}),
    **dict.fromkeys((*PAPERS, "baselines"), GROUND | {"compat"}),
    "analysis": GROUND | {*PAPERS, "scoring"},
    "export": GROUND | {*PAPERS, "baselines", "compat"},
}
# The command line imports whatever a verb needs, where the verb is called.
ARROWS["commands"] = frozenset(ARROWS)
# Files beside the components: what starts commands may import all of them.
TOP = {
    **dict.fromkeys(("__init__.py", "__main__.py", "translate.py"), frozenset(ARROWS)),
    "own_commands.py": frozenset(),
    "raw_text.py": frozenset(),
    "model_files.py": frozenset({"checkpoints"}),
}
# Start without torch and fairseq: at their top they import the standard library and each other.
LIGHT = {"__init__", "__main__", "commands", "own_commands"}
# Other packages that a component may import besides the standard library.
ONLY = {"checkpoints": {"torch", "safetensors", "numpy", "data_prep"}}
# Modules of data_prep that the package may import.
SHARED = ("data_prep.files.", "data_prep.progress.")
NEVER = {"ops": {"fairseq", "fairseq_cli"}, "checkpoints": {"fairseq", "fairseq_cli"}}
STANDARD_LIBRARY = getattr(sys, "stdlib_module_names", frozenset())


Import = namedtuple("Import", "line name inside relative")
"""An imported name; ``inside`` has its parts below the package, and is None outside."""


def imports(source):
    """Yield every import of a file of the package, at any depth of the code."""
    folder = source.name.split("/")[1:-1]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top, *parts = alias.name.split(".")
                inside = tuple(parts) if top == PACKAGE else None
                yield Import(node.lineno, alias.name, inside, False)
        elif isinstance(node, ast.ImportFrom):
            module = node.module.split(".") if node.module else []
            for alias in node.names:
                if node.level:
                    parts = [*folder[: len(folder) - (node.level - 1)], *module, alias.name]
                    yield Import(node.lineno, ".".join(parts), tuple(parts), True)
                else:
                    inside = (*module[1:], alias.name) if module[0] == PACKAGE else None
                    yield Import(node.lineno, ".".join([*module, alias.name]), inside, False)


def violations(source):
    component = source.name.split("/")[1]
    allowed = {**TOP, **ARROWS}.get(component)
    if allowed is None:
        valid = ", ".join(sorted(ARROWS))
        yield f"{source.name}: {component} is no component of the design; valid: {valid}"
        return
    for item in imports(source):
        place = f"{source.name}:{item.line}: {item.name}"
        if item.inside is None:
            top = item.name.split(".")[0]
            if top == "data_prep" and not f"{item.name}.".startswith(SHARED):
                yield f"{place}: of data_prep only files and progress"
            if top in NEVER.get(component, ()):
                yield f"{place}: {component} must not import {top}"
            elif component in ONLY and top not in ONLY[component] | STANDARD_LIBRARY:
                yield f"{place}: {component} may import {', '.join(sorted(ONLY[component]))} only"
            continue
        if not item.relative:
            yield f"{place}: relative imports only, or the file is run twice under --user-dir"
        target = item.inside[0] if item.inside else ""
        if target in ARROWS and target != component and target not in allowed:
            yield f"{place}: {component} must not import {target}"


def heavy_imports(source):
    """Imports at the top of a file that must start in no time."""
    top = source._replace(
        tree=ast.Module([node for node in source.tree.body if is_import(node)], [])
    )
    for item in imports(top):
        name = item.inside[0] if item.inside else item.name.split(".")[0]
        valid = {*LIGHT, "register"} if item.inside else {*STANDARD_LIBRARY, "data_prep"}
        if name not in valid:
            yield f"{source.name}:{item.line}: {item.name}: import it where it is used"


def is_import(node):
    return isinstance(node, (ast.Import, ast.ImportFrom))


def test_the_command_line_starts_without_heavy_imports():
    light = [
        source
        for source in sources(PACKAGE)
        if source.name.split("/")[1].removesuffix(".py") in LIGHT
    ]
    assert len(light) > 8
    assert [text for source in light for text in heavy_imports(source)] == []


def test_the_package_obeys_the_arrows():
    assert [text for source in sources(PACKAGE) for text in violations(source)] == []
