"""A pretend accelerator: tensors of device ``pretend`` hold CPU tensors and behave as those of CUDA where code can be wrong.

``make test DEVICE=pretend``, or ``pytest --device pretend``. Needs torch 2.13, whose way of defining a device in Python is
experimental; with another version the tests are skipped.

Pretended:

- operators that mix devices raise; CPU tensors without dimensions are allowed as inputs, and CPU indices, as on CUDA;
- what waits for the device is recorded with the line that asked for it (:func:`tests.pretend.waits.waits`);
- a ``non_blocking`` copy to the host holds nothing useful before the next wait; the pinned source of a ``non_blocking`` copy
  to the device must not change before it;
- in commands ``torch.cuda`` answers for this device, so fairseq takes its own ``cuda`` path (:mod:`tests.pretend.cuda`); what its
  tensors hold is counted, and more than the device has is an error (:mod:`tests.pretend.memory`).

Not pretended:

- kernels: each operator runs on the CPU, so values, rounding, half precision and errors of operators are the CPU's, and
  operators that are not deterministic on CUDA are so here;
- scaled_dot_product_attention runs as matrix products, never as a fused kernel; nothing is compiled;
- asserts inside kernels (an index out of range is an IndexError at once); memory that a kernel needs while it runs;
- streams, events and graphs, several devices, NCCL, ``torch.distributed`` on the device;
- ``data_ptr`` is that of the held tensor; storages of the device are empty: saving goes through the CPU, as fairseq does it;
- generators of random numbers on the device: numbers come from the CPU's, ``torch.cuda.get_rng_state`` is its state;
- ``torch.jit``, ``torch.export``, ``torch.compile``, sparse and quantised tensors, ``torch.autocast``'s list of operators.
"""

import torch

SUPPORTED = torch.__version__.startswith("2.13.")
"""Whether this torch lets Python define a device in the way that is used here."""

UNSUPPORTED = f"the pretend device needs torch 2.13, this is {torch.__version__}"

NOT_PRETENDED = {
    "test_value_and_gradient_are_stock[LSTM]": "LSTM cells are one fused kernel on accelerators, which has no form for the CPU",
}
"""Tests that are skipped on the pretend device."""

if SUPPORTED:
    from . import commands, device  # noqa: F401
