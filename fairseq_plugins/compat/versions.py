"""Versions and a format number in every checkpoint that is written, and a look at them in every one that is read.

No patch: nothing is wrong without it, so ``FAIRSEQ_PLUGINS_DISABLE_PATCHES`` does not switch it off. It sits where all of
fairseq's saving and loading passes, so stock models trained with the user dir have it too.
"""

from typing import Any

from ..checkpoints.versions import migrated, stamped
from .patch import ModuleProxy, instead_of, is_patched

NAME = "checkpoint_versions"


def install() -> None:
    """Wrap fairseq's one function that writes checkpoints and the ``torch.load`` of the module that reads them. Once."""
    from fairseq import checkpoint_utils

    stock_save, stock_torch = checkpoint_utils.torch_persistent_save, checkpoint_utils.torch
    if is_patched(stock_save, NAME):
        return

    @instead_of(stock_save, NAME)
    def torch_persistent_save(obj: Any, filename: Any, async_write: bool = False) -> None:
        stock_save(stamped(obj), filename, async_write)

    def load(file: Any, *args: Any, **kwargs: Any) -> Any:
        # Before fairseq applies --model-overrides and its own upgrades: a migration sees what is in the file.
        state = stock_torch.load(file, *args, **kwargs)
        return migrated(state, f"checkpoint {getattr(file, 'name', file)}") if isinstance(state, dict) else state

    checkpoint_utils.torch_persistent_save = torch_persistent_save
    checkpoint_utils.torch = ModuleProxy(stock_torch, load=load)
