"""Every name that the package registers with fairseq leads to a class of the package."""

import ast

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_INV_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer import TransformerModelBase
from fairseq.scoring import SCORER_REGISTRY
from fairseq.tasks import TASK_REGISTRY

import fairseq_plugins  # noqa: F401, registers everything
from tests.contract.repository import PACKAGE, dotted, sources

REGISTRIES = {"register_task": TASK_REGISTRY, "register_criterion": CRITERION_REGISTRY}
REGISTRIES.update(register_model=MODEL_REGISTRY, register_scorer=SCORER_REGISTRY)


def test_every_registered_name_is_our_class():
    calls = [(one.name, node) for one in sources(PACKAGE) for node in ast.walk(one.tree) if isinstance(node, ast.Call)]
    calls = [(file, dotted(node.func).split(".")[-1], node.args) for file, node in calls]
    found = [(file, function, args[0].value) for file, function, args in calls if function in REGISTRIES]
    assert {name for _, _, name in found} >= {"sga_translation", "sga_ctc", "sga"}
    for file, function, name in found:
        entry = REGISTRIES[function].get(name)
        assert entry is not None, f"{file}: {name} is not registered: fairseq_plugins/__init__.py must import the file"
        owners = [entry]
        if function == "register_model":
            owners += [ARCH_MODEL_REGISTRY[arch] for arch in ARCH_MODEL_INV_REGISTRY.get(name, [])]
        others = [owner.__module__ for owner in owners if not owner.__module__.startswith(f"{PACKAGE}.")]
        assert not others, f"{file}: the name {name} or an architecture of it belongs to {others}, choose another"


def test_no_stock_transformer_has_a_dataclass_of_its_own():
    """fairseq would drop ``--encoder-layers`` and all other stock options, or not start."""
    ours = {name: model for name, model in MODEL_REGISTRY.items() if model.__module__.startswith(f"{PACKAGE}.")}
    stock = {name for name, model in ours.items() if issubclass(model, TransformerModelBase)}
    assert stock and not stock & set(MODEL_DATACLASS_REGISTRY)
