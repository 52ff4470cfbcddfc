"""Count the bytes of the device's tensors in commands; raise if there are too many."""

import os
import weakref
from collections import Counter

import torch

from . import device

BYTES = "PRETEND_MEMORY"
"""Environment variable: bytes of the device (default: 16 GiB)."""


class Memory:
    """Counts each storage from its first tensor of the device to its last."""

    def __init__(self):
        self.total = int(os.environ.get(BYTES, 16 * 2**30))
        self.allocated = self.peak = 0
        self.tensors = Counter()
        stock = device.Pretend.__init__

        def allocate_and_init(tensor, content):
            self.allocate(content)
            stock(tensor, content)

        device.Pretend.__init__ = allocate_and_init

    def allocate(self, content):
        """Count the storage of a CPU tensor.

        The CPU tensor is tracked: the tensor of the device must not have weak references, or
        Module.to could not swap it.
        """
        storage = content.untyped_storage()
        key, size = storage.data_ptr(), storage.nbytes()
        if not self.tensors[key]:
            if self.allocated + size > self.total:
                usage = f"{self.allocated} bytes of {self.total}, {size} more"
                raise torch.cuda.OutOfMemoryError(f"pretend out of memory: {usage}")
            self.allocated += size
            self.peak = max(self.peak, self.allocated)
        self.tensors[key] += 1
        weakref.finalize(content, self.free, key, size).atexit = False

    def free(self, key, size):
        self.tensors[key] -= 1
        if not self.tensors[key]:
            del self.tensors[key]
            self.allocated -= size

    def reset_peak(self):
        self.peak = self.allocated
