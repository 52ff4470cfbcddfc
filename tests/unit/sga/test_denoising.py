"""Denoising passes whose outputs come in a cycle: fewer of them, the same result."""

from typing import NamedTuple

import pytest
import torch

from fairseq_plugins.ops.ctc import BestPath
from fairseq_plugins.sga.decoding import IterationOptions, SGAGenerator
from tests import builders

PERIOD, STATE = 0, 1
"""Slots: the first holds a sentence's period, the second where in its cycle it is."""


class Guidance(NamedTuple):
    """Of each sentence its number, to see whose guidance arrives."""

    numbers: torch.Tensor

    def select(self, rows):
        return Guidance(self.numbers[rows])


class Wheel:
    """A denoiser that counts: from a start above the cycle down to it, then 0, 1 ... period - 1 and again.

    The log-probabilities say which state was read, and so whether an output is that of the pass it should be.
    """

    has_denoiser = True

    def __init__(self, write=None, reads="tokens"):
        self.rows, self.write, self.reads = [], write, reads

    def denoiser_input(self, path):
        return getattr(path, self.reads)

    def denoise(self, tokens, guidance, lengths):
        """What was read, and what comes after it: (B, T, 2)."""
        assert len(guidance.numbers) == len(tokens) == len(lengths) and tokens.size(1) == int(lengths.max())
        assert torch.equal(guidance.numbers + 4, lengths), "guidance of another sentence"
        self.rows.append(len(tokens))
        period, state = tokens[:, PERIOD], tokens[:, STATE]
        after = tokens.clone()
        after[:, STATE] = torch.where(state >= period, state - 1, (state + 1) % period)
        return torch.stack([tokens, after], dim=2)

    def best_path(self, hidden, lengths, penalty=0.0):
        """The state after, its log-probability the one before."""
        path = BestPath(hidden[..., 1], hidden[..., 1], -hidden[..., 0].double())
        return path if self.write is None else self.write(path, torch.arange(hidden.size(1)) >= lengths[:, None])


def path_of(periods, starts, filler=0):
    """What an alignment gave for sentences of 4, 5, ... slots; ``filler`` stands in the padding."""
    lengths = torch.arange(len(periods)) + 4
    tokens = torch.zeros(len(periods), int(lengths.max()), dtype=torch.int64)
    tokens[:, PERIOD], tokens[:, STATE] = torch.tensor(periods), torch.tensor(starts)
    tokens = tokens.masked_fill(torch.arange(tokens.size(1)) >= lengths[:, None], filler)
    return BestPath(tokens, tokens, torch.zeros(tokens.shape).double()), lengths


def run(periods, starts, max_iter, adaptive=True):
    """Tokens, log-probabilities, passes of each sentence, rows of each pass."""
    path, lengths = path_of(periods, starts)
    model = Wheel()
    generator = SGAGenerator(builders.dictionary(), IterationOptions(max_iter, adaptive))
    last, steps, _ = generator.denoise(model, Guidance(lengths - 4), lengths, path)
    return last.tokens, last.log_probs, steps.tolist(), model.rows


@pytest.mark.parametrize("max_iter", [*range(1, 13), 30])
def test_outputs_that_come_in_a_cycle_end_as_all_passes_would(max_iter):
    periods, starts = [2, 1, 3, 2, 5, 4], [1, 0, 2, 5, 4, 0]
    tokens, log_probs, steps, rows = run(periods, starts, max_iter)
    expected = run(periods, starts, max_iter, adaptive=False)
    assert torch.equal(tokens, expected[0]) and torch.equal(log_probs, expected[1])
    for period, start, done in zip(periods, starts, steps):
        # The first state of the cycle that is read, then a whole turn, then as far as the last pass would have come.
        turn = max(start - period + 1, 0) + period
        assert done == min(turn + (max_iter - turn) % period, max_iter)
    assert rows == [sum(done > number for done in steps) for number in range(max(steps))]
    if max_iter == 30:
        assert max(steps) < 15


def cleared(path, padding):
    """0 in the padding: the alignment and the denoiser need not write the same symbol there."""
    return BestPath(*(part.masked_fill(padding, 0) for part in path))


def filled(path, padding):
    """Outputs 0, 1, 0, 1 ... of a denoiser that reads the pieces, its blanks filled."""
    tokens = path.tokens.clone()
    tokens[:, STATE] %= 2
    return path._replace(tokens=tokens)


def still(path, padding):
    """Goes on reading 4, 3, 2 ...; the output is 0 from the start."""
    return path._replace(tokens=torch.zeros_like(path.tokens))


@pytest.mark.cases(
    "write reads periods adaptive passes",
    (cleared, "tokens", 1, True, 1),
    (still, "pieces", 9, True, 1),
    (filled, "pieces", 4, True, 5),
    (filled, "pieces", 4, False, 9),
)
def test_the_end_follows_from_the_output_and_from_what_is_read(write, reads, periods, adaptive, passes):
    path, lengths = path_of([periods, periods], [0, 0], filler=7)
    path = write(path, None) if write is still else path
    generator = SGAGenerator(builders.dictionary(), IterationOptions(9, adaptive, retain_history=True))
    last, steps, history = generator.denoise(Wheel(write, reads), Guidance(lengths - 4), lengths, path)
    assert steps.tolist() == [passes] * 2 and len(history) == 1 + passes
    assert torch.equal(history[-1].tokens, last.tokens)
    if write is filled:
        assert int(last.pieces[0, STATE]) == 1 and float(last.log_probs[0, STATE]) == 0
