"""Give fairseq's blocks of tokens the integer type that numpy 2 removed; numpy stays as it is."""

import types

import numpy as np

from .patch import Harm, ModuleProxy, Patch, source_has

NUMPY2 = Patch(
    name="numpy2",
    harm=Harm.PAPER_BLOCKED,
    defect="np.compat.long is gone from numpy 2, so --sample-break-mode eos of masked LMs, "
    "language models and DeltaLM's span corruption raises AttributeError",
    upstream="facebookresearch/fairseq#4945, #5645",
)


@NUMPY2.probe
def _is_missing() -> bool:
    from fairseq.data import token_block_dataset

    return "compat" not in vars(np) and source_has(token_block_dataset, "np.compat.long")


@NUMPY2.step
def restore_long() -> None:
    """Let the module see a numpy that has ``compat.long``."""
    from fairseq.data import token_block_dataset

    token_block_dataset.np = ModuleProxy(np, compat=types.SimpleNamespace(long=int))
