"""CTC over a chunked projection against torch's ctc_loss and argmax over materialised logits; memory."""

from collections import namedtuple

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_plugins.ops.ctc import linear_best_path, linear_ctc_loss, linear_ctc_with_best
from fairseq_plugins.ops.vocab_scan import TOKEN_BLOCK

VOCAB, WIDTH = 11, 6
BLANK = 4
CHUNKS = [1, 3, VOCAB, VOCAB + 5]
LEAVES = ("hidden", "weight", "bias")
Case = namedtuple("Case", (*LEAVES, "targets", "input_lengths", "target_lengths"))


def normal(*shape, seed=7, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def case(device, dtype=torch.float64, bias=True):
    """Repeats, an empty target, two targets that cannot be aligned, different lengths."""
    labels = [[1, 2, 3], [5, 5], [], [7, 7, 7], [1, 2, 1, 2, 1, 2, 1], [9, 3, 3, 9], [6]]
    targets = torch.tensor([row + [2] * (8 - len(row)) for row in labels])
    slots, sizes = torch.tensor([8, 3, 5, 4, 6, 5, 1]), torch.tensor([len(row) for row in labels])
    offsets = normal(VOCAB, seed=9, dtype=dtype) if bias else None
    hidden, weight = normal(7, 9, WIDTH, dtype=dtype), normal(VOCAB, WIDTH, seed=8, dtype=dtype)
    tensors = hidden, weight, offsets, targets, slots, sizes
    return Case(*(None if tensor is None else tensor.to(device) for tensor in tensors))


def leaves(inputs, names=LEAVES, dtype=None):
    """The same numbers as leaves; those of ``names`` get gradients."""
    given = {name: getattr(inputs, name) for name in LEAVES}
    copies = {name: None if t is None else t.detach().to(dtype, copy=True) for name, t in given.items()}
    return inputs._replace(**{k: t if t is None else t.requires_grad_(k in names) for k, t in copies.items()})


def materialised(inputs):
    """torch's own loss over B x T x V log-probabilities, zero where the target cannot be aligned."""
    log_probs = F.linear(*inputs[:3]).log_softmax(-1).transpose(0, 1)
    return F.ctc_loss(log_probs, *inputs[3:], blank=BLANK, reduction="none", zero_infinity=True)


def compare(inputs, names=LEAVES, chunk_size=3, upstream=None, **close):
    """Value and gradients of the fast loss and of torch's in float64; returns the fast loss and its leaves."""
    fast, slow = leaves(inputs, names), leaves(inputs, names, torch.float64)
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
@pytest.mark.parametrize("names", [LEAVES, ("hidden",), ("weight",), ("bias",)])
def test_value_and_gradients_equal_torch(chunk_size, bias, names, device):
    if names == ("bias",) and not bias:
        return
    upstream = torch.tensor([1.0, -0.5, 2.0, 3.0, 0.0, 0.25, 1.5])
    loss, _ = compare(case(device, bias=bias), names, chunk_size, upstream, rtol=1e-10, atol=1e-12)
    assert loss.shape == (7,) and loss.dtype == torch.float64


@pytest.mark.parametrize("slots", [[TOKEN_BLOCK, 1], [TOKEN_BLOCK - 7, TOKEN_BLOCK + 20, 9]])
@pytest.mark.parametrize("names", [LEAVES, ("hidden",)])
def test_more_slots_than_a_block_equal_torch(slots, names, device):
    targets = (torch.arange(30) % 3 + torch.arange(len(slots))[:, None]) % 7
    targets = targets.masked_fill(targets == BLANK, 6)
    sizes = torch.tensor(slots), torch.tensor([min(30, count) for count in slots])
    tensors = normal(len(slots), max(slots), 3), normal(7, 3, seed=8), normal(7, seed=9), targets, *sizes
    upstream = torch.tensor([1.0, -2.0, 3.0])[: len(slots)]
    inputs = Case(*(tensor.to(device) for tensor in tensors))
    loss, _ = compare(inputs, names, upstream=upstream, rtol=1e-9, atol=1e-9)
    assert bool((loss > 0).all())


@pytest.mark.parametrize("filler", [0, BLANK, -100, 10**6])
def test_what_lies_behind_the_lengths_never_counts(filler, device):
    inputs = case(device)
    wide_hidden = torch.full((7, 13, WIDTH), 50.0, dtype=torch.float64, device=device)
    wide_targets = torch.full((7, 12), filler, dtype=torch.int64, device=device)
    for row, (slots, labels) in enumerate(zip(inputs.input_lengths.tolist(), inputs.target_lengths.tolist())):
        wide_hidden[row, :slots] = inputs.hidden[row, :slots]
        wide_targets[row, :labels] = inputs.targets[row, :labels]
    plain, wide = leaves(inputs), leaves(inputs._replace(hidden=wide_hidden, targets=wide_targets))
    first, second = linear_ctc_loss(*plain, blank=BLANK), linear_ctc_loss(*wide, blank=BLANK)
    first.sum().backward()
    second.sum().backward()
    torch.testing.assert_close(first, second, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(plain.hidden.grad, wide.hidden.grad[:, :9], rtol=1e-10, atol=1e-12)
    assert bool((wide.hidden.grad[:, 9:] == 0).all())
    torch.testing.assert_close(plain.weight.grad, wide.weight.grad, rtol=1e-10, atol=1e-12)


HALF = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])


@HALF
@pytest.mark.parametrize("names", [LEAVES, ("hidden",)])
def test_half_precision_hidden_is_accumulated_in_float32(dtype, names, device):
    inputs = case(device, dtype=dtype)
    loss, _ = compare(inputs, names, rtol=2e-2, atol=3e-2)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), materialised(leaves(inputs, (), torch.float64)), rtol=2e-3, atol=2e-3)


@HALF
@pytest.mark.parametrize("bias", [True, False])
def test_half_precision_loss_of_confident_slots_is_not_negative(dtype, bias, device):
    """A probability above one: labels' logits and log-sum-exp must come from equally rounded logits."""
    weight = 0.5 * normal(1000, 64, dtype=torch.float32)
    targets = torch.randint(1, 1000, (16, 5), generator=torch.Generator().manual_seed(1))
    path = torch.zeros(16, 10, dtype=torch.int64)
    path[:, ::2] = targets
    hidden, weight, offsets = (t.to(device, dtype) for t in (2.0 * weight[path], weight, normal(1000)))
    lengths = torch.full((16,), 10, device=device), torch.full((16,), 5, device=device)
    loss = linear_ctc_loss(hidden, weight, offsets if bias else None, targets.to(device), *lengths, blank=0)
    assert float(loss.min()) >= -1e-3


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("blank", [0, BLANK, VOCAB - 1])
def test_best_path_is_argmax_and_pieces_are_the_best_without_the_blank(chunk_size, blank, device):
    inputs = case(device)
    inputs.bias[blank] += 3  # the blank wins in many slots, as it does in a trained model
    lengths, inside = inputs.input_lengths, torch.arange(9, device=device) < inputs.input_lengths[:, None]
    log_probs = F.linear(*inputs[:3]).log_softmax(-1)
    expected, without_blank = log_probs.argmax(-1), log_probs.clone()
    without_blank[..., blank] = -torch.inf
    assert 0 < int((expected[inside] == blank).sum()) < int(inside.sum())
    targets = torch.full_like(inputs.targets, (blank + 1) % VOCAB)
    options = {"blank": blank, "chunk_size": chunk_size}
    _, fused = linear_ctc_with_best(*inputs[:3], targets, lengths, lengths.new_ones(7), **options)
    for found in (fused, linear_best_path(*inputs[:3], lengths, **options)):
        assert torch.equal(found.tokens, expected.masked_fill(~inside, blank))
        assert torch.equal(found.pieces[inside], without_blank.argmax(-1)[inside])
        torch.testing.assert_close(found.log_probs, log_probs.amax(-1).masked_fill(~inside, 0.0))


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("blank", [0, BLANK, VOCAB - 1])
def test_of_equal_logits_the_lowest_id_is_the_best(chunk_size, blank, device):
    """As argmax over the whole row takes it, the blank's included; half-precision logits are often equal."""
    generator = torch.Generator().manual_seed(3)
    weight = torch.randint(-1, 2, (3, 2), generator=generator)[torch.arange(VOCAB) % 3].double().to(device)
    hidden = torch.randint(-2, 3, (4, 9, 2), generator=generator).double().to(device)
    logits = F.linear(hidden, weight)
    path = linear_best_path(hidden, weight, None, torch.full((4,), 9, device=device), blank, chunk_size)
    assert torch.equal(path.tokens, logits.argmax(-1)) and len(path.tokens.unique()) > 1
    logits[..., blank] = -torch.inf
    assert torch.equal(path.pieces, logits.argmax(-1))


class TensorSizes(TorchDispatchMode):
    """Records the shape of every result of an operation that is no view of an argument."""

    def __init__(self):
        super().__init__()
        self.shapes = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        known = {tensor.untyped_storage().data_ptr() for tensor in args if isinstance(tensor, torch.Tensor)}
        for item in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(item, torch.Tensor) and item.untyped_storage().data_ptr() not in known:
                self.shapes.append(tuple(item.shape))
        return result

    def largest(self):
        return max(torch.Size(shape).numel() for shape in self.shapes)


@pytest.mark.parametrize("trained", [True, False])
def test_training_never_holds_a_tensor_of_slots_times_vocabulary(trained):
    """B T V = 81,920 against V C = 4,096 and B T C = 640; a frozen projection is not scanned again in backward."""
    targets = torch.randint(5, 1024, (4, 6), generator=torch.Generator().manual_seed(3))
    sizes = torch.tensor([20, 18, 12, 20]), torch.tensor([6, 6, 3, 1])
    large = Case(normal(4, 20, 4), normal(1024, 4, seed=8), normal(1024, seed=9), targets, *sizes)
    inputs = leaves(large, LEAVES if trained else ("hidden",))
    with TensorSizes() as forward:
        loss, _ = linear_ctc_with_best(*inputs, blank=BLANK, chunk_size=37)
    with TensorSizes() as backward:
        loss.sum().backward()
    # 70 real slots x 37 columns = 2,590 logits; 80 x 37 when padding is computed as well; V x C = 4,096 weights.
    assert max(forward.largest(), backward.largest()) <= 4096
    assert any(37 in shape or 1024 in shape for shape in backward.shapes) == trained
