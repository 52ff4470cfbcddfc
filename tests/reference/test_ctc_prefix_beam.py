"""CTC prefix beam search against the enumeration of all alignments, and against the textbook's recursion with its pruning."""

import itertools
import math
from collections import defaultdict
from typing import Dict, Tuple

import pytest
import torch
import torch.nn.functional as F

from fairseq_plugins.ops.ctc import linear_ctc_with_best
from fairseq_plugins.ops.ctc_prefix_beam import linear_prefix_beam, prefix_beam_search
from tests.reference.test_ctc_enumeration import collapse_path

Labels = Tuple[int, ...]
IMPOSSIBLE = -math.inf


def enumerated(log_probs, blank):
    """Log-probability of every output: the sum over the alignments that collapse to it (Graves et al. 2006, Eq. 3)."""
    table = log_probs.tolist()
    found: Dict[Labels, float] = defaultdict(float)
    for path in itertools.product(range(log_probs.size(1)), repeat=log_probs.size(0)):
        found[collapse_path(path, blank)] += math.exp(sum(row[label] for row, label in zip(table, path)))
    return {labels: math.log(probability) for labels, probability in found.items()}


def textbook(log_probs, blank, size, candidates):
    """Algorithm 1 of Hannun et al. 2014 without a language model, over the ``candidates`` best labels of each slot.

    p_b and p_nb of a prefix: the probability of its alignments that end with a blank, or with its last label.
    """
    beam: Dict[Labels, Tuple[float, float]] = {(): (1.0, 0.0)}
    for row in log_probs.exp().tolist():
        labels = sorted((label for label in range(len(row)) if label != blank), key=lambda label: -row[label])
        p_b: Dict[Labels, float] = defaultdict(float)
        p_nb: Dict[Labels, float] = defaultdict(float)
        for prefix, (ends_blank, ends_label) in beam.items():
            p_b[prefix] += row[blank] * (ends_blank + ends_label)
            for label in labels[:candidates]:
                if prefix and label == prefix[-1]:
                    p_nb[prefix] += row[label] * ends_label
                    p_nb[(*prefix, label)] += row[label] * ends_blank
                else:
                    p_nb[(*prefix, label)] += row[label] * (ends_blank + ends_label)
        totals = {prefix: p_b[prefix] + p_nb[prefix] for prefix in {*p_b, *p_nb}}
        best = sorted(totals, key=lambda prefix: -totals[prefix])[:size]
        beam = {prefix: (p_b[prefix], p_nb[prefix]) for prefix in best if totals[prefix] > 0}
    return [(prefix, math.log(sum(ends))) for prefix, ends in beam.items()]


def distributions(slots, vocabulary, seed, batch=1):
    """(B, T, V) log-probabilities, float64."""
    generator = torch.Generator().manual_seed(seed)
    return (1.5 * torch.randn(batch, slots, vocabulary, generator=generator, dtype=torch.float64)).log_softmax(-1)


def search(log_probs, lengths, size, candidates, blank):
    """The fast search over given distributions."""
    others = log_probs.clone()
    others[:, :, blank] = IMPOSSIBLE
    best = others.topk(candidates, dim=2)
    found = prefix_beam_search(best.values, best.indices, log_probs[:, :, blank], lengths, size, blank)
    return [as_pairs(found, row) for row in range(len(lengths))]


def as_pairs(found, row):
    """Outputs of one sentence that exist."""
    labels, lengths, scores = (part[row].tolist() for part in found)  # type: ignore[attr-defined]
    return [(tuple(line[:length]), score) for line, length, score in zip(labels, lengths, scores) if score > IMPOSSIBLE]


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize(("slots", "vocabulary"), [(1, 3), (3, 3), (5, 3), (3, 4)])
def test_a_beam_that_holds_everything_gives_every_output_its_probability(slots, vocabulary, blank):
    log_probs = distributions(slots, vocabulary, seed=slots)
    expected = enumerated(log_probs[0], blank)
    outputs = len(expected)
    (found,) = search(log_probs, torch.tensor([slots]), outputs + 3, vocabulary - 1, blank)
    assert len(found) == outputs  # distinct, and none missing
    assert {labels for labels, _ in found} == set(expected)
    for labels, score in found:
        assert score == pytest.approx(expected[labels], abs=1e-12)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert sum(math.exp(score) for _, score in found) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("size", "candidates"), [(1, 1), (2, 1), (2, 4), (3, 2), (5, 3), (8, 4)])
@pytest.mark.parametrize("sharpness", [1.0, 20.0])
def test_a_beam_that_is_too_small_prunes_as_the_textbook_does(size, candidates, sharpness):
    """Sharp distributions: what is impossible must stay behind outputs of e^-100 and less."""
    blank, slots = 1, [7, 4, 9, 1, 2]
    log_probs = (sharpness * distributions(max(slots), 5, seed=size, batch=len(slots))).log_softmax(-1)
    found = search(log_probs, torch.tensor(slots), size, candidates, blank)
    for row, count in enumerate(slots):
        expected = textbook(log_probs[row, :count], blank, size, candidates)
        assert [labels for labels, _ in found[row]] == [labels for labels, _ in expected]
        for (_, score), (_, other) in zip(found[row], expected):
            assert score == pytest.approx(other, abs=1e-12)


def test_labels_leave_the_beam_and_come_back():
    """A prefix that was pruned and grows again must meet its own continuation: many slots, few labels, small beam."""
    for seed in range(12):
        log_probs = distributions(14, 3, seed=100 + seed)
        (found,) = search(log_probs, torch.tensor([14]), 4, 2, 0)
        expected = textbook(log_probs[0], 0, 4, 2)
        assert [labels for labels, _ in found] == [labels for labels, _ in expected]
        assert len({labels for labels, _ in found}) == 4


@pytest.mark.parametrize("chunk_size", [3, 50])
@pytest.mark.parametrize("bias", [True, False])
def test_scores_of_the_projection_are_those_of_the_loss(chunk_size, bias, device):
    """After pruning too: -CTC loss of each output, over all its alignments."""
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(3, 6, 4, generator=generator, dtype=torch.float64).to(device)
    weight = (1.5 * torch.randn(7, 4, generator=generator, dtype=torch.float64)).to(device)
    offset = torch.randn(7, generator=generator, dtype=torch.float64).to(device) if bias else None
    lengths = torch.tensor([6, 2, 5], device=device)
    found = linear_prefix_beam(hidden, weight, offset, lengths, blank=2, size=4, candidates=2, chunk_size=chunk_size)
    assert found.scores.shape == (3, 4)
    for number in range(4):
        loss, _ = linear_ctc_with_best(
            hidden, weight, offset, found.labels[:, number], lengths, found.lengths[:, number], blank=2
        )
        torch.testing.assert_close(found.scores[:, number], -loss, rtol=1e-12, atol=1e-12)
    assert bool((found.scores.diff(dim=1) <= 0).all())
    for row in range(3):
        assert len({labels for labels, _ in as_pairs(found, row)}) == 4


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_gives_the_probabilities_of_its_own_numbers(dtype, bias, device):
    """Against all alignments in float64: rounded logits, or a mixture of rounded and others, would be off by a hundredth."""
    generator = torch.Generator().manual_seed(9)
    hidden = (2 * torch.randn(2, 4, 8, generator=generator)).to(dtype)
    weight = torch.randn(4, 8, generator=generator).to(dtype)
    offset = (5 + torch.randn(4, generator=generator)).to(dtype) if bias else None
    lengths = torch.tensor([4, 3])
    found = linear_prefix_beam(
        hidden.to(device), weight.to(device), None if offset is None else offset.to(device), lengths.to(device), blank=0,
        size=130, candidates=3, chunk_size=3,
    )  # fmt: skip
    assert found.scores.dtype == torch.float32
    for row, count in enumerate(lengths.tolist()):
        logits = F.linear(hidden[row, :count].double(), weight.double(), None if offset is None else offset.double())
        expected, pairs = enumerated(logits.log_softmax(-1), 0), as_pairs(found, row)
        assert {labels for labels, _ in pairs} == set(expected)
        assert dict(pairs) == {labels: pytest.approx(expected[labels], abs=1e-4) for labels in expected}
        assert sum(math.exp(score) for _, score in pairs) == pytest.approx(1.0, abs=1e-4)


def test_excluded_labels_are_in_no_output_and_the_others_keep_their_probability(device):
    generator = torch.Generator().manual_seed(8)
    hidden = torch.randn(1, 4, 3, generator=generator, dtype=torch.float64)
    weight = 2 * torch.randn(5, 3, generator=generator, dtype=torch.float64)
    found = linear_prefix_beam(
        hidden.to(device), weight.to(device), None, torch.tensor([4], device=device), blank=1, size=130, candidates=99,
        chunk_size=2, excluded={0, 3},
    )  # fmt: skip
    expected = enumerated(F.linear(hidden[0], weight).log_softmax(-1), 1)
    expected = {labels: score for labels, score in expected.items() if not {0, 3} & set(labels)}
    assert dict(as_pairs(found, 0)) == {labels: pytest.approx(score, abs=1e-11) for labels, score in expected.items()}


def test_the_best_output_need_not_be_the_best_alignment():
    """Two slots, blank 0.6 and a 0.4: the best alignment is two blanks, the best output is a."""
    log_probs = torch.tensor([[[0.6, 0.4], [0.6, 0.4]]], dtype=torch.float64).log()
    (found,) = search(log_probs, torch.tensor([2]), 3, 1, 0)
    assert [labels for labels, _ in found] == [(1,), ()]  # 0.64 against 0.36, the likeliest alignment
    assert [math.exp(score) for _, score in found] == pytest.approx([0.64, 0.36])


@pytest.mark.parametrize("option", [{"size": 0, "candidates": 1}, {"size": 1, "candidates": 0}])
def test_an_empty_beam_is_refused(option):
    with pytest.raises(ValueError, match="at least 1"):
        linear_prefix_beam(torch.ones(1, 1, 2), torch.ones(3, 2), None, torch.tensor([1]), blank=0, **option)
