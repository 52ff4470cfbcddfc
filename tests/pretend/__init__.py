"""A pretend accelerator: tensors of device ``pretend`` are CPU tensors that behave like CUDA's.

``make test DEVICE=pretend``, or ``pytest --device pretend``. Needs torch 2.13, whose way of
defining a device in Python is experimental; with another version the tests are skipped.

Pretended:

- Operators that mix devices raise. As on CUDA, CPU tensors without dimensions are valid inputs,
  and so are CPU indices.
- Each wait for the device is recorded with the line that caused it
  (:func:`tests.pretend.waits.waits`).
- A ``non_blocking`` copy to the host holds nothing useful before the next wait; the pinned source
  of a ``non_blocking`` copy to the device must not change before it.
- In commands ``torch.cuda`` answers for this device, so fairseq takes its own ``cuda`` path
  (:mod:`tests.pretend.cuda`). The bytes of its tensors are counted, and more than the device has
  is an error (:mod:`tests.pretend.memory`).

Not pretended:

- Kernels: each operator runs on the CPU, so values, rounding, half precision and errors of
  operators are the CPU's, and operators that are not deterministic on CUDA are
  deterministic here.
- scaled_dot_product_attention runs as matrix products, never as a fused kernel; nothing is
  compiled.
- Asserts inside kernels (an index out of range is an IndexError at once); memory that a kernel
  needs while it runs.
- Streams, events and graphs, several devices, NCCL, ``torch.distributed`` on the device.
- ``data_ptr`` is that of the CPU tensor; storages of the device are empty: saving goes through the
  CPU, as in fairseq.
- Random number generators of the device: numbers come from the CPU's generator, and
  ``torch.cuda.get_rng_state`` is its state.
- ``torch.jit``, ``torch.export``, ``torch.compile``, sparse and quantised tensors,
  ``torch.autocast``'s list of operators.
"""

import torch

SUPPORTED = torch.__version__.startswith("2.13.")
"""True if this torch supports the way in which the device is defined here."""

UNSUPPORTED = f"the pretend device needs torch 2.13, this is {torch.__version__}"

NOT_PRETENDED = {
    "test_value_and_gradient_are_stock[LSTM]": (
        "LSTM cells are one fused kernel on accelerators, which has no form for the CPU"
    ),
}
"""Tests that are skipped on the pretend device."""

if SUPPORTED:
    from . import commands, device  # noqa: F401
