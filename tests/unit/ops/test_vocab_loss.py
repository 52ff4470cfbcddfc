"""Chunked cross-entropy against materialised logits, value and gradient."""

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_plugins.ops.vocab_loss import label_smoothed, linear_nll, linear_token_losses

VOCAB, WIDTH, PAD = 37, 8, 1


@pytest.fixture
def inputs(device):
    generator = torch.Generator().manual_seed(3)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(device)

    target = torch.randint(2, VOCAB, (3, 5), generator=generator).to(device)
    target[1, 3:] = PAD
    return draw(3, 5, WIDTH), draw(VOCAB, WIDTH), draw(VOCAB), target


def stock(hidden, weight, bias, target, epsilon):
    """fairseq's own function on materialised logits, summed."""
    lprobs = torch.log_softmax(torch.nn.functional.linear(hidden, weight, bias), dim=-1)
    return label_smoothed_nll_loss(lprobs.flatten(0, 1), target.flatten(), epsilon, ignore_index=PAD)


def leaves(*tensors):
    return [tensor.clone().requires_grad_() for tensor in tensors]


@pytest.mark.parametrize("chunk", [1, 4, 256])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_value_and_gradients_are_stock(inputs, epsilon, chunk):
    hidden, weight, bias, target = inputs
    ours, theirs = leaves(hidden, weight, bias), leaves(hidden, weight, bias)
    nll, smooth = linear_nll(*ours, target, epsilon, chunk, ignore_index=PAD)
    loss = label_smoothed(nll, smooth, epsilon, VOCAB).sum()
    expected, expected_nll = stock(*theirs, target, epsilon)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll.sum(), expected_nll)
    (loss / 7).backward()
    (expected / 7).backward()
    for mine, reference in zip(ours, theirs):
        torch.testing.assert_close(mine.grad, reference.grad)


HALF = [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_half_precision_is_summed_in_float32_over_many_chunks(device, dtype, epsilon, weighted):
    """600 tokens, two at a time, whose shares of the weight's gradient all have one sign: a sum in half precision stalls."""
    generator = torch.Generator().manual_seed(4)
    hidden = (1 + 0.1 * torch.randn(600, WIDTH, generator=generator)).to(device, dtype)
    weight = (0.3 * torch.randn(VOCAB, WIDTH, generator=generator)).to(device, dtype)
    bias = torch.randn(VOCAB, generator=generator).to(device, dtype)
    target = torch.randint(2, 5, (600,), generator=generator).to(device)
    scale = torch.linspace(0.5, 1.5, 600, device=device) if weighted else torch.ones(600, device=device)
    ours = leaves(hidden, weight, bias)
    theirs = leaves(hidden.double(), weight.double(), bias.double())
    nll, smooth = linear_nll(*ours, target, epsilon, chunk_size=2)
    lprobs = torch.log_softmax(torch.nn.functional.linear(*theirs), dim=-1)
    expected_nll, expected_smooth = -lprobs.gather(-1, target[:, None])[:, 0], -lprobs.sum(-1)
    assert nll.dtype == smooth.dtype == torch.float32
    rounding = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(nll.double(), expected_nll, rtol=rounding, atol=rounding)
    if epsilon:
        torch.testing.assert_close(smooth.double(), expected_smooth, rtol=rounding, atol=rounding)
    (label_smoothed(nll, smooth, epsilon, VOCAB) * scale).sum().backward()
    (label_smoothed(expected_nll, expected_smooth, epsilon, VOCAB) * scale).sum().backward()
    for mine, reference in zip(ours, theirs):
        assert mine.grad.dtype == dtype
        allowed = rounding * float(reference.grad.abs().max())
        torch.testing.assert_close(mine.grad.double(), reference.grad, rtol=rounding, atol=allowed)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("trained", [False, True])
def test_half_precision_holds_more_words_than_its_largest_number(device, dtype, trained):
    """float16 ends at 65,504: the sum of so many equally likely rows is larger."""
    words = 70_000
    hidden = torch.zeros(3, 1, device=device, dtype=dtype, requires_grad=True)
    weight = torch.ones(words, 1, device=device, dtype=dtype, requires_grad=trained)
    target = torch.tensor([0, 5, words - 1], device=device)
    losses = linear_token_losses(hidden, weight, None, target, 0.1, chunk_size=2, want_best=True)
    torch.testing.assert_close(losses.nll, torch.full((3,), words, device=device).float().log())
    torch.testing.assert_close(losses.smooth / words, losses.nll)
    assert losses.best.tolist() == [0, 0, 0], "of equal ones the first, as argmax takes it"
    losses.nll.sum().backward()
    torch.testing.assert_close(hidden.grad, torch.zeros_like(hidden), rtol=0, atol=1e-2)
    assert weight.grad is None or bool((weight.grad == 0).all()), "the states are zero"


def test_weights_that_differ_between_tokens(inputs):
    """The sums of the forward pass cannot be used then."""
    hidden, weight, bias, target = inputs
    scale = torch.linspace(0.5, 2.0, target.numel(), dtype=torch.float64, device=target.device).view_as(target)
    ours, theirs = leaves(hidden, weight, bias), leaves(hidden, weight, bias)
    nll, smooth = linear_nll(*ours, target, 0.1, 4)
    (nll * scale + smooth * scale**2).sum().backward()
    lprobs = torch.log_softmax(torch.nn.functional.linear(*theirs), dim=-1)
    (-lprobs.gather(-1, target[..., None])[..., 0] * scale - lprobs.sum(-1) * scale**2).sum().backward()
    for mine, reference in zip(ours, theirs):
        torch.testing.assert_close(mine.grad, reference.grad)


def test_second_backward_of_the_same_graph(inputs):
    hidden, weight, bias, target = inputs
    ours = leaves(hidden, weight, bias)
    loss = linear_nll(*ours, target, 0.1, 4)[0].sum()
    first = torch.autograd.grad(loss, ours, retain_graph=True)
    kept = [part.clone() for part in first]
    for mine, reference in zip(torch.autograd.grad(loss, ours), kept):
        torch.testing.assert_close(mine, reference)


def test_frozen_weight_gets_no_gradient_and_no_bias_is_needed(inputs):
    hidden, weight, _, target = inputs
    (ours,), (theirs,) = leaves(hidden), leaves(hidden)
    label_smoothed(*linear_nll(ours, weight, None, target, 0.1, 4, PAD), 0.1, VOCAB).sum().backward()
    stock(theirs, weight, None, target, 0.1)[0].backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
    assert weight.grad is None


def test_ignored_targets_count_nothing(inputs):
    hidden, weight, bias, target = inputs
    (ours,) = leaves(hidden)
    losses = linear_token_losses(ours, weight, bias, target, 0.1, 4, PAD, want_best=True)
    assert losses.nll[1, 3:].tolist() == losses.smooth[1, 3:].tolist() == [0, 0]
    assert losses.best[1, 3:].tolist() == [-1, -1]
    losses.nll.sum().backward()
    assert ours.grad[1, 3:].abs().max() == 0 < ours.grad[1, :3].abs().min()


def test_every_target_ignored(inputs):
    hidden, weight, bias, target = inputs
    ours = leaves(hidden, weight, bias)
    nll, smooth = linear_nll(*ours, torch.full_like(target, PAD), 0.1, 4, PAD)
    (nll + smooth).sum().backward()
    assert nll.abs().max() == 0 and all(tensor.grad.abs().max() == 0 for tensor in ours)


def test_best_token(inputs):
    hidden, weight, bias, target = inputs
    best = linear_token_losses(hidden, weight, bias, target, chunk_size=4, want_best=True).best
    assert torch.equal(best, torch.nn.functional.linear(hidden, weight, bias).argmax(-1))
    assert linear_token_losses(hidden, weight, bias, target).best is None


def test_smooth_is_not_computed_without_smoothing(inputs):
    hidden, weight, bias, target = inputs
    assert linear_nll(hidden, weight, bias, target)[1].abs().max() == 0


class LargestTensor(TorchDispatchMode):
    """Records the largest result of any operation that is no view of its input."""

    numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        known = {tensor.untyped_storage().data_ptr() for tensor in args if isinstance(tensor, torch.Tensor)}
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage().data_ptr() not in known:
                self.numel = max(self.numel, tensor.numel())
        return result


@pytest.mark.parametrize("trained", [False, True])
def test_tokens_times_vocabulary_never_exists(device, trained):
    torch.manual_seed(0)
    tokens, vocab, chunk = 64, 1000, 8
    hidden = torch.randn(tokens, WIDTH, device=device, requires_grad=True)
    weight = torch.randn(vocab, WIDTH, device=device, requires_grad=trained)
    target = torch.randint(0, vocab, (tokens,), device=device)
    with LargestTensor() as largest:
        label_smoothed(*linear_nll(hidden, weight, None, target, 0.1, chunk), 0.1, vocab).sum().backward()
    assert largest.numel <= max(chunk * vocab, vocab * WIDTH)


def test_no_gradient_sums_without_gradients(inputs):
    """Validation of a trained model must not fill a V x C buffer."""
    hidden, weight, bias, target = inputs
    weight = weight[:, :1].repeat(1, WIDTH).requires_grad_()
    with torch.no_grad(), LargestTensor() as largest:
        linear_nll(hidden, weight, bias, target, 0.1, chunk_size=1)
    assert largest.numel < weight.numel()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label_smoothing": 1.0}, r"label_smoothing must lie in \[0, 1\); got 1.0"),
        ({"chunk_size": 0}, "chunk_size must be at least 1 token; got 0"),
        ({"target": torch.zeros(3, dtype=torch.int64)}, r"got \(3, 5, 8\), \(3,\)"),
    ],
)
def test_bad_input(inputs, change, message):
    hidden, weight, bias, target = inputs
    with pytest.raises(ValueError, match=message):
        linear_nll(**{"hidden": hidden, "weight": weight, "bias": bias, "target": target, **change})
