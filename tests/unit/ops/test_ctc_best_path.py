"""Best path of CTC slots against argmax over materialised logits."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.ops.ctc import linear_best_path, linear_ctc_with_best
from tests.unit.ops.test_ctc import BLANK, CHUNKS, VOCAB, case


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("blank", [0, BLANK, VOCAB - 1])
def test_best_path_is_argmax_and_pieces_are_the_best_without_the_blank(chunk_size, blank, device):
    inputs = case(device)
    bias = inputs.bias.clone()
    bias[blank] += 3  # the blank wins in many slots, as it does in a trained model
    lengths = inputs.input_lengths
    log_probs = F.linear(inputs.hidden, inputs.weight, bias).log_softmax(-1)
    inside = torch.arange(9, device=device) < lengths[:, None]
    without_blank = log_probs.clone()
    without_blank[..., blank] = -torch.inf
    targets = torch.zeros_like(inputs.targets).fill_((blank + 1) % VOCAB)
    _, fused = linear_ctc_with_best(
        inputs.hidden, inputs.weight, bias, targets, lengths, lengths.new_ones(7), blank=blank, chunk_size=chunk_size
    )
    path = linear_best_path(inputs.hidden, inputs.weight, bias, lengths, blank=blank, chunk_size=chunk_size)
    for found in (fused, path):
        expected = log_probs.argmax(-1)
        assert 0 < int((expected[inside] == blank).sum()) < int(inside.sum())
        assert torch.equal(found.tokens[inside], expected[inside])
        assert torch.equal(found.pieces[inside], without_blank.argmax(-1)[inside])
        torch.testing.assert_close(found.log_probs[inside], log_probs.max(-1).values[inside])
        assert bool((found.tokens[~inside] == blank).all())
        assert bool((found.log_probs[~inside] == 0).all())


@pytest.mark.parametrize("chunk_size", CHUNKS)
@pytest.mark.parametrize("blank", [0, BLANK, VOCAB - 1])
def test_of_equal_logits_the_lowest_id_is_the_best(chunk_size, blank, device):
    """As argmax over the whole row takes it, the blank's included; half-precision logits are often equal."""
    generator = torch.Generator().manual_seed(3)
    weight = torch.randint(-1, 2, (3, 2), generator=generator)[torch.arange(VOCAB) % 3].double().to(device)
    hidden = torch.randint(-2, 3, (4, 9, 2), generator=generator).double().to(device)
    logits = F.linear(hidden, weight)
    expected = logits.argmax(-1)
    path = linear_best_path(hidden, weight, None, torch.full((4,), 9, device=device), blank, chunk_size)
    assert torch.equal(path.tokens, expected)
    logits[..., blank] = -torch.inf
    assert torch.equal(path.pieces, logits.argmax(-1))
    assert len(expected.unique()) > 1
