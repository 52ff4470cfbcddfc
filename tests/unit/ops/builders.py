"""Build random tensors, and record the sizes of the tensors that a computation makes."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

HALF = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])


def normal(*shape, seed=7, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


class TensorSizes(TorchDispatchMode):
    """Records the shape of every result of an operation that is no view of an argument."""

    def __init__(self):
        super().__init__()
        self.shapes = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        outputs = function(*args, **(kwargs or {}))
        tensors = [argument for argument in args if isinstance(argument, torch.Tensor)]
        storages = {tensor.untyped_storage().data_ptr() for tensor in tensors}
        for output in outputs if isinstance(outputs, (tuple, list)) else (outputs,):
            if isinstance(output, torch.Tensor):
                if output.untyped_storage().data_ptr() not in storages:
                    self.shapes.append(tuple(output.shape))
        return outputs

    def largest(self):
        return max(torch.Size(shape).numel() for shape in self.shapes)
