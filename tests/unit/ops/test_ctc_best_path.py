"""Best path of CTC slots against argmax over materialised logits; collapse."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.ops.ctc import collapse, linear_best_path, linear_ctc_loss, linear_ctc_with_best
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


def test_best_path_can_be_left_out():
    inputs = case(torch.device("cpu"))
    loss, best = linear_ctc_with_best(*inputs, blank=BLANK, want_best=False)
    assert best is None
    torch.testing.assert_close(loss, linear_ctc_loss(*inputs, blank=BLANK))


# ---- Collapse. ----


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        ([5, 5, 0, 5, 6, 6, 0, 0], [5, 5, 6]),
        ([0, 0, 0, 0, 0, 0, 0, 0], []),
        ([5, 5, 5, 5, 5, 5, 5, 5], [5]),
        ([5, 0, 5, 0, 5, 0, 5, 0], [5, 5, 5, 5]),
        ([1, 2, 3, 2, 1, 2, 2, 0], [1, 2, 3, 2, 1, 2]),
        ([0, 7, 0, 0, 7, 7, 0, 8], [7, 7, 8]),
    ],
)
def test_collapse_by_hand(slots, expected, device):
    tokens, lengths = collapse(torch.tensor([slots], device=device), torch.tensor([8], device=device), blank=0)
    assert tokens.tolist() == [expected]
    assert lengths.tolist() == [len(expected)]


def test_collapse_pads_ignores_what_lies_behind_and_takes_any_blank(device):
    slots = torch.tensor([[3, 3, 1, 3, 2, 2], [2, 1, 2, 9, 9, 9], [8, 8, 8, 8, 8, 8]], device=device)
    tokens, lengths = collapse(slots, torch.tensor([6, 3, 0], device=device), blank=1, pad=7)
    assert tokens.tolist() == [[3, 3, 2], [2, 2, 7], [7, 7, 7]]
    assert lengths.tolist() == [3, 2, 0]
    tokens, _ = collapse(slots, torch.tensor([6, 3, 0], device=device), blank=1)
    assert tokens.tolist() == [[3, 3, 2], [2, 2, 1], [1, 1, 1]]
    tokens, lengths = collapse(slots, torch.tensor([0, 0, 0], device=device), blank=1)
    assert tokens.shape == (3, 0)
    assert lengths.tolist() == [0, 0, 0]
