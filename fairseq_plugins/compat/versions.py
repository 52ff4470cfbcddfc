"""Versions and a format number in every checkpoint that is written, and a look at them in every one that is read.

No patch: nothing is wrong without it, so ``FAIRSEQ_PLUGINS_DISABLE_PATCHES`` does not switch it off. It sits where all of
fairseq's saving and loading passes, so stock models trained with the user dir have it too.
"""

from typing import Any

from ..checkpoints.versions import check_versions, stamped
from .patch import ModuleProxy, is_patched, put_instead

NAME = "checkpoint_versions"
SAVE = "fairseq.checkpoint_utils:torch_persistent_save"


def install() -> None:
    """Wrap fairseq's one function that writes checkpoints and the ``torch.load`` of the module that reads them. Once."""
    from fairseq import checkpoint_utils

    if is_patched(SAVE, NAME):
        return
    stock_torch = checkpoint_utils.torch

    def load(file: Any, *args: Any, **kwargs: Any) -> Any:
        state = stock_torch.load(file, *args, **kwargs)
        check_versions(state, f"checkpoint {getattr(file, 'name', file)}")
        return state

    put_instead(SAVE, torch_persistent_save, NAME)
    checkpoint_utils.torch = ModuleProxy(stock_torch, load=load)


def torch_persistent_save(stock: Any, obj: Any, filename: Any, async_write: bool = False) -> None:
    """Stamp the checkpoint."""
    stock(stamped(obj), filename, async_write)
