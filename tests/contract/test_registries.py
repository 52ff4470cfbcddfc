"""Test that every name that the package registers leads to a class of the package."""

import ast

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import (
    ARCH_MODEL_INV_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    MODEL_REGISTRY,
)
from fairseq.models.transformer import TransformerModelBase
from fairseq.scoring import SCORER_REGISTRY
from fairseq.tasks import TASK_REGISTRY

import fairseq_plugins  # noqa: F401, registers everything
from tests.contract.repository import PACKAGE, dotted, sources

REGISTRIES = {
    "register_task": TASK_REGISTRY,
    "register_criterion": CRITERION_REGISTRY,
    "register_model": MODEL_REGISTRY,
    "register_scorer": SCORER_REGISTRY,
}


def test_every_registered_name_is_our_class():
    registrations = []
    for source in sources(PACKAGE):
        for node in ast.walk(source.tree):
            function = dotted(node.func).split(".")[-1] if isinstance(node, ast.Call) else ""
            if function in REGISTRIES:
                registrations.append((source.name, function, node.args[0].value))
    assert {name for _, _, name in registrations} >= {"sga_translation", "sga_ctc", "sga"}
    for file, function, name in registrations:
        entry = REGISTRIES[function].get(name)
        assert entry is not None, f"{file}: fairseq_plugins/__init__.py must import it for {name}"
        owners = [entry]
        if function == "register_model":
            owners += [ARCH_MODEL_REGISTRY[arch] for arch in ARCH_MODEL_INV_REGISTRY.get(name, [])]
        modules = [owner.__module__ for owner in owners]
        foreign = [module for module in modules if not module.startswith(f"{PACKAGE}.")]
        assert not foreign, f"{file}: {name} or an architecture of it belongs to {foreign}"


def test_no_subclass_of_the_stock_transformer_has_a_dataclass():
    """Guard stock options: with a dataclass, fairseq drops ``--encoder-layers`` and the like."""
    names = {
        name
        for name, model in MODEL_REGISTRY.items()
        if model.__module__.startswith(f"{PACKAGE}.") and issubclass(model, TransformerModelBase)
    }
    assert names and not names & set(MODEL_DATACLASS_REGISTRY)
