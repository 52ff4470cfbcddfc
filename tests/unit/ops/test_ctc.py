"""Test CTC over a chunked projection against torch's ctc_loss and argmax over all logits."""

from collections import namedtuple

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.ops.ctc import linear_best_path, linear_ctc_loss, linear_ctc_with_best
from fairseq_plugins.ops.vocab_scan import TOKEN_BLOCK
from tests.unit.ops.builders import HALF, TensorSizes, normal

VOCAB, WIDTH = 11, 6
BLANK = 4
CHUNKS = [1, 3, VOCAB, VOCAB + 5]
LEAVES = ("hidden", "weight", "bias")
Case = namedtuple("Case", (*LEAVES, "targets", "input_lengths", "target_lengths"))


def make_case(device, dtype=torch.float64, bias=True):
    """Build repeats, an empty target, and two targets that cannot be aligned."""
    labels = [[1, 2, 3], [5, 5], [], [7, 7, 7], [1, 2, 1, 2, 1, 2, 1], [9, 3, 3, 9], [6]]
    case = Case(
        normal(7, 9, WIDTH, dtype=dtype),
        normal(VOCAB, WIDTH, seed=8, dtype=dtype),
        normal(VOCAB, seed=9, dtype=dtype) if bias else None,
        torch.tensor([row + [2] * (8 - len(row)) for row in labels]),
        torch.tensor([8, 3, 5, 4, 6, 5, 1]),
        torch.tensor([len(row) for row in labels]),
    )
    return Case(*(None if tensor is None else tensor.to(device) for tensor in case))


def make_leaves(case, trained=LEAVES, dtype=None):
    """Copy the inputs as leaves; those named in ``trained`` get gradients."""
    copies = {}
    for name in LEAVES:
        tensor = getattr(case, name)
        if tensor is not None:
            tensor = tensor.detach().to(dtype, copy=True).requires_grad_(name in trained)
        copies[name] = tensor
    return case._replace(**copies)


def torch_loss(case):
    """Compute torch's loss over B x T x V log-probabilities, 0 for unalignable targets."""
    log_probs = F.linear(*case[:3]).log_softmax(-1).transpose(0, 1)
    return F.ctc_loss(log_probs, *case[3:], blank=BLANK, reduction="none", zero_infinity=True)


def check_equals_torch(case, trained=LEAVES, chunk_size=3, upstream=None, **close):
    """Compare value and gradients with torch's in float64; return the loss."""
    fast, slow = make_leaves(case, trained), make_leaves(case, trained, torch.float64)
    loss, expected = linear_ctc_loss(*fast, blank=BLANK, chunk_size=chunk_size), torch_loss(slow)
    torch.testing.assert_close(loss.double(), expected, **close)
    factor = torch.ones_like(expected) if upstream is None else upstream.to(expected)
    (loss * factor.to(loss)).sum().backward()
    (expected * factor).sum().backward()
    for ours, theirs in zip(fast[:3], slow[:3]):
        assert (ours is None or ours.grad is None) == (theirs is None or theirs.grad is None)
        if ours is not None and ours.grad is not None:
            assert ours.grad.dtype == ours.dtype
            torch.testing.assert_close(ours.grad.double(), theirs.grad, **close)
    return loss


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("trained", [LEAVES, ("hidden",), ("weight",), ("bias",)])
def test_value_and_gradients_equal_torch(chunk_size, bias, trained, device):
    if trained == ("bias",) and not bias:
        return
    upstream = torch.tensor([1.0, -0.5, 2.0, 3.0, 0.0, 0.25, 1.5])
    case = make_case(device, bias=bias)
    loss = check_equals_torch(case, trained, chunk_size, upstream, rtol=1e-10, atol=1e-12)
    assert loss.shape == (7,) and loss.dtype == torch.float64


@pytest.mark.parametrize("slots", [[TOKEN_BLOCK, 1], [TOKEN_BLOCK - 7, TOKEN_BLOCK + 20, 9]])
@pytest.mark.parametrize("trained", [LEAVES, ("hidden",)])
def test_more_slots_than_a_block_equal_torch(slots, trained, device):
    rows = len(slots)
    targets = (torch.arange(30) % 3 + torch.arange(rows)[:, None]) % 7
    case = Case(
        normal(rows, max(slots), 3),
        normal(7, 3, seed=8),
        normal(7, seed=9),
        targets.masked_fill(targets == BLANK, 6),
        torch.tensor(slots),
        torch.tensor([min(30, count) for count in slots]),
    )
    case = Case(*(tensor.to(device) for tensor in case))
    upstream = torch.tensor([1.0, -2.0, 3.0])[:rows]
    loss = check_equals_torch(case, trained, upstream=upstream, rtol=1e-9, atol=1e-9)
    assert bool((loss > 0).all())


@pytest.mark.parametrize("filler", [0, BLANK, -100, 10**6])
def test_padding_changes_no_loss_and_no_gradient(filler, device):
    case = make_case(device)
    hidden = torch.full((7, 13, WIDTH), 50.0, dtype=torch.float64, device=device)
    targets = torch.full((7, 12), filler, dtype=torch.int64, device=device)
    lengths = zip(case.input_lengths.tolist(), case.target_lengths.tolist())
    for row, (slots, labels) in enumerate(lengths):
        hidden[row, :slots] = case.hidden[row, :slots]
        targets[row, :labels] = case.targets[row, :labels]
    plain, wide = make_leaves(case), make_leaves(case._replace(hidden=hidden, targets=targets))
    losses = [linear_ctc_loss(*inputs, blank=BLANK) for inputs in (plain, wide)]
    for loss in losses:
        loss.sum().backward()
    torch.testing.assert_close(*losses, rtol=1e-12, atol=1e-12)
    close = {"rtol": 1e-10, "atol": 1e-12}
    torch.testing.assert_close(plain.hidden.grad, wide.hidden.grad[:, :9], **close)
    assert bool((wide.hidden.grad[:, 9:] == 0).all())
    torch.testing.assert_close(plain.weight.grad, wide.weight.grad, **close)


@HALF
@pytest.mark.parametrize("trained", [LEAVES, ("hidden",)])
def test_half_precision_is_accumulated_in_float32(dtype, trained, device):
    case = make_case(device, dtype=dtype)
    loss = check_equals_torch(case, trained, rtol=2e-2, atol=3e-2)
    assert loss.dtype == torch.float32
    expected = torch_loss(make_leaves(case, (), torch.float64))
    torch.testing.assert_close(loss.double(), expected, rtol=2e-3, atol=2e-3)


@HALF
@pytest.mark.parametrize("bias", [True, False])
def test_half_precision_loss_of_confident_slots_is_not_negative(dtype, bias, device):
    """Labels' logits and log-sum-exp must come from equally rounded logits."""
    weight = 0.5 * normal(1000, 64, dtype=torch.float32)
    generator = torch.Generator().manual_seed(1)
    targets = torch.randint(1, 1000, (16, 5), generator=generator)
    path = torch.zeros(16, 10, dtype=torch.int64)
    path[:, ::2] = targets
    tensors = (2.0 * weight[path], weight, normal(1000))
    hidden, weight, offset = (tensor.to(device, dtype) for tensor in tensors)
    slots, labels = (torch.full((16,), count, device=device) for count in (10, 5))
    projection = hidden, weight, offset if bias else None
    loss = linear_ctc_loss(*projection, targets.to(device), slots, labels, blank=0)
    assert float(loss.min()) >= -1e-3


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("blank", [0, BLANK, VOCAB - 1])
def test_best_path_is_argmax_and_pieces_are_the_best_without_the_blank(chunk_size, blank, device):
    case = make_case(device)
    case.bias[blank] += 3  # the blank wins in many slots, as it does in a trained model
    slots = case.input_lengths
    inside = torch.arange(9, device=device) < slots[:, None]
    log_probs = F.linear(*case[:3]).log_softmax(-1)
    expected, without_blank = log_probs.argmax(-1), log_probs.clone()
    without_blank[..., blank] = -torch.inf
    assert 0 < int((expected[inside] == blank).sum()) < int(inside.sum())
    targets = torch.full_like(case.targets, (blank + 1) % VOCAB)
    options = {"blank": blank, "chunk_size": chunk_size}
    _, fused = linear_ctc_with_best(*case[:3], targets, slots, slots.new_ones(7), **options)
    for path in (fused, linear_best_path(*case[:3], slots, **options)):
        assert torch.equal(path.tokens, expected.masked_fill(~inside, blank))
        assert torch.equal(path.pieces[inside], without_blank.argmax(-1)[inside])
        best = log_probs.amax(-1).masked_fill(~inside, 0.0)
        torch.testing.assert_close(path.log_probs, best)


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("blank", [0, BLANK, VOCAB - 1])
def test_of_equal_logits_the_lowest_id_is_the_best(chunk_size, blank, device):
    """Ties are common in half precision; argmax over the whole row takes the first, too."""
    generator = torch.Generator().manual_seed(3)
    weight = torch.randint(-1, 2, (3, 2), generator=generator)[torch.arange(VOCAB) % 3].double()
    hidden = torch.randint(-2, 3, (4, 9, 2), generator=generator).double().to(device)
    logits = F.linear(hidden, weight.to(device))
    slots = torch.full((4,), 9, device=device)
    path = linear_best_path(hidden, weight.to(device), None, slots, blank, chunk_size)
    assert torch.equal(path.tokens, logits.argmax(-1)) and len(path.tokens.unique()) > 1
    logits[..., blank] = -torch.inf
    assert torch.equal(path.pieces, logits.argmax(-1))


@pytest.mark.parametrize("is_trained", [True, False])
def test_training_never_makes_a_tensor_of_slots_times_vocabulary(is_trained):
    """Backward does not scan a frozen projection again. B T V = 81,920 against V C = 4,096."""
    generator = torch.Generator().manual_seed(3)
    targets = torch.randint(5, 1024, (4, 6), generator=generator)
    slots, labels = torch.tensor([20, 18, 12, 20]), torch.tensor([6, 6, 3, 1])
    projection = normal(4, 20, 4), normal(1024, 4, seed=8), normal(1024, seed=9)
    case = make_leaves(
        Case(*projection, targets, slots, labels), LEAVES if is_trained else ("hidden",)
    )
    with TensorSizes() as forward:
        loss, _ = linear_ctc_with_best(*case, blank=BLANK, chunk_size=37)
    with TensorSizes() as backward:
        loss.sum().backward()
    assert max(forward.largest(), backward.largest()) <= 1024 * 4
    assert any(37 in shape or 1024 in shape for shape in backward.shapes) == is_trained
