"""numpy 2: names that numpy removed and fairseq still uses, given back to the few modules that use them."""

import importlib
import inspect
import re
import types
from typing import Any, Dict, Iterator

import numpy as np

from .patch import ModuleProxy, Patch

NUMPY2 = Patch(
    name="numpy2",
    reason="np.compat.long, np.float, np.int and np.percentile(interpolation=) are gone from numpy, which breaks "
    "--sample-break-mode eos, --num-batch-buckets and NAT-CRF; numpy itself is not touched",
    upstream="facebookresearch/fairseq#4945, #5645",
)
# Where the text tasks meet a removed name: --sample-break-mode eos, --num-batch-buckets (two places), NAT-CRF.
MODULES = (
    "fairseq.data.token_block_dataset",
    "fairseq.data.language_pair_dataset",
    "fairseq.data.data_utils",
    "fairseq.modules.dynamic_crf_layer",
)
REMOVED = re.compile(r"\bnp\.(compat\.long|float|int)\b|\binterpolation\s*=")


def _percentile(a: Any, q: Any, interpolation: Any = "linear") -> Any:
    return np.percentile(a, q, method=interpolation)


def _removed_names() -> Dict[str, Any]:
    """What this numpy lacks, by name."""
    names: Dict[str, Any] = {}
    if "compat" not in vars(np):
        names["compat"] = types.SimpleNamespace(long=int)
    names.update({alias.__name__: alias for alias in (float, int) if alias.__name__ not in vars(np)})
    if "interpolation" not in inspect.signature(np.percentile).parameters:
        names["percentile"] = _percentile
    return names


def _users() -> Iterator[types.ModuleType]:
    """The modules that still see the real numpy and use a removed name."""
    for name in MODULES:
        module = importlib.import_module(name)
        if not isinstance(module.np, ModuleProxy) and REMOVED.search(inspect.getsource(module)):
            yield module


@NUMPY2.probe
def _missing() -> bool:
    return bool(_removed_names()) and any(_users())


@NUMPY2.step
def give_back() -> None:
    """Let these modules see a numpy with the removed names."""
    for module in list(_users()):
        module.np = ModuleProxy(np, **_removed_names())  # type: ignore[attr-defined]
