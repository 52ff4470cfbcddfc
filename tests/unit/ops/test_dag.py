"""The graph of slots against every path written out, and torch's gradients of that sum."""

import itertools

import pytest
import torch

from fairseq_plugins.ops import dag
from fairseq_plugins.ops.linear_alignment import BestPath

BLANK, VOCAB, WIDTH = 0, 11, 6
SLOTS, LENGTHS = [7, 5, 3, 4], [3, 2, 0, 3]
"""The last target has no room: it would need five slots."""


def draw(seed=0, dtype=torch.float64, empty=False):
    generator = torch.Generator().manual_seed(seed)
    slots = torch.tensor(SLOTS)
    size = max(SLOTS)
    scores = torch.randn(len(SLOTS), size, size, generator=generator, dtype=dtype)
    links = torch.log_softmax(scores.masked_fill(~dag.reachable(slots, size), -1e9), 2)
    links = links.masked_fill(~dag.reachable(slots, size), float("-inf")).requires_grad_()
    hidden = torch.randn(len(SLOTS), size, WIDTH, generator=generator, dtype=dtype, requires_grad=True)
    weight = torch.randn(VOCAB, WIDTH, generator=generator, dtype=dtype)
    bias = torch.randn(VOCAB, generator=generator, dtype=dtype)
    targets = torch.randint(1, VOCAB, (len(SLOTS), max(LENGTHS)), generator=generator)
    targets[0, 1] = targets[0, 0]  # a repeat is nothing special
    return hidden, weight, bias, links, targets, slots, torch.tensor(LENGTHS)


def paths(slots, tokens):
    """Every way through a sentence's slots that emits so many tokens."""
    return itertools.combinations(range(1, slots - 1), tokens)


def path_score(links, log_probs, path, target, slots):
    """Log of the product of links and emissions of one path."""
    score, place = links.new_zeros(()), 0
    for slot, token in zip(path, target):
        score = score + links[place, slot] + log_probs[slot, token]
        place = slot
    return score + links[place, slots - 1]


def slow_losses(hidden, weight, bias, links, targets, slots, lengths):
    """Minus the log of the sum over all paths; 0 without room."""
    log_probs = torch.log_softmax(hidden @ weight.t() + bias, -1)
    losses = []
    for row, (size, length) in enumerate(zip(slots.tolist(), lengths.tolist())):
        scores = [path_score(links[row], log_probs[row], path, targets[row], size) for path in paths(size, length)]
        losses.append(-torch.stack(scores).logsumexp(0) if scores else hidden.new_zeros(()))
    return torch.stack(losses)


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("chunk_size", [3, 64])
def test_loss_and_gradients_are_those_of_all_paths(trained, chunk_size):
    inputs = draw()
    hidden, weight, bias, links, *_ = inputs
    leaves = [hidden, links, *((weight.requires_grad_(), bias.requires_grad_()) if trained else ())]
    factors = torch.tensor([1.0, -0.5, 2.0, 3.0], dtype=hidden.dtype)
    expected = slow_losses(*inputs)
    wanted = torch.autograd.grad((expected * factors).sum(), leaves)
    found, best = dag.linear_dag_with_best(*inputs, BLANK, chunk_size)
    torch.testing.assert_close(found, expected)
    assert float(expected[2].detach()) > 0 == float(expected[3].detach()), (
        "an empty target has a path, the last one none"
    )
    got = torch.autograd.grad((found * factors).sum(), leaves)
    for mine, theirs in zip(got, wanted):
        torch.testing.assert_close(mine, theirs.nan_to_num(0.0))
    inside = torch.arange(max(SLOTS)) < torch.tensor(SLOTS)[:, None]
    assert torch.equal(best.tokens[inside], (hidden @ weight.t() + bias).argmax(-1)[inside])


def label_log_probs(hidden, weight, bias, targets):
    log_probs = torch.log_softmax(hidden @ weight.t() + bias, -1)
    return log_probs, log_probs.gather(2, targets[:, None, :].expand(-1, hidden.size(1), -1))


@torch.no_grad()
def test_best_slots_are_the_best_of_all_paths():
    hidden, weight, bias, links, targets, slots, lengths = draw(3)
    log_probs, labels = label_log_probs(hidden, weight, bias, targets)
    found = dag.best_slots(labels, links, slots, lengths)
    for row in range(2):
        size, length = SLOTS[row], LENGTHS[row]
        score = lambda path: path_score(links[row], log_probs[row], path, targets[row], size)  # noqa: B023, E731
        assert tuple(found[row, :length].tolist()) == max(paths(size, length), key=score)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("penalty", [0.0, 1.0, 3.0])
@torch.no_grad()
def test_viterbi_is_the_best_path_of_any_length(seed, penalty):
    hidden, weight, bias, links, _, slots, _ = draw(seed)
    best = torch.log_softmax(hidden @ weight.t() + bias, -1).amax(-1)
    found = dag.viterbi(links, best, slots, penalty)
    for row, size in enumerate(SLOTS):
        every = [path for tokens in range(1, size - 1) for path in paths(size, tokens)]

        def score(path):
            links_only = path_score(links[row], torch.zeros(size, 1), path, [0] * len(path), size)  # noqa: B023
            return (links_only + best[row, list(path)].sum()) / len(path) ** penalty  # noqa: B023

        assert tuple(found[row].nonzero()[:, 0].tolist()) == max(every, key=score)


@pytest.mark.parametrize("weight", [0.0, 1.0])
@torch.no_grad()
def test_lookahead_follows_the_best_step(weight):
    hidden, matrix, bias, links, _, slots, _ = draw(4)
    path = torch.log_softmax(hidden @ matrix.t() + bias, -1).max(-1)
    visited = dag.lookahead(links, path.values, slots, weight)
    for row, size in enumerate(SLOTS):
        place, expected = 0, []
        while place != size - 1:
            worth = [
                float(links[row, place, u]) + weight * float(path.values[row, u]) * (u < size - 1) for u in range(size)
            ]
            place = worth.index(max(worth))
            expected += [place] * (place < size - 1)
        assert visited[row].nonzero()[:, 0].tolist() == expected


def test_a_path_is_read_without_repeats():
    generator = torch.Generator().manual_seed(3)
    repeats = 0
    for size in (1, 2, 9):
        tokens = torch.randint(2, (40, size), generator=generator) + 5
        visited = torch.rand(40, size, generator=generator) < 0.6
        log_probs = torch.rand(40, size, generator=generator) - 2
        decoded = dag.read_path(BestPath(tokens, tokens, log_probs), visited, filler=2)
        for row in range(40):
            places = visited[row].nonzero()[:, 0].tolist()
            kept = [
                at
                for before, at in zip([None, *places], places)
                if before is None or tokens[row, before] != tokens[row, at]
            ]
            repeats += len(places) - len(kept)
            assert decoded.lengths[row] == max(len(kept), 1)
            assert decoded.tokens[row, : max(len(kept), 1)].tolist() == (tokens[row, kept].tolist() or [2])
            assert decoded.log_probs[row, : len(kept)].tolist() == log_probs[row, kept].tolist()
            assert not bool(decoded.log_probs[row, len(kept) :].any())
    assert repeats > 20
