"""numpy 2: names that numpy removed and fairseq still uses, given back to the few modules that use them."""

import importlib
import inspect
import re
import types
from typing import Any, List

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
USE = re.compile(r"\bnp\.(compat\.long|float|int)\b|\binterpolation\s*=")


def _users() -> List[types.ModuleType]:
    """The modules that use such a name and see the real numpy."""
    modules = [importlib.import_module(name) for name in MODULES]
    return [one for one in modules if not isinstance(one.np, ModuleProxy) and USE.search(inspect.getsource(one))]


@NUMPY2.probe
def _missing() -> bool:
    return "float" not in vars(np) and bool(_users())


@NUMPY2.step
def give_back() -> None:
    """Let these modules see a numpy with the names."""

    def percentile(a: Any, q: Any, interpolation: Any = "linear") -> Any:
        return np.percentile(a, q, method=interpolation)

    for module in _users():
        compat = types.SimpleNamespace(long=int)
        module.np = ModuleProxy(np, compat=compat, float=float, int=int, percentile=percentile)  # type: ignore[attr-defined]
