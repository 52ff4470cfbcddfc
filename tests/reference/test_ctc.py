"""CTC by its definition, the sum over every alignment (Graves et al. 2006, Eq. 2 and 3): loss, collapse, prefix beam search."""

import itertools
import math
from collections import defaultdict

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.ops.ctc import alignable, collapse, linear_ctc_loss
from fairseq_plugins.sga.extensions.prefix_beam import linear_prefix_beam, prefix_beam_search

IMPOSSIBLE = -math.inf


def collapse_path(path, blank):
    """B of Graves et al. 2006, section 3.1: merge repeated labels, then remove blanks."""
    return tuple(label for label, _ in itertools.groupby(path) if label != blank)


def enumerated(log_probs, blank):
    """Log-probability (Eq. 3) of every output of (T, V): the sum over all V^T paths that collapse to it of p(path), Eq. 2."""
    slots, found = torch.arange(len(log_probs)), defaultdict(list)
    for path in itertools.product(range(log_probs.size(1)), repeat=len(log_probs)):
        found[collapse_path(path, blank)].append(path)
    return {labels: log_probs[slots, torch.tensor(paths)].sum(1).logsumexp(0) for labels, paths in found.items()}


def normal(*shape, seed=3):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("blank", [0, 3])
@pytest.mark.parametrize("slots", [1, 2, 5])
def test_loss_and_gradients_equal_the_sum_over_all_alignments(slots, blank):
    """Of every output that the slots have."""
    fast, slow = ([normal(*shape).requires_grad_() for shape in ((1, slots, 3), (4, 3), (4,))] for _ in range(2))
    expected = enumerated(F.linear(slow[0][0], *slow[1:]).log_softmax(-1), blank)
    sizes = torch.tensor([len(labels) for labels in expected])
    targets = torch.tensor([[*labels] + [9] * (slots - len(labels)) for labels in expected])
    upstream = torch.linspace(0.5, 2.0, len(sizes), dtype=torch.float64)
    lengths = torch.full_like(sizes, slots)
    hidden = fast[0].expand(len(sizes), -1, -1)
    loss = linear_ctc_loss(hidden, *fast[1:], targets, lengths, sizes, blank=blank, chunk_size=3)
    wanted = -torch.stack([*expected.values()])
    torch.testing.assert_close(loss, wanted, rtol=1e-12, atol=1e-12)
    (loss @ upstream).backward()
    (wanted @ upstream).backward()
    for ours, theirs in zip(fast, slow):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-11, atol=1e-12)


def test_alignable_says_whether_any_alignment_exists():
    """Every target up to length 4 over two labels and a blank, in 1 to 5 slots, against the enumeration."""
    targets = [labels for size in range(5) for labels in itertools.product((1, 2), repeat=size)]
    rows = torch.tensor([[*labels] + [0] * (4 - len(labels)) for labels in targets])
    sizes = torch.tensor([len(labels) for labels in targets])
    for slots in range(1, 6):
        emitted = {collapse_path(path, 0) for path in itertools.product(range(3), repeat=slots)}
        found = alignable(rows, torch.full_like(sizes, slots), sizes, 0)
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


def textbook(log_probs, blank, size, candidates, bonus):
    """Algorithm 1 of Hannun et al. 2014 without a language model, over the ``candidates`` best labels of each slot.

    Each label counts e^bonus times as much (word insertion). p_b and p_nb of a prefix: the probability of its alignments that
    end with a blank, or with its last label.
    """
    beam = {(): (1.0, 0.0)}
    for row in log_probs.exp().tolist():
        labels = sorted((label for label in range(len(row)) if label != blank), key=lambda label: -row[label])
        p_b, p_nb, more = defaultdict(float), defaultdict(float), math.exp(bonus)
        for prefix, (ends_blank, ends_label) in beam.items():
            p_b[prefix] += row[blank] * (ends_blank + ends_label)
            for label in labels[:candidates]:
                if prefix and label == prefix[-1]:
                    p_nb[prefix] += row[label] * ends_label
                    p_nb[(*prefix, label)] += more * row[label] * ends_blank
                else:
                    p_nb[(*prefix, label)] += more * row[label] * (ends_blank + ends_label)
        totals = {prefix: p_b[prefix] + p_nb[prefix] for prefix in {*p_b, *p_nb}}
        best = sorted(totals, key=lambda prefix: -totals[prefix])[:size]
        beam = {prefix: (p_b[prefix], p_nb[prefix]) for prefix in best if totals[prefix] > 0}
    return [(prefix, math.log(sum(ends))) for prefix, ends in beam.items()]


def search(log_probs, lengths, size, candidates, blank, bonus):
    """The fast search over given distributions (B, T, V)."""
    others = log_probs.clone()
    others[:, :, blank] = IMPOSSIBLE
    best = others.topk(candidates, dim=2)
    given = best.values, best.indices, log_probs[:, :, blank], torch.tensor(lengths)
    found = prefix_beam_search(*given, size, blank, bonus)
    return [as_pairs(found, row) for row in range(len(lengths))]


def as_pairs(found, row):
    """Outputs of one sentence that exist."""
    labels, lengths, scores = (part[row].tolist() for part in found)
    return [(tuple(line[:length]), score) for line, length, score in zip(labels, lengths, scores) if score > IMPOSSIBLE]


def compare(found, expected, tolerance=1e-12):
    """Outputs in their order, and scores."""
    assert [labels for labels, _ in found] == [labels for labels, _ in expected]
    assert [score for _, score in found] == pytest.approx([float(score) for _, score in expected], abs=tolerance)


@pytest.mark.parametrize(("size", "candidates"), [(1, 1), (2, 1), (2, 4), (3, 2), (5, 3), (8, 4)])
@pytest.mark.parametrize(("sharpness", "bonus"), [(1.5, 0.0), (30.0, 0.0), (1.5, 0.7), (1.5, -0.4)])
def test_a_beam_that_is_too_small_prunes_as_the_textbook_does(size, candidates, sharpness, bonus):
    """Sharp distributions: what is impossible must stay behind outputs of e^-100 and less."""
    slots = [7, 4, 9, 1, 2]
    log_probs = (sharpness * normal(5, 9, 5, seed=size)).log_softmax(-1)
    for row, found in enumerate(search(log_probs, slots, size, candidates, 1, bonus)):
        compare(found, textbook(log_probs[row, : slots[row]], 1, size, candidates, bonus))


@pytest.mark.parametrize("chunk_size", [3, 50])
@pytest.mark.parametrize(("bias", "bonus"), [(True, 0.0), (False, 0.0), (True, 1.5)])
def test_scores_of_the_projection_are_those_of_the_loss(chunk_size, bias, bonus, device):
    """After pruning too: -CTC loss of each output, over all its alignments."""
    hidden, weight, offset = (tensor.to(device) for tensor in (normal(3, 6, 4), 1.5 * normal(7, 4), normal(7)))
    lengths, projection = torch.tensor([6, 2, 5], device=device), (hidden, weight, offset if bias else None)
    found = linear_prefix_beam(*projection, lengths, blank=2, size=4, candidates=2, chunk_size=chunk_size, bonus=bonus)
    for number in range(4):
        loss = linear_ctc_loss(*projection, found.labels[:, number], lengths, found.lengths[:, number], blank=2)
        torch.testing.assert_close(found.scores[:, number], -loss, rtol=1e-12, atol=1e-12)
    assert bool(((found.scores + bonus * found.lengths).diff(dim=1) <= 0).all())
    assert bool((found.scores.diff(dim=1) <= 0).all()) == (bonus == 0), "the order should depend on the bonus"
    assert [len({labels for labels, _ in as_pairs(found, row)}) for row in range(3)] == [4] * 3


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.cases("dtype tolerance", (torch.float64, 1e-11), (torch.bfloat16, 1e-4), (torch.float16, 1e-4))
@pytest.mark.parametrize("excluded", [(), (2,)])
def test_the_projection_gives_the_probabilities_of_its_own_numbers(dtype, tolerance, bias, excluded, device):
    """Half precision: rounded logits, or a mixture of rounded and others, would be off by a hundredth.

    Excluded labels are in no output, and the others keep their probability.
    """
    hidden, weight, offset = (t.to(dtype) for t in (2 * normal(2, 4, 8), normal(4, 8, seed=4), 5 + normal(4)))
    projection, lengths = [hidden, weight, offset if bias else None], [4, 3]
    given = [None if tensor is None else tensor.to(device) for tensor in (*projection, torch.tensor(lengths))]
    found = linear_prefix_beam(*given, blank=0, size=130, candidates=99, chunk_size=3, excluded=excluded)
    assert found.scores.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    for row, count in enumerate(lengths):
        logits = F.linear(hidden[row, :count].double(), weight.double(), offset.double() if bias else None)
        outputs = enumerated(logits.log_softmax(-1), 0)
        expected = {labels: score for labels, score in outputs.items() if not {*excluded} & {*labels}}
        pairs = dict(as_pairs(found, row))
        assert pairs == {labels: pytest.approx(float(score), abs=tolerance) for labels, score in expected.items()}
