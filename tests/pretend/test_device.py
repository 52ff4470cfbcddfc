"""Test the pretend device: it refuses what CUDA refuses and records waits."""

import numpy as np
import pytest
import torch

from tests.pretend import cuda, waits

pytestmark = pytest.mark.pretend


@pytest.fixture
def x(device):
    return torch.arange(6.0, device=device).view(2, 3)


def host():
    return torch.ones(2, 3)


@pytest.mark.parametrize(
    "mix",
    [
        lambda x: x + host(),
        lambda x: host() @ x.t(),
        lambda x: torch.cat([x, host()]),
        lambda x: torch.where(x > 1, host(), x),
        lambda x: host().add_(x),
        lambda x: torch.tensor(1.0).add_(x.sum()),
        lambda x: x.index_select(0, torch.tensor([0])),
        lambda x: host()[x.long()[0, :1]],
        lambda x: x.masked_fill(host().bool(), 0.0),
        lambda x: torch.rand(2, generator=torch.Generator(), device=x.device),
        lambda x: x.bernoulli(0.5, generator=torch.Generator()),
    ],
)
def test_devices_are_not_mixed(x, mix):
    with pytest.raises(RuntimeError, match="Expected"):
        mix(x)


def test_numpy_is_refused(x):
    with pytest.raises(TypeError, match="numpy"):
        x.numpy()
    with pytest.raises(TypeError, match="numpy"):
        np.asarray(x)


def test_numbers_and_indices_on_the_host_are_allowed(x):
    assert (x * torch.tensor(2.0)).tolist() == [[0, 2, 4], [6, 8, 10]]
    assert torch.where(x > 3, torch.tensor(0.0), x).tolist() == [[0, 1, 2], [3, 0, 0]]
    assert x[torch.tensor([1])].tolist() == [[3, 4, 5]]
    x[torch.tensor([1]), 0] = 7
    x.copy_(x.cpu() + 1)
    assert x.tolist() == [[1, 2, 3], [8, 5, 6]]


@pytest.mark.parametrize(
    ("kinds", "work"),
    [
        ([], lambda x: x[0, 1] + x.sum() * 3),
        ([], lambda x: x.masked_fill_(x > 1, 0)),
        ([], lambda x: x.__setitem__(x > 1, 0)),
        ([], lambda x: torch.nonzero_static(x, size=5)),
        (["item"], lambda x: int(x.sum())),
        (["item"], lambda x: bool((x > 1).any())),
        (["tolist"], lambda x: x.tolist()),
        (["copy to the host"], lambda x: x.cpu()),
        (["copy to the device"], lambda x: host().to(x.device)),
        (["copy to the device"], lambda x: x.new_tensor([1, 2])),
        (["copy to the device"], lambda x: torch.tensor(3, device=x.device)),
        (["nonzero"], lambda x: x.nonzero()),
        (["boolean indexing"], lambda x: x[x > 1]),
        (["boolean indexing"], lambda x: x.__setitem__(x > 1, x[0, :1].expand(4))),
        (["indices on the host"], lambda x: x[torch.tensor([1])]),
        (["repeat_interleave"], lambda x: x.repeat_interleave(x[:, 1].long(), dim=0)),
        ([], lambda x: x.repeat_interleave(x[:, 1].long(), dim=0, output_size=5)),
        (["boolean indexing"] * 2, lambda x: x.clone().requires_grad_()[x > 1].sum().backward()),
    ],
)
def test_waits_are_recorded_with_their_line(x, kinds, work):
    with waits.waits() as recorded:
        work(x)
    assert [wait.kind for wait in recorded] == kinds
    for wait in recorded:
        assert wait.file == __file__ or (wait.file, wait.function) == ("", "backward")


def test_a_copy_without_a_wait_holds_nothing(x):
    copy, pinned = x.to("cpu", non_blocking=True), torch.zeros(2, 3).pin_memory()
    pinned.copy_(x, non_blocking=True)
    x.zero_()
    assert copy.isnan().all()
    assert pinned.isnan().all()
    x.sum().item()
    assert copy.tolist() == pinned.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_pinned_source_must_not_change_before_the_next_wait(x):
    pinned = host().pin_memory()
    copy = pinned.to(x.device, non_blocking=True)
    pinned.zero_()
    with pytest.raises(RuntimeError, match="pinned source"):
        copy.sum().item()


def test_modules_keep_their_parameters(device):
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    before = list(module.parameters())
    module.to(device).half()
    assert all(old is new for old, new in zip(before, module.parameters()))
    assert before[0].device.type == device.type
    assert before[0].dtype == torch.float16
    data = before[0].data
    before[0].data = torch.zeros(2, device=device)
    assert before[0].shape == (2,)
    assert data.shape == (4, 3)


def test_cuda_names_the_pretend_device(device):
    first, second = torch.device("cuda"), torch.device("cuda", 0)
    with cuda.CudaIsPretend():
        tensors = [torch.zeros(2, device="cuda"), torch.zeros(2).to(first)]
        tensors.append(torch.nn.Linear(1, 1).to(device=second).weight)
    assert {tensor.device.type for tensor in tensors} == {device.type}
