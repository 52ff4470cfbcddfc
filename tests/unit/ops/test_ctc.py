"""linear_ctc_loss against torch's ctc_loss over materialised logits; memory."""

from typing import List, NamedTuple, Optional, Tuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_plugins.ops.ctc import alignable, linear_ctc_loss, linear_ctc_with_best
from fairseq_plugins.ops.vocab_scan import TOKEN_BLOCK

VOCAB, WIDTH = 11, 6
BLANK = 4
CHUNKS = [1, 3, VOCAB, VOCAB + 5]


class Case(NamedTuple):
    """Arguments of linear_ctc_loss."""

    hidden: Tensor
    weight: Tensor
    bias: Optional[Tensor]
    targets: Tensor
    input_lengths: Tensor
    target_lengths: Tensor


def case(device, dtype=torch.float64, bias=True):
    """Repeats, an empty target, two targets that cannot be aligned, different lengths."""
    generator = torch.Generator().manual_seed(7)
    labels: List[List[int]] = [[1, 2, 3], [5, 5], [], [7, 7, 7], [1, 2, 1, 2, 1, 2, 1], [9, 3, 3, 9], [6]]
    slots = [8, 3, 5, 4, 6, 5, 1]
    targets = torch.full((len(labels), 8), 2, dtype=torch.int64)
    for row, ids in enumerate(labels):
        targets[row, : len(ids)] = torch.tensor(ids, dtype=torch.int64)
    tensors = (
        torch.randn(len(labels), 9, WIDTH, generator=generator, dtype=torch.float64).to(dtype),
        torch.randn(VOCAB, WIDTH, generator=generator, dtype=torch.float64).to(dtype),
        torch.randn(VOCAB, generator=generator, dtype=torch.float64).to(dtype) if bias else None,
        targets,
        torch.tensor(slots),
        torch.tensor([len(ids) for ids in labels]),
    )
    return Case(*(None if tensor is None else tensor.to(device) for tensor in tensors))


def materialised(inputs):
    """torch's own loss over B x T x V log-probabilities, zero where the target cannot be aligned."""
    logits = F.linear(inputs.hidden, inputs.weight, inputs.bias)
    log_probs = logits.log_softmax(-1).transpose(0, 1)
    return F.ctc_loss(log_probs, *inputs[3:], blank=BLANK, reduction="none", zero_infinity=True)


def double(inputs):
    return Case(*(t.double() if t is not None and t.is_floating_point() else t for t in inputs))


def _leaves(inputs, trained, names=("hidden", "weight", "bias")):
    """The same numbers as leaves; ``trained`` says whether weight and bias get gradients."""
    wanted = names if trained else ("hidden",)
    given = {name: getattr(inputs, name) for name in ("hidden", "weight", "bias")}
    copies = {name: None if t is None else t.clone().requires_grad_(name in wanted) for name, t in given.items()}
    return inputs._replace(**copies)


def compare(inputs, trained, chunk_size=3, names=("hidden", "weight", "bias"), upstream=None, **close):
    """Value and gradients of the fast loss and of torch's in float64; returns the fast loss and its leaves."""
    fast, slow = _leaves(inputs, trained, names), _leaves(double(inputs), trained, names)
    loss, expected = linear_ctc_loss(*fast, blank=BLANK, chunk_size=chunk_size), materialised(slow)
    torch.testing.assert_close(loss.double(), expected, **close)
    factor = torch.ones_like(expected) if upstream is None else upstream.to(expected)
    (loss * factor.to(loss)).sum().backward()
    (expected * factor).sum().backward()
    for ours, theirs in zip(fast[:3], slow[:3]):
        assert (ours is None or ours.grad is None) == (theirs is None or theirs.grad is None)
        if ours is not None and ours.grad is not None:
            assert ours.grad.dtype == ours.dtype
            torch.testing.assert_close(ours.grad.double(), theirs.grad, **close)
    return loss, fast


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("trained", [True, False])
def test_value_and_gradients_equal_torch(chunk_size, bias, trained, device):
    upstream = torch.tensor([1.0, -0.5, 2.0, 3.0, 0.0, 0.25, 1.5])
    loss, _ = compare(case(device, bias=bias), trained, chunk_size, upstream=upstream, rtol=1e-10, atol=1e-12)
    assert loss.shape == (7,)
    assert loss.dtype == torch.float64


@pytest.mark.parametrize("slots", [[TOKEN_BLOCK, 1], [TOKEN_BLOCK - 7, TOKEN_BLOCK + 20, 9]])
@pytest.mark.parametrize("trained", [True, False])
def test_more_slots_than_a_block_equal_torch(slots, trained, device):
    """One slot in the last block; three blocks, the last of 22 slots. Every label occurs in every block."""
    generator = torch.Generator().manual_seed(2)
    targets = (torch.arange(30) % 3 + torch.arange(len(slots))[:, None]) % 7
    tensors = (
        torch.randn(len(slots), max(slots), 3, generator=generator, dtype=torch.float64),
        torch.randn(7, 3, generator=generator, dtype=torch.float64),
        torch.randn(7, generator=generator, dtype=torch.float64),
        targets.masked_fill(targets == BLANK, 6),
        torch.tensor(slots),
        torch.tensor([min(30, count) for count in slots]),
    )
    inputs = Case(*(tensor.to(device) for tensor in tensors))
    upstream = torch.tensor([1.0, -2.0, 3.0])[: len(slots)]
    loss, _ = compare(inputs, trained, upstream=upstream, rtol=1e-9, atol=1e-9)
    assert bool((loss > 0).all())


@pytest.mark.parametrize("names", [("weight",), ("bias",)])
def test_weight_or_bias_may_be_trained_alone(names, device):
    _, leaves = compare(case(device), True, names=names, rtol=1e-10, atol=1e-12)
    assert leaves.hidden.grad is None


def test_infeasible_targets_have_zero_loss_and_zero_gradient(device):
    """'a a a' needs five slots (S + adjacent repeats): four are not enough, five are."""
    hidden = torch.randn(3, 5, WIDTH, device=device, requires_grad=True)
    weight = torch.randn(VOCAB, WIDTH, device=device, requires_grad=True)
    targets = torch.tensor([[1, 1, 1], [1, 1, 1], [1, BLANK, 2]], device=device)
    slots = torch.tensor([4, 5, 5], device=device)
    labels = torch.tensor([3, 3, 3], device=device)
    assert alignable(targets, slots, labels, BLANK).tolist() == [False, True, False]
    loss = linear_ctc_loss(hidden, weight, None, targets, slots, labels, blank=BLANK)
    loss.sum().backward()
    assert loss[0] == 0
    assert loss[2] == 0
    assert loss[1] > 0
    assert bool(hidden.grad.isfinite().all())
    assert bool(weight.grad.isfinite().all())
    assert bool((hidden.grad[[0, 2]] == 0).all())
    assert bool((hidden.grad[1] != 0).any())


def test_a_batch_without_any_feasible_target(device):
    hidden = torch.randn(2, 2, WIDTH, device=device, requires_grad=True)
    weight = torch.randn(VOCAB, WIDTH, device=device)
    targets = torch.tensor([[1, 1], [1, 2]], device=device)
    loss = linear_ctc_loss(
        hidden, weight, None, targets, torch.tensor([2, 0], device=device), torch.tensor([2, 2], device=device), BLANK
    )
    loss.sum().backward()
    assert loss.tolist() == [0, 0]
    assert bool((hidden.grad == 0).all())


@pytest.mark.parametrize("filler", [0, BLANK, -100, 10**6])
def test_what_lies_behind_the_lengths_never_counts(filler, device):
    """Slots, labels: wider padding with anything in it changes neither losses nor gradients."""
    inputs = case(device)
    wide_hidden = torch.full((7, 13, WIDTH), 50.0, dtype=torch.float64, device=device)
    wide_targets = torch.full((7, 12), filler, dtype=torch.int64, device=device)
    for row in range(7):
        slots, labels = int(inputs.input_lengths[row]), int(inputs.target_lengths[row])
        wide_hidden[row, :slots] = inputs.hidden[row, :slots]
        wide_targets[row, :labels] = inputs.targets[row, :labels]
    plain = _leaves(inputs, True)
    wide = _leaves(inputs._replace(hidden=wide_hidden, targets=wide_targets), True)
    first, second = linear_ctc_loss(*plain, blank=BLANK), linear_ctc_loss(*wide, blank=BLANK)
    first.sum().backward()
    second.sum().backward()
    torch.testing.assert_close(first, second, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(plain.hidden.grad, wide.hidden.grad[:, :9], rtol=1e-10, atol=1e-12)
    assert bool((wide.hidden.grad[:, 9:] == 0).all())
    torch.testing.assert_close(plain.weight.grad, wide.weight.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("trained", [True, False])
def test_half_precision_hidden_is_accumulated_in_float32(dtype, trained, device):
    loss, _ = compare(case(device, dtype=dtype), trained, rtol=2e-2, atol=3e-2)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), materialised(double(case(device, dtype=dtype))), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bias", [True, False])
def test_half_precision_loss_of_confident_slots_is_not_negative(dtype, bias, device):
    """A probability above one: labels' logits and log-sum-exp must come from equally rounded logits."""
    generator = torch.Generator().manual_seed(1)
    weight = 0.5 * torch.randn(1000, 64, generator=generator)
    offsets = torch.randn(1000, generator=generator)
    targets = torch.randint(1, 1000, (16, 5), generator=generator)
    path = torch.zeros(16, 10, dtype=torch.int64)
    path[:, ::2] = targets
    tensors = [tensor.to(device, dtype) for tensor in (2.0 * weight[path], weight, offsets)]
    lengths = torch.full((16,), 10, device=device), torch.full((16,), 5, device=device)
    loss = linear_ctc_loss(tensors[0], tensors[1], tensors[2] if bias else None, targets.to(device), *lengths, blank=0)
    assert float(loss.min()) >= -1e-3


def test_large_logits_do_not_overflow(device):
    inputs = case(device, dtype=torch.float32)
    inputs = inputs._replace(hidden=inputs.hidden * 200, bias=inputs.bias * 100)
    fast, slow = _leaves(inputs, True), _leaves(double(inputs), True)
    loss, expected = linear_ctc_loss(*fast, blank=BLANK, chunk_size=2), materialised(slow)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-3)
    loss.sum().backward()
    assert bool(fast.hidden.grad.isfinite().all())


@pytest.mark.parametrize(("option", "value"), [("blank", VOCAB), ("blank", -1), ("chunk_size", 0), ("chunk_size", -3)])
def test_wrong_options_are_named(option, value):
    options = {"blank": BLANK, "chunk_size": 4, option: value}
    with pytest.raises(ValueError, match=f"{option}.*{value}"):
        linear_ctc_loss(*case(torch.device("cpu")), **options)


# ---- Memory: neither B x T x V numbers nor, with a frozen projection, a second pass over V. ----


class TensorSizes(TorchDispatchMode):
    """Records the shape of every tensor that any operation makes."""

    def __init__(self):
        super().__init__()
        self.shapes: List[Tuple[int, ...]] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for item in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(item, Tensor):
                self.shapes.append(tuple(item.shape))
        return result

    def largest(self):
        """Elements of the largest tensor."""
        return max(torch.Size(shape).numel() for shape in self.shapes)


def _large_case():
    """B T V = 81,920 against V C = 4,096 and B T C = 640."""
    generator = torch.Generator().manual_seed(3)
    return Case(
        torch.randn(4, 20, 4, generator=generator, dtype=torch.float64),
        torch.randn(1024, 4, generator=generator, dtype=torch.float64),
        torch.randn(1024, generator=generator, dtype=torch.float64),
        torch.randint(5, 1024, (4, 6), generator=generator),
        torch.tensor([20, 18, 12, 20]),
        torch.tensor([6, 6, 3, 1]),
    )


@pytest.mark.parametrize("trained", [True, False])
def test_training_never_holds_a_tensor_of_slots_times_vocabulary(trained):
    inputs = _leaves(_large_case(), trained)
    with TensorSizes() as forward:
        loss, best = linear_ctc_with_best(*inputs, blank=BLANK, chunk_size=37)
    with TensorSizes() as backward:
        loss.sum().backward()
    assert backward.shapes
    assert inputs.hidden.grad is not None
    # 70 real slots x 37 columns = 2,590 logits; 80 x 37 when padding is computed as well; V x C = 4,096 weights.
    assert max(forward.largest(), backward.largest()) <= 4096


def test_frozen_projection_needs_no_second_pass_over_the_vocabulary():
    for trained, expected in ((True, True), (False, False)):
        inputs = _leaves(_large_case(), trained)
        loss = linear_ctc_loss(*inputs, blank=BLANK, chunk_size=37)
        with TensorSizes() as sizes:
            loss.sum().backward()
        chunks = [shape for shape in sizes.shapes if 37 in shape or 1024 in shape]
        assert bool(chunks) == expected
