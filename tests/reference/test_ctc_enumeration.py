"""CTC by its definition: the sum over every alignment that collapses to the target (Graves et al. 2006, Eq. 2 and 3)."""

import itertools
from typing import List, Optional, Tuple

import pytest
import torch
from torch import Tensor

from fairseq_plugins.ops.ctc import alignable, collapse, linear_ctc_with_best

VOCAB, WIDTH, SLOTS = 4, 3, 5


def collapse_path(path, blank):
    """B of Graves et al. 2006, section 3.1: merge repeated labels, then remove blanks."""
    return tuple(label for label, _ in itertools.groupby(path) if label != blank)


def enumerated_loss(logits, target, blank):
    """-ln of the sum over all V^T paths that collapse to the target of their probability; None without any such path.

    Eq. 2: p(path | x) is the product of the slots' probabilities. Eq. 3: p(labels | x) sums over the paths.
    """
    log_probs = logits.log_softmax(-1)
    total: Optional[Tensor] = None
    for path in itertools.product(range(logits.size(1)), repeat=logits.size(0)):
        if collapse_path(path, blank) != tuple(target):
            continue
        probability = torch.ones((), dtype=logits.dtype)
        for slot, label in enumerate(path):
            probability = probability * log_probs[slot, label].exp()
        total = probability if total is None else total + probability
    return None if total is None else -total.log()


CASES: List[Tuple[int, List[int]]] = [
    (5, [1, 2]),
    (5, [1, 1]),
    (5, [3, 3, 3]),
    (5, [1, 2, 1]),
    (4, [2, 3, 1, 2]),
    (3, []),
    (1, [2]),
    (4, [1, 1, 1]),
    (2, [1, 2, 3]),
]


def _batch(dtype=torch.float64):
    generator = torch.Generator().manual_seed(5)
    hidden = torch.randn(len(CASES), SLOTS, WIDTH, generator=generator, dtype=dtype)
    weight = torch.randn(VOCAB, WIDTH, generator=generator, dtype=dtype)
    bias = torch.randn(VOCAB, generator=generator, dtype=dtype)
    targets = torch.zeros(len(CASES), 4, dtype=torch.int64)
    for row, (_, labels) in enumerate(CASES):
        targets[row, : len(labels)] = torch.tensor(labels, dtype=torch.int64)
    input_lengths = torch.tensor([slots for slots, _ in CASES])
    target_lengths = torch.tensor([len(labels) for _, labels in CASES])
    return hidden, weight, bias, targets, input_lengths, target_lengths


@pytest.mark.parametrize("blank", [0, 3])
def test_loss_and_gradients_equal_the_sum_over_all_alignments(blank):
    hidden, weight, bias, targets, input_lengths, target_lengths = _batch()
    # With another blank the labels move up or down by one, so that no label is the blank.
    labels = torch.tensor([v for v in range(VOCAB) if v != blank])
    targets = labels[(targets - 1).clamp(min=0)]
    upstream = torch.linspace(0.5, 2.0, len(CASES), dtype=torch.float64)
    leaves = [tensor.clone().requires_grad_() for tensor in (hidden, weight, bias)]
    slow = [tensor.clone().requires_grad_() for tensor in (hidden, weight, bias)]

    loss, _ = linear_ctc_with_best(*leaves, targets, input_lengths, target_lengths, blank=blank, chunk_size=3)
    (loss * upstream).sum().backward()

    expected = []
    for row in range(len(CASES)):
        logits = torch.nn.functional.linear(slow[0][row, : input_lengths[row]], slow[1], slow[2])
        target = targets[row, : target_lengths[row]].tolist()
        value = enumerated_loss(logits, target, blank)
        expected.append(torch.zeros((), dtype=torch.float64) if value is None else value)
    (torch.stack(expected) * upstream).sum().backward()

    torch.testing.assert_close(loss, torch.stack(expected), rtol=1e-12, atol=1e-12)
    for fast, reference in zip(leaves, slow):
        torch.testing.assert_close(fast.grad, reference.grad, rtol=1e-11, atol=1e-12)
    # The last two cases have no alignment at all: 'a a a' in four slots, three labels in two slots.
    assert loss[-2:].tolist() == [0.0, 0.0]
    assert bool((leaves[0].grad[-2:] == 0).all())


def test_alignable_says_whether_any_alignment_exists():
    """Every target up to length 4 over two labels and a blank, in 1 to 5 slots, against the enumeration."""
    blank = 0
    for slots in range(1, 6):
        emitted = {collapse_path(path, blank) for path in itertools.product(range(3), repeat=slots)}
        targets = [labels for size in range(5) for labels in itertools.product((1, 2), repeat=size)]
        rows = torch.zeros(len(targets), 4, dtype=torch.int64)
        for row, labels in enumerate(targets):
            rows[row, : len(labels)] = torch.tensor(labels, dtype=torch.int64)
        lengths = torch.tensor([len(labels) for labels in targets])
        found = alignable(rows, torch.full((len(targets),), slots), lengths, blank)
        assert found.tolist() == [labels in emitted for labels in targets]


@pytest.mark.parametrize("blank", [0, 2])
def test_collapse_equals_the_definition_on_every_path(blank):
    """All 3^5 paths, each at every length from 0 to 5."""
    paths = list(itertools.product(range(3), repeat=5))
    for length in range(6):
        tokens = torch.tensor(paths)
        labels, counts = collapse(tokens, torch.full((len(paths),), length), blank, pad=7)
        for path, row, count in zip(paths, labels.tolist(), counts.tolist()):
            expected = list(collapse_path(path[:length], blank))
            assert row == expected + [7] * (len(row) - count) and count == len(expected)
    assert [part.numel() for part in collapse(tokens[:0], torch.full((0,), 3), blank)] == [0, 0]
