"""Test chunked cross-entropy against all logits: value, gradient, precision and memory."""

import pytest
import torch
import torch.nn.functional as F
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

from fairseq_plugins.ops.vocab_loss import label_smoothed, linear_nll, linear_token_losses
from tests.unit.ops.builders import HALF, TensorSizes

VOCAB, WIDTH, PAD = 37, 8, 1


@pytest.fixture
def inputs(device):
    generator = torch.Generator().manual_seed(3)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(device)

    target = torch.randint(2, VOCAB, (3, 5), generator=generator).to(device)
    target[1, 3:] = PAD
    return draw(3, 5, WIDTH), draw(VOCAB, WIDTH), draw(VOCAB), target


def losses_of_all_logits(hidden, weight, bias, target):
    log_probs = F.linear(hidden, weight, bias).log_softmax(-1)
    return -log_probs.gather(-1, target[..., None])[..., 0], -log_probs.sum(-1)


def make_leaves(hidden, weight, bias, is_frozen=False):
    """Copy the inputs as leaves; a frozen projection gets no gradient."""
    leaves = [hidden.clone().requires_grad_()]
    for tensor in (weight, bias):
        leaves.append(None if tensor is None else tensor.clone().requires_grad_(not is_frozen))
    return leaves


@pytest.mark.parametrize("chunk", [1, 4, 256])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("is_frozen", [False, True])
def test_value_and_gradients_are_stock(inputs, epsilon, chunk, is_frozen):
    """Ignored targets count nothing; the frozen projection is without a bias."""
    hidden, weight, bias, target = inputs
    projection = weight, None if is_frozen else bias
    ours, theirs = (make_leaves(hidden, *projection, is_frozen) for _ in range(2))
    losses = linear_token_losses(*ours, target, epsilon, chunk, ignore_index=PAD, want_best=True)
    loss = label_smoothed(losses.nll, losses.smooth, epsilon, VOCAB).sum()
    logits, is_ignored = F.linear(*theirs), target.eq(PAD)
    expected, expected_nll = label_smoothed_nll_loss(
        logits.log_softmax(-1).flatten(0, 1), target.flatten(), epsilon, ignore_index=PAD
    )
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(losses.nll.sum(), expected_nll)
    assert torch.equal(losses.best, logits.argmax(-1).masked_fill(is_ignored, -1))
    assert not losses.nll[is_ignored].any() and not losses.smooth[is_ignored].any()
    assert bool(losses.smooth.any()) == (epsilon > 0)
    (loss / 7).backward()
    (expected / 7).backward()
    for tensor, reference in zip(ours, theirs):
        if tensor is not None:
            assert (tensor.grad is None) == (reference.grad is None)
            if tensor.grad is not None:
                torch.testing.assert_close(tensor.grad, reference.grad)


@HALF
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_half_precision_is_summed_in_float32(device, dtype, epsilon, is_weighted):
    """300 chunks add to the weight's gradient with one sign: a sum in half precision stalls."""
    generator = torch.Generator().manual_seed(4)
    hidden = (1 + 0.1 * torch.randn(600, WIDTH, generator=generator)).to(device, dtype)
    weight = (0.3 * torch.randn(VOCAB, WIDTH, generator=generator)).to(device, dtype)
    bias = torch.randn(VOCAB, generator=generator).to(device, dtype)
    target = torch.randint(2, 5, (600,), generator=generator).to(device)
    scale = torch.ones(600, device=device)
    if is_weighted:
        scale = torch.linspace(0.5, 1.5, 600, device=device)
    ours = make_leaves(hidden, weight, bias)
    theirs = make_leaves(hidden.double(), weight.double(), bias.double())
    terms = linear_nll(*ours, target, epsilon, chunk_size=2)
    expected = losses_of_all_logits(*theirs, target)
    rounding = 4 * torch.finfo(dtype).eps
    for term, reference in list(zip(terms, expected))[: 2 if epsilon else 1]:
        assert term.dtype == torch.float32
        torch.testing.assert_close(term.double(), reference, rtol=rounding, atol=rounding)
    (label_smoothed(*terms, epsilon, VOCAB) * scale).sum().backward()
    (label_smoothed(*expected, epsilon, VOCAB) * scale).sum().backward()
    for tensor, reference in zip(ours, theirs):
        assert tensor.grad.dtype == dtype
        close = {"rtol": rounding, "atol": rounding * float(reference.grad.abs().max())}
        torch.testing.assert_close(tensor.grad.double(), reference.grad, **close)


@HALF
@pytest.mark.parametrize("is_trained", [False, True])
def test_half_precision_has_room_for_70000_equally_likely_words(device, dtype, is_trained):
    """The sum of so many exponentials exceeds 65,504, the largest number of float16."""
    words = 70_000
    hidden = torch.zeros(3, 1, device=device, dtype=dtype, requires_grad=True)
    weight = torch.ones(words, 1, device=device, dtype=dtype, requires_grad=is_trained)
    target = torch.tensor([0, 5, words - 1], device=device)
    losses = linear_token_losses(hidden, weight, None, target, 0.1, chunk_size=2, want_best=True)
    expected = torch.full((3,), words, device=device).float().log()
    torch.testing.assert_close(losses.nll, expected)
    torch.testing.assert_close(losses.smooth / words, losses.nll)
    assert losses.best.tolist() == [0, 0, 0], "the first of equal words, as argmax takes it"
    losses.nll.sum().backward()
    torch.testing.assert_close(hidden.grad, torch.zeros_like(hidden), rtol=0, atol=1e-2)
    assert weight.grad is None or bool((weight.grad == 0).all()), "the states are zero"


def test_token_weights_and_a_second_backward_compute_the_sums_again(inputs):
    """The sums of the forward pass serve one backward pass with equal weights only."""
    hidden, weight, bias, target = inputs
    scale = torch.linspace(0.5, 2.0, target.numel(), dtype=torch.float64, device=target.device)
    scale = scale.view_as(target)
    ours, theirs = make_leaves(hidden, weight, bias), make_leaves(hidden, weight, bias)
    nll, smooth = linear_nll(*ours, target, 0.1, 4)
    slow_nll, slow_smooth = losses_of_all_logits(*theirs, target)
    weighted = nll * scale + smooth * scale**2
    slow_weighted = slow_nll * scale + slow_smooth * scale**2
    for loss, slow in ((weighted, slow_weighted), (nll, slow_nll), (nll, slow_nll)):
        gradients = torch.autograd.grad(loss.sum(), ours, retain_graph=True)
        expected = torch.autograd.grad(slow.sum(), theirs, retain_graph=True)
        torch.testing.assert_close(gradients, expected)


@pytest.mark.parametrize("is_trained", [False, True])
def test_no_tensor_of_tokens_times_vocabulary_is_made(device, is_trained):
    """Without gradients, a buffer of the weight's size is not made, either."""
    tokens, vocab, chunk = 64, 1000, 8
    hidden = torch.randn(tokens, WIDTH, device=device, requires_grad=True)
    weight = torch.randn(vocab, WIDTH, device=device, requires_grad=is_trained)
    target = torch.randint(0, vocab, (tokens,), device=device)
    with TensorSizes() as sizes:
        terms = linear_nll(hidden, weight, None, target, 0.1, chunk)
        label_smoothed(*terms, 0.1, vocab).sum().backward()
    assert sizes.largest() <= max(chunk * vocab, vocab * WIDTH)
    with torch.no_grad(), TensorSizes() as sizes:
        linear_nll(hidden, weight, None, target, 0.1, chunk_size=1)
    assert sizes.largest() < weight.numel()
