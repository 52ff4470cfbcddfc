"""Memory of the device in commands: the bytes that its tensors hold, the most of them, and an error when there are too many."""

import os
import weakref
from collections import Counter

import torch

from . import device

BYTES = "PRETEND_MEMORY"
"""Environment variable: bytes of the device (default: 16 GiB)."""


class Memory:
    """Counts each storage from when a tensor of the device first holds it until none does."""

    def __init__(self):
        self.total, self.held, self.peak = int(os.environ.get(BYTES, 16 * 2**30)), 0, 0
        self.tensors = Counter()
        stock = device.Pretend.__init__

        def start(tensor, held):
            self.take(held)
            stock(tensor, held)

        device.Pretend.__init__ = start

    def take(self, held):
        """Follows what a tensor holds: the tensor itself must not have weak references, or Module.to could not swap it."""
        storage = held.untyped_storage()
        key, size = storage.data_ptr(), storage.nbytes()
        if not self.tensors[key]:
            if self.held + size > self.total:
                raise torch.cuda.OutOfMemoryError(
                    f"pretend out of memory: {self.held} bytes of {self.total}, {size} more"
                )
            self.held += size
            self.peak = max(self.peak, self.held)
        self.tensors[key] += 1
        weakref.finalize(held, self.give_back, key, size).atexit = False

    def give_back(self, key, size):
        self.tensors[key] -= 1
        if not self.tensors[key]:
            del self.tensors[key]
            self.held -= size

    def forget_the_peak(self):
        self.peak = self.held
