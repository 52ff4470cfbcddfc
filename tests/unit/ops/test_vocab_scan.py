"""Test the pass over the vocabulary in chunks against the whole projection."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.ops.vocab_scan import TOKEN_BLOCK, scan_top, scan_vocabulary
from tests.unit.ops.builders import HALF, normal

VOCAB, WIDTH = 13, 4


def make_projections(tokens, device):
    """Draw hidden, weight, bias and logits; with a bias and without."""
    tensors = 3 * normal(tokens, WIDTH), normal(VOCAB, WIDTH), normal(VOCAB)
    hidden, weight, bias = (tensor.to(device) for tensor in tensors)
    return [(hidden, weight, offset, F.linear(hidden, weight, offset)) for offset in (bias, None)]


def test_rising_and_falling_logits_do_not_overflow(device):
    hidden = torch.tensor([[1.0], [-1.0]], device=device)
    weight = torch.linspace(-500, 500, VOCAB, device=device)[:, None]
    scan = scan_vocabulary(hidden, weight, None, chunk_size=1, expected=True)
    assert scan.log_sum_exp.tolist() == [500.0, 500.0]
    assert scan.expected_row.flatten().tolist() == [500.0, -500.0]
    assert scan[2:] == (None,) * 4, "labels and blank were not requested"


@pytest.mark.parametrize("chunk_size", [1, 4, VOCAB, 50])
@pytest.mark.parametrize("tokens", [0, 7, TOKEN_BLOCK + 5])
@pytest.mark.cases(
    "blank count excluded", (0, 1, ()), (12, 3, ()), (5, 40, ()), (5, 40, (0, 5, 7, 12))
)
def test_the_likeliest_tokens_equal_those_of_the_whole_projection(
    chunk_size, tokens, blank, count, excluded, device
):
    for *inputs, logits in make_projections(tokens, device):
        scan = scan_top(*inputs, count, blank, chunk_size, excluded)
        log_probs, hidden_ids = logits.log_softmax(-1), [*{blank, *excluded}]
        torch.testing.assert_close(scan.blank_log_prob, log_probs[:, blank])
        torch.testing.assert_close(scan.log_sum_exp, logits.logsumexp(-1))
        log_probs[:, hidden_ids] = -torch.inf
        expected = log_probs.topk(min(count, VOCAB - len(hidden_ids)), dim=1)
        torch.testing.assert_close(scan.log_probs, expected.values)
        assert torch.equal(scan.tokens, expected.indices)


@pytest.mark.parametrize("chunk_size", [1, 4, VOCAB, 50])
@pytest.mark.parametrize("count", [1, 3, 40])
def test_the_lowest_ids_of_equally_likely_tokens_come_first(chunk_size, count, device):
    generator = torch.Generator().manual_seed(5)
    weight = torch.randint(-1, 2, (3, 2), generator=generator)[torch.arange(VOCAB) % 3].double()
    hidden = torch.randint(-2, 3, (40, 2), generator=generator).double().to(device)
    logits = F.linear(hidden, weight.to(device))
    logits[:, [2, 6]] = -torch.inf
    order = logits.argsort(dim=1, descending=True, stable=True)
    scan = scan_top(hidden, weight.to(device), None, count, 2, chunk_size, excluded=(6,))
    assert torch.equal(scan.tokens, order[:, : min(count, VOCAB - 2)])


@HALF
@pytest.mark.parametrize("chunk_size", [1000, 70_000])
def test_half_precision_has_room_for_70000_words(dtype, chunk_size, device):
    """Their sum exceeds 65,504; a share of 2^-24, the smallest of float16, stays."""
    options = {"device": device, "dtype": dtype}
    hidden = torch.tensor([[0.0, 0.0], [0.0, 20.0], [0.0, 200.0]], **options)
    weight = torch.tensor([1.0, 0.0], **options).repeat(70_000, 1)
    weight[7, 1] = 1.0
    scan = scan_vocabulary(hidden, weight, None, chunk_size, expected=True)
    logits = F.linear(hidden.double(), weight.double())
    expected = logits.softmax(-1) @ weight.double()
    sums = logits.logsumexp(-1)
    torch.testing.assert_close(scan.log_sum_exp.double(), sums, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(scan.expected_row.double(), expected, rtol=1e-2, atol=1e-4)
    weight = torch.tensor([[0.0, 0.0], [-16.64, 6e4]], **options)
    scan = scan_vocabulary(hidden.new_tensor([[1.0, 0.0]]), weight, None, expected=True)
    expected = weight[:, 0].double().softmax(-1) @ weight.double()
    torch.testing.assert_close(scan.expected_row[0].double(), expected, rtol=2e-2, atol=1e-4)
