"""Test CTC against its definition, the sum over all alignments: loss, collapse, beam search.

Source: Graves et al. 2006, Eq. 2 and 3.
"""

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
    """Merge repeated labels, then remove blanks: B of Graves et al. 2006, section 3.1."""
    return tuple(label for label, _ in itertools.groupby(path) if label != blank)


def enumerate_outputs(log_probs, blank):
    """Return the log-probability (Eq. 3) of every output of (T, V).

    It sums p(path), Eq. 2, over all of the V^T paths that collapse to the output.
    """
    slots, paths_of = torch.arange(len(log_probs)), defaultdict(list)
    for path in itertools.product(range(log_probs.size(1)), repeat=len(log_probs)):
        paths_of[collapse_path(path, blank)].append(path)
    return {
        labels: log_probs[slots, torch.tensor(paths)].sum(1).logsumexp(0)
        for labels, paths in paths_of.items()
    }


def normal(*shape, seed=3):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.cases("slots blank", (1, 0), (2, 3), (5, 0), (5, 3))
def test_loss_and_gradients_equal_the_sum_over_all_alignments(slots, blank):
    """Take every output of the slots as a target."""
    shapes = (1, slots, 3), (4, 3), (4,)
    fast, slow = ([normal(*shape).requires_grad_() for shape in shapes] for _ in range(2))
    logits = F.linear(slow[0][0], *slow[1:])
    outputs = enumerate_outputs(logits.log_softmax(-1), blank)
    sizes = torch.tensor([len(labels) for labels in outputs])
    targets = torch.tensor([[*labels] + [9] * (slots - len(labels)) for labels in outputs])
    upstream = torch.linspace(0.5, 2.0, len(sizes), dtype=torch.float64)
    lengths = torch.full_like(sizes, slots)
    hidden = fast[0].expand(len(sizes), -1, -1)
    loss = linear_ctc_loss(hidden, *fast[1:], targets, lengths, sizes, blank=blank, chunk_size=3)
    expected = -torch.stack([*outputs.values()])
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    (loss @ upstream).backward()
    (expected @ upstream).backward()
    for ours, theirs in zip(fast, slow):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-11, atol=1e-12)


def test_a_target_is_alignable_if_any_alignment_exists():
    """Try every target up to length 4 over two labels and a blank, in 1 to 5 slots."""
    targets = [labels for size in range(5) for labels in itertools.product((1, 2), repeat=size)]
    rows = torch.tensor([[*labels] + [0] * (4 - len(labels)) for labels in targets])
    sizes = torch.tensor([len(labels) for labels in targets])
    for slots in range(1, 6):
        outputs = {collapse_path(path, 0) for path in itertools.product(range(3), repeat=slots)}
        is_alignable = alignable(rows, torch.full_like(sizes, slots), sizes, 0)
        assert is_alignable.tolist() == [labels in outputs for labels in targets]


@pytest.mark.parametrize("blank", [0, 2])
def test_collapse_equals_the_definition_on_every_path(blank):
    """Try all 3^5 paths, each at every length from 0 to 5."""
    paths = list(itertools.product(range(3), repeat=5))
    for length in range(6):
        tokens = torch.tensor(paths)
        labels, counts = collapse(tokens, torch.full((len(paths),), length), blank, pad=7)
        for path, row, count in zip(paths, labels.tolist(), counts.tolist()):
            expected = list(collapse_path(path[:length], blank))
            assert row == expected + [7] * (len(row) - count) and count == len(expected)
    empty = collapse(tokens[:0], torch.full((0,), 3), blank)
    assert [part.numel() for part in empty] == [0, 0]


def search_slowly(log_probs, blank, size, candidates, bonus):
    """Run algorithm 1 of Hannun et al. 2014 over the ``candidates`` best labels of each slot.

    There is no language model; each label counts e^bonus times as much (word insertion). p_b and
    p_nb of a prefix are the probabilities of its alignments that end with a blank, or with its last
    label.
    """
    beam = {(): (1.0, 0.0)}
    for row in log_probs.exp().tolist():
        labels = [label for label in range(len(row)) if label != blank]
        labels.sort(key=lambda label: -row[label])
        p_b, p_nb, factor = defaultdict(float), defaultdict(float), math.exp(bonus)
        for prefix, (ends_blank, ends_label) in beam.items():
            p_b[prefix] += row[blank] * (ends_blank + ends_label)
            for label in labels[:candidates]:
                if prefix and label == prefix[-1]:
                    p_nb[prefix] += row[label] * ends_label
                    p_nb[(*prefix, label)] += factor * row[label] * ends_blank
                else:
                    p_nb[(*prefix, label)] += factor * row[label] * (ends_blank + ends_label)
        totals = {prefix: p_b[prefix] + p_nb[prefix] for prefix in {*p_b, *p_nb}}
        best = sorted(totals, key=lambda prefix: -totals[prefix])[:size]
        beam = {prefix: (p_b[prefix], p_nb[prefix]) for prefix in best if totals[prefix] > 0}
    return [(prefix, math.log(sum(ends))) for prefix, ends in beam.items()]


def search(log_probs, lengths, size, candidates, blank, bonus):
    """Run the fast search over distributions (B, T, V)."""
    without_blank = log_probs.clone()
    without_blank[:, :, blank] = IMPOSSIBLE
    best = without_blank.topk(candidates, dim=2)
    lengths = torch.tensor(lengths)
    beam = prefix_beam_search(
        best.values, best.indices, log_probs[:, :, blank], lengths, size, blank, bonus
    )
    return [list_outputs(beam, row) for row in range(len(lengths))]


def list_outputs(beam, row):
    """List labels and score of each possible output of a sentence."""
    labels, lengths, scores = (part[row].tolist() for part in beam)
    return [
        (tuple(line[:length]), score)
        for line, length, score in zip(labels, lengths, scores)
        if score > IMPOSSIBLE
    ]


@pytest.mark.parametrize(("size", "candidates"), [(1, 1), (2, 4), (3, 2), (8, 4)])
@pytest.mark.parametrize(("sharpness", "bonus"), [(30.0, 0.0), (1.5, 0.7), (1.5, -0.4)])
def test_a_small_beam_prunes_as_the_published_algorithm_does(size, candidates, sharpness, bonus):
    """Use sharp distributions: impossible outputs must rank below outputs of e^-100 and less."""
    slots = [7, 4, 9, 1, 2]
    log_probs = (sharpness * normal(5, 9, 5, seed=size)).log_softmax(-1)
    for row, outputs in enumerate(search(log_probs, slots, size, candidates, 1, bonus)):
        expected = search_slowly(log_probs[row, : slots[row]], 1, size, candidates, bonus)
        assert [labels for labels, _ in outputs] == [labels for labels, _ in expected]
        scores = [score for _, score in expected]
        assert [score for _, score in outputs] == pytest.approx(scores, abs=1e-12)


@pytest.mark.cases("chunk_size bias bonus", (3, False, 0.0), (50, True, 0.0), (3, True, 1.5))
def test_beam_scores_are_negative_ctc_losses(chunk_size, bias, bonus, device):
    """Compare after pruning: the loss sums over all alignments of an output."""
    tensors = normal(3, 6, 4), 1.5 * normal(7, 4), normal(7)
    hidden, weight, offset = (tensor.to(device) for tensor in tensors)
    projection = hidden, weight, offset if bias else None
    lengths = torch.tensor([6, 2, 5], device=device)
    beam = linear_prefix_beam(
        *projection,
        lengths,
        blank=2,
        size=4,
        candidates=2,
        chunk_size=chunk_size,
        bonus=bonus,
    )
    for number in range(4):
        labels, label_lengths = beam.labels[:, number], beam.lengths[:, number]
        loss = linear_ctc_loss(*projection, labels, lengths, label_lengths, blank=2)
        torch.testing.assert_close(beam.scores[:, number], -loss, rtol=1e-12, atol=1e-12)
    assert bool(((beam.scores + bonus * beam.lengths).diff(dim=1) <= 0).all())
    assert bool((beam.scores.diff(dim=1) <= 0).all()) == (bonus == 0)
    for row in range(3):
        assert len({labels for labels, _ in list_outputs(beam, row)}) == 4


@pytest.mark.cases(
    "dtype tolerance bias excluded",
    (torch.float64, 1e-11, True, ()),
    (torch.float64, 1e-11, False, (2,)),
    (torch.bfloat16, 1e-4, True, (2,)),
    (torch.bfloat16, 1e-4, False, ()),
    (torch.float16, 1e-4, True, ()),
)
def test_a_wide_beam_gives_all_outputs_their_probability(dtype, tolerance, bias, excluded, device):
    """Compare half precision, too: rounded logits would be off by a hundredth.

    Excluded labels are in no output, and the other outputs keep their probability.
    """
    tensors = 2 * normal(2, 4, 8), normal(4, 8, seed=4), 5 + normal(4)
    hidden, weight, offset = (tensor.to(dtype) for tensor in tensors)
    lengths = [4, 3]
    beam = linear_prefix_beam(
        hidden.to(device),
        weight.to(device),
        offset.to(device) if bias else None,
        torch.tensor(lengths, device=device),
        blank=0,
        size=130,
        candidates=99,
        chunk_size=3,
        excluded=excluded,
    )
    assert beam.scores.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    for row, length in enumerate(lengths):
        logits = hidden[row, :length].double() @ weight.double().T
        logits = logits + offset.double() if bias else logits
        expected = {
            labels: pytest.approx(float(score), abs=tolerance)
            for labels, score in enumerate_outputs(logits.log_softmax(-1), 0).items()
            if not {*excluded} & {*labels}
        }
        assert dict(list_outputs(beam, row)) == expected
