"""One pass over the vocabulary against the whole projection."""

from typing import Optional

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.ops.vocab_scan import TOKEN_BLOCK, scan_top, scan_vocabulary

VOCAB, WIDTH = 13, 4


@pytest.mark.parametrize("chunk_size", [1, 4, VOCAB, 50])
@pytest.mark.parametrize("tokens", [0, 1, 7, TOKEN_BLOCK + 5])
@pytest.mark.parametrize("blank", [0, 12])
def test_scan_equals_the_whole_projection(chunk_size, tokens, blank, device):
    generator = torch.Generator().manual_seed(1)
    hidden = (3 * torch.randn(tokens, WIDTH, generator=generator, dtype=torch.float64)).to(device)
    weight = torch.randn(VOCAB, WIDTH, generator=generator, dtype=torch.float64).to(device)
    bias: Optional[torch.Tensor] = torch.randn(VOCAB, generator=generator, dtype=torch.float64).to(device)
    for used in (bias, None):
        logits = F.linear(hidden, weight, used)
        pick = torch.randint(VOCAB, (tokens, 3), generator=generator).to(device)
        scan = scan_vocabulary(hidden, weight, used, chunk_size=chunk_size, expected=True, blank=blank, pick=pick)
        torch.testing.assert_close(scan.picked, logits.gather(1, pick))
        torch.testing.assert_close(scan.log_sum_exp, logits.logsumexp(-1))
        torch.testing.assert_close(scan.expected_row, logits.softmax(-1) @ weight)
        torch.testing.assert_close(scan.blank_logit, logits[:, blank])
        others = logits.clone()
        others[:, blank] = -torch.inf
        torch.testing.assert_close(scan.piece_logit, others.amax(-1))
        assert torch.equal(scan.piece, others.argmax(-1))


def test_fields_that_were_not_asked_for_are_none():
    scan = scan_vocabulary(torch.ones(2, WIDTH), torch.ones(VOCAB, WIDTH), None)
    assert scan[1:] == (None,) * 5


def test_rising_and_falling_logits_do_not_overflow(device):
    """The running maximum moves from chunk to chunk by hundreds, upwards and downwards."""
    hidden = torch.tensor([[1.0], [-1.0]], device=device)
    weight = torch.linspace(-500, 500, VOCAB, device=device)[:, None]
    scan = scan_vocabulary(hidden, weight, None, chunk_size=1, expected=True)
    assert scan.log_sum_exp.tolist() == [500.0, 500.0]
    assert scan.expected_row.flatten().tolist() == [500.0, -500.0]


@pytest.mark.parametrize("chunk_size", [1, 4, VOCAB, 50])
@pytest.mark.parametrize("tokens", [0, 7, TOKEN_BLOCK + 5])
@pytest.mark.parametrize(("blank", "count"), [(0, 1), (12, 3), (5, VOCAB - 1), (5, 40)])
def test_the_likeliest_tokens_equal_those_of_the_whole_projection(chunk_size, tokens, blank, count, device):
    generator = torch.Generator().manual_seed(2)
    hidden = (3 * torch.randn(tokens, WIDTH, generator=generator, dtype=torch.float64)).to(device)
    weight = torch.randn(VOCAB, WIDTH, generator=generator, dtype=torch.float64).to(device)
    bias: Optional[torch.Tensor] = torch.randn(VOCAB, generator=generator, dtype=torch.float64).to(device)
    for used in (bias, None):
        log_probs = F.linear(hidden, weight, used).log_softmax(-1)
        scan = scan_top(hidden, weight, used, count, blank, chunk_size)
        torch.testing.assert_close(scan.blank_log_prob, log_probs[:, blank])
        torch.testing.assert_close(scan.log_sum_exp, F.linear(hidden, weight, used).logsumexp(-1))
        log_probs[:, blank] = -torch.inf
        expected = log_probs.topk(min(count, VOCAB - 1), dim=1)
        torch.testing.assert_close(scan.log_probs, expected.values)
        assert torch.equal(scan.tokens, expected.indices)


@pytest.mark.parametrize("chunk_size", [1, 4, 5, VOCAB, 50])
@pytest.mark.parametrize("count", [1, 3, 7, 40])
def test_of_equally_likely_tokens_the_lowest_ids_are_given(chunk_size, count, device):
    """In their order, whatever the chunks; the ids of equal ones lie in different chunks."""
    generator = torch.Generator().manual_seed(5)
    weight = torch.randint(-1, 2, (3, 2), generator=generator)[torch.arange(VOCAB) % 3].double().to(device)
    hidden = torch.randint(-2, 3, (40, 2), generator=generator).double().to(device)
    logits = F.linear(hidden, weight)
    logits[:, [2, 6]] = -torch.inf
    expected = logits.argsort(dim=1, descending=True, stable=True)[:, : min(count, VOCAB - 2)]
    scan = scan_top(hidden, weight, None, count, 2, chunk_size, excluded=(6,))
    assert torch.equal(scan.tokens, expected)
    torch.testing.assert_close(scan.log_probs, F.linear(hidden, weight).log_softmax(-1).gather(1, expected))


@pytest.mark.parametrize("chunk_size", [1, 4, 50])
@pytest.mark.parametrize("count", [3, 40])
def test_excluded_tokens_keep_their_probability_and_are_never_given(chunk_size, count, device):
    generator = torch.Generator().manual_seed(4)
    hidden = (3 * torch.randn(9, WIDTH, generator=generator, dtype=torch.float64)).to(device)
    weight = torch.randn(VOCAB, WIDTH, generator=generator, dtype=torch.float64).to(device)
    barred = [5, 0, 7, VOCAB - 1]
    log_probs = F.linear(hidden, weight).log_softmax(-1)
    scan = scan_top(hidden, weight, None, count, 5, chunk_size, excluded=(0, 5, 7, VOCAB - 1))
    log_probs[:, barred] = -torch.inf
    expected = log_probs.topk(min(count, VOCAB - 4), dim=1)
    torch.testing.assert_close(scan.log_probs, expected.values)
    assert torch.equal(scan.tokens, expected.indices)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("chunk_size", [1000, 70_000])
def test_half_precision_sums_more_words_than_its_largest_number(dtype, chunk_size, device):
    """float16 ends at 65,504; the second token has one likely word, the third no other word at all."""
    words = 70_000
    hidden = torch.tensor([[0.0, 0.0], [0.0, 20.0], [0.0, 200.0]], device=device, dtype=dtype)
    weight = torch.ones(words, 2, device=device, dtype=dtype)
    weight[:, 1] = 0.0
    weight[7, 1] = 1.0
    scan = scan_vocabulary(hidden, weight, None, chunk_size, expected=True)
    logits = F.linear(hidden.double(), weight.double())
    torch.testing.assert_close(scan.log_sum_exp.double(), logits.logsumexp(-1), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(scan.expected_row.double(), logits.softmax(-1) @ weight.double(), rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_projected_in_float32(dtype, device):
    generator = torch.Generator().manual_seed(6)
    hidden, weight, bias = (
        torch.randn(*shape, generator=generator).to(device, dtype) for shape in ((6, WIDTH), (VOCAB, WIDTH), (VOCAB,))
    )
    log_probs = F.linear(hidden.double(), weight.double(), bias.double()).log_softmax(-1)
    scan = scan_top(hidden, weight, bias, 3, 0, chunk_size=4)
    assert scan.log_probs.dtype == torch.float32
    torch.testing.assert_close(scan.log_probs.double(), log_probs[:, 1:].topk(3, dim=1).values, rtol=0, atol=1e-5)
    torch.testing.assert_close(scan.blank_log_prob.double(), log_probs[:, 0], rtol=0, atol=1e-5)
