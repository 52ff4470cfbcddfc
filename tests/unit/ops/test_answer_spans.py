"""Losses and best spans, against loops."""

import pytest
import torch

from fairseq_plugins.ops.answer_spans import best_rows, best_spans, outside_passage, span_losses
from tests.reference.question_loops import best_answer

STARTS, LENGTHS = [3, 4, 1, 2], [5, 1, 7, 6]
WIDTH, TARGETS = 10, torch.tensor([[4, 6], [0, 0], [1, 7], [7, 7]])


def _rows(device):
    """Random logits (4, 10, 2), far higher outside of the passage; and the mask."""
    logits = torch.randn(len(STARTS), WIDTH, 2, dtype=torch.float64).to(device)
    outside = outside_passage(WIDTH, torch.tensor(STARTS, device=device), torch.tensor(LENGTHS, device=device))
    return logits + 9.0 * outside[:, :, None], outside


def _inside(row):
    return list(range(STARTS[row], STARTS[row] + LENGTHS[row]))


def test_losses_are_those_over_the_passage_and_the_first_token(device):
    """Logits of question and separators, which are far higher, get no gradient."""
    logits, outside = _rows(device)
    losses = span_losses(logits.requires_grad_(), outside, TARGETS.to(device))
    losses.sum().backward()
    for row, ends in enumerate(TARGETS.tolist()):
        assert (~outside[row]).nonzero()[:, 0].tolist() == _inside(row)
        inside = logits[row, [0, *_inside(row)]]
        expected = (inside.logsumexp(0).sum() - sum(logits[row, target, side] for side, target in enumerate(ends))) / 2
        assert losses[row].item() == pytest.approx(expected.item(), rel=1e-12)
        assert logits.grad[row].abs().sum(1).nonzero()[:, 0].tolist() == [0, *_inside(row)]


def test_padding_changes_nothing(device):
    logits, outside = _rows(device)
    wide = torch.cat([logits, 9 * torch.ones_like(logits)], dim=1)
    more = torch.cat([outside, torch.ones_like(outside)], dim=1)
    targets = TARGETS.to(device)
    assert torch.equal(span_losses(logits, outside, targets), span_losses(wide, more, targets))
    for short, long in zip(best_spans(logits, outside, 3), best_spans(wide, more, 3)):
        assert torch.equal(short, long)


@pytest.mark.parametrize("longest", [1, 2, 4, 30])
def test_best_spans_are_the_loops(longest, device):
    for _ in range(20):
        logits, outside = _rows(device)
        scores, first, last = best_spans(logits, outside, longest)
        for row in range(len(STARTS)):
            expected = best_answer([(logits[row].tolist(), STARTS[row], LENGTHS[row], STARTS[row])], longest)
            assert (first[row].item(), last[row].item()) == expected[1:]
            assert scores[row].item() == pytest.approx(expected[0], rel=1e-12)


def test_best_rows_take_the_first_of_equal_ones(device):
    scores = torch.tensor([1.0, 3.0, 3.0, -2.0, -5.0, -1.0], device=device)
    group = torch.tensor([0, 0, 0, 1, 2, 2], device=device)
    assert best_rows(scores, group, 3).tolist() == [1, 3, 5]


def test_half_precision_is_widened(device):
    """A sum of logits around 1,000 has no fraction left in bfloat16."""
    logits, outside = _rows(device)
    halves = (logits.float() + 1000).to(torch.bfloat16)
    losses = span_losses(halves, outside, TARGETS.to(device))
    assert losses.dtype == torch.float32
    assert best_spans(halves, outside, 3)[0].dtype == torch.float32
