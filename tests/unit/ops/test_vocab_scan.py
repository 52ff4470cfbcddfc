"""One pass over the vocabulary against the whole projection."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.ops.vocab_scan import TOKEN_BLOCK, scan_top, scan_vocabulary
from tests.unit.ops.test_ctc import HALF, normal

VOCAB, WIDTH = 13, 4


def projections(tokens, device):
    """hidden, weight, bias, logits; with a bias and without."""
    hidden, weight, bias = (t.to(device) for t in (3 * normal(tokens, WIDTH), normal(VOCAB, WIDTH), normal(VOCAB)))
    return [(hidden, weight, used, F.linear(hidden, weight, used)) for used in (bias, None)]


@pytest.mark.parametrize("chunk_size", [1, 4, VOCAB, 50])
@pytest.mark.parametrize("tokens", [0, 1, 7, TOKEN_BLOCK + 5])
@pytest.mark.parametrize("blank", [0, 12])
def test_scan_equals_the_whole_projection(chunk_size, tokens, blank, device):
    for *inputs, logits in projections(tokens, device):
        pick = torch.randint(VOCAB, (tokens, 3), generator=torch.Generator().manual_seed(1)).to(device)
        scan = scan_vocabulary(*inputs, chunk_size=chunk_size, expected=True, blank=blank, labels=pick)
        torch.testing.assert_close(scan.label_logits, logits.gather(1, pick))
        torch.testing.assert_close(scan.log_sum_exp, logits.logsumexp(-1))
        torch.testing.assert_close(scan.expected_row, logits.softmax(-1) @ inputs[1])
        torch.testing.assert_close(scan.blank_logit, logits[:, blank])
        logits[:, blank] = -torch.inf
        torch.testing.assert_close(scan.piece_logit, logits.amax(-1))
        assert torch.equal(scan.piece, logits.argmax(-1))


def test_rising_and_falling_logits_do_not_overflow(device):
    hidden = torch.tensor([[1.0], [-1.0]], device=device)
    weight = torch.linspace(-500, 500, VOCAB, device=device)[:, None]
    scan = scan_vocabulary(hidden, weight, None, chunk_size=1, expected=True)
    assert scan.log_sum_exp.tolist() == [500.0, 500.0]
    assert scan.expected_row.flatten().tolist() == [500.0, -500.0]
    assert scan[2:] == (None,) * 4, "what was not asked for"


@pytest.mark.parametrize("chunk_size", [1, 4, VOCAB, 50])
@pytest.mark.parametrize("tokens", [0, 7, TOKEN_BLOCK + 5])
@pytest.mark.cases("blank count excluded", (0, 1, ()), (12, 3, ()), (5, 12, ()), (5, 40, ()), (5, 40, (0, 5, 7, 12)))
def test_the_likeliest_tokens_equal_those_of_the_whole_projection(chunk_size, tokens, blank, count, excluded, device):
    for *inputs, logits in projections(tokens, device):
        scan = scan_top(*inputs, count, blank, chunk_size, excluded)
        log_probs, barred = logits.log_softmax(-1), [*{blank, *excluded}]
        torch.testing.assert_close(scan.blank_log_prob, log_probs[:, blank])
        torch.testing.assert_close(scan.log_sum_exp, logits.logsumexp(-1))
        log_probs[:, barred] = -torch.inf
        expected = log_probs.topk(min(count, VOCAB - len(barred)), dim=1)
        torch.testing.assert_close(scan.log_probs, expected.values)
        assert torch.equal(scan.tokens, expected.indices)


@pytest.mark.parametrize("chunk_size", [1, 4, 5, VOCAB, 50])
@pytest.mark.parametrize("count", [1, 3, 7, 40])
def test_of_equally_likely_tokens_the_lowest_ids_are_given(chunk_size, count, device):
    generator = torch.Generator().manual_seed(5)
    weight = torch.randint(-1, 2, (3, 2), generator=generator)[torch.arange(VOCAB) % 3].double().to(device)
    hidden = torch.randint(-2, 3, (40, 2), generator=generator).double().to(device)
    logits = F.linear(hidden, weight)
    logits[:, [2, 6]] = -torch.inf
    expected = logits.argsort(dim=1, descending=True, stable=True)[:, : min(count, VOCAB - 2)]
    assert torch.equal(scan_top(hidden, weight, None, count, 2, chunk_size, excluded=(6,)).tokens, expected)


@HALF
@pytest.mark.parametrize("chunk_size", [1000, 70_000])
def test_half_precision_sums_more_words_than_its_largest_number(dtype, chunk_size, device):
    hidden = torch.tensor([[0.0, 0.0], [0.0, 20.0], [0.0, 200.0]], device=device, dtype=dtype)
    weight = torch.tensor([1.0, 0.0], device=device, dtype=dtype).repeat(70_000, 1)
    weight[7, 1] = 1.0
    scan = scan_vocabulary(hidden, weight, None, chunk_size, expected=True)
    logits = F.linear(hidden.double(), weight.double())
    torch.testing.assert_close(scan.log_sum_exp.double(), logits.logsumexp(-1), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(scan.expected_row.double(), logits.softmax(-1) @ weight.double(), rtol=1e-2, atol=1e-4)
    # Where the sum is small nothing is scaled: a share of 2^-24, the smallest float16, stays.
    weight = torch.tensor([[0.0, 0.0], [-16.64, 6e4]], device=device, dtype=dtype)
    scan = scan_vocabulary(hidden.new_tensor([[1.0, 0.0]]), weight, None, expected=True)
    expected = weight[:, 0].double().softmax(-1) @ weight.double()
    torch.testing.assert_close(scan.expected_row[0].double(), expected, rtol=2e-2, atol=1e-4)
