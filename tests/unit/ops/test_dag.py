"""Test the graph of slots against all paths written out, and torch's gradients of their sum."""

import itertools

import pytest
import torch

from fairseq_plugins.ops import dag
from fairseq_plugins.ops.linear_alignment import BestPath

BLANK, VOCAB, WIDTH = 0, 11, 6
SLOTS, LENGTHS = [7, 5, 3, 4], [3, 2, 0, 3]
"""The last target does not fit: it would need five slots."""


def draw_inputs(seed=0):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    slots, rows, size = torch.tensor(SLOTS), len(SLOTS), max(SLOTS)
    is_unreachable = ~dag.reachable(slots, size)
    links = normal(rows, size, size).masked_fill(is_unreachable, -1e9).log_softmax(2)
    links = links.masked_fill(is_unreachable, float("-inf")).requires_grad_()
    hidden = normal(rows, size, WIDTH).requires_grad_()
    weight, bias = normal(VOCAB, WIDTH), normal(VOCAB)
    targets = torch.randint(1, VOCAB, (rows, max(LENGTHS)), generator=generator)
    targets[0, 1] = targets[0, 0]  # a repeat needs no further slot
    return hidden, weight, bias, links, targets, slots, torch.tensor(LENGTHS)


def list_paths(slots, tokens):
    """List all ways through the slots of a sentence that emit ``tokens`` tokens."""
    return itertools.combinations(range(1, slots - 1), tokens)


def path_score(links, log_probs, path, target, slots):
    """Compute the log of the product of links and emissions of one path."""
    score, place = links.new_zeros(()), 0
    for slot, token in zip(path, target):
        score = score + links[place, slot] + log_probs[slot, token]
        place = slot
    return score + links[place, slots - 1]


def slow_losses(hidden, weight, bias, links, targets, slots, lengths):
    """Compute minus the log of the sum over all paths; 0 for a target that does not fit."""
    log_probs, losses = torch.log_softmax(hidden @ weight.t() + bias, -1), []
    for row, (size, length) in enumerate(zip(slots.tolist(), lengths.tolist())):
        scores = [
            path_score(links[row], log_probs[row], path, targets[row], size)
            for path in list_paths(size, length)
        ]
        losses.append(-torch.stack(scores).logsumexp(0) if scores else hidden.new_zeros(()))
    return torch.stack(losses)


@pytest.mark.parametrize("is_trained", [False, True])
@pytest.mark.parametrize("chunk_size", [3, 64])
def test_loss_and_gradients_are_those_of_all_paths(is_trained, chunk_size):
    inputs = draw_inputs()
    hidden, weight, bias, links, *_ = inputs
    leaves = [hidden, links]
    if is_trained:
        leaves += [weight.requires_grad_(), bias.requires_grad_()]
    factors = torch.tensor([1.0, -0.5, 2.0, 3.0], dtype=hidden.dtype)
    expected = slow_losses(*inputs)
    losses, best = dag.linear_dag_with_best(*inputs, BLANK, chunk_size)
    torch.testing.assert_close(losses, expected)
    assert float(expected.detach()[2]) > 0, "an empty target has a path"
    assert float(expected.detach()[3]) == 0, "the last target has none"
    gradients = torch.autograd.grad((losses * factors).sum(), leaves)
    expected_gradients = torch.autograd.grad((expected * factors).sum(), leaves)
    for ours, theirs in zip(gradients, expected_gradients):
        torch.testing.assert_close(ours, theirs.nan_to_num(0.0))
    inside = torch.arange(max(SLOTS)) < torch.tensor(SLOTS)[:, None]
    assert torch.equal(best.tokens[inside], (hidden @ weight.t() + bias).argmax(-1)[inside])


@torch.no_grad()
def test_best_slots_are_the_best_of_all_paths():
    hidden, weight, bias, links, targets, slots, lengths = draw_inputs(3)
    log_probs = torch.log_softmax(hidden @ weight.t() + bias, -1)
    labels = log_probs.gather(2, targets[:, None, :].expand(-1, hidden.size(1), -1))
    best = dag.best_slots(labels, links, slots, lengths)
    for row in range(2):
        size, length = SLOTS[row], LENGTHS[row]
        scores = {
            path: path_score(links[row], log_probs[row], path, targets[row], size)
            for path in list_paths(size, length)
        }
        assert tuple(best[row, :length].tolist()) == max(scores, key=scores.get)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("penalty", [0.0, 1.0, 3.0])
@torch.no_grad()
def test_viterbi_is_the_best_path_of_any_length(seed, penalty):
    hidden, weight, bias, links, _, slots, _ = draw_inputs(seed)
    best = torch.log_softmax(hidden @ weight.t() + bias, -1).amax(-1)
    visited = dag.viterbi(links, best, slots, penalty)
    for row, size in enumerate(SLOTS):
        scores = {}
        for tokens in range(1, size - 1):
            for path in list_paths(size, tokens):
                only_links = path_score(
                    links[row], torch.zeros(size, 1), path, [0] * len(path), size
                )
                score = only_links + best[row, list(path)].sum()
                scores[path] = float(score) / len(path) ** penalty
        assert tuple(visited[row].nonzero()[:, 0].tolist()) == max(scores, key=scores.get)


@pytest.mark.parametrize("weight", [0.0, 1.0])
@torch.no_grad()
def test_lookahead_follows_the_best_step(weight):
    hidden, matrix, bias, links, _, slots, _ = draw_inputs(4)
    best = torch.log_softmax(hidden @ matrix.t() + bias, -1).amax(-1)
    visited = dag.lookahead(links, best, slots, weight)
    for row, size in enumerate(SLOTS):
        steps = links[row] + weight * best[row]
        steps[:, size - 1] = links[row, :, size - 1]  # the last slot emits nothing
        expected, place = [], int(steps[0].argmax())
        while place != size - 1:
            expected.append(place)
            place = int(steps[place].argmax())
        assert visited[row].nonzero()[:, 0].tolist() == expected


def test_repeats_of_a_path_are_merged():
    generator = torch.Generator().manual_seed(3)
    repeats = 0
    for size in (1, 2, 9):
        tokens = torch.randint(2, (40, size), generator=generator) + 5
        visited = torch.rand(40, size, generator=generator) < 0.6
        log_probs = torch.rand(40, size, generator=generator) - 2
        decoded = dag.read_path(BestPath(tokens, tokens, log_probs), visited, filler=2)
        for row in range(40):
            slots, previous = [], None
            for slot in visited[row].nonzero()[:, 0].tolist():
                if tokens[row, slot] != previous:
                    slots.append(slot)
                previous = tokens[row, slot]
            repeats += int(visited[row].sum()) - len(slots)
            length = max(len(slots), 1)
            assert decoded.lengths[row] == length
            assert decoded.tokens[row, :length].tolist() == (tokens[row, slots].tolist() or [2])
            assert decoded.log_probs[row, : len(slots)].tolist() == log_probs[row, slots].tolist()
            assert not bool(decoded.log_probs[row, len(slots) :].any())
    assert repeats > 20
