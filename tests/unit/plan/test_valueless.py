"""Which tensors of a model lose their values."""

import torch
from torch import nn

from fairseq_plugins.plan.valueless import drop_values


def test_every_floating_point_tensor_of_a_module_and_no_other():
    module = nn.Module()
    module.weight = nn.Parameter(torch.ones(2, 3))
    module.register_buffer("scale", torch.ones(3))
    module.register_buffer("count", torch.tensor(7))
    module.table = torch.ones(4)  # as fairseq 0.12.2 keeps its sinusoidal positions
    module.inner = nn.Linear(3, 2)
    module.inner.weight = module.weight

    drop_values(module, torch.bfloat16)

    for tensor in (module.weight, module.scale, module.table, module.inner.bias):
        assert tensor.is_meta and tensor.dtype == torch.bfloat16
    assert module.inner.weight is module.weight and module.count == 7
