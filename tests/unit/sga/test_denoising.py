"""Test denoising passes whose outputs come in a cycle: fewer passes, the same result."""

from typing import NamedTuple

import pytest
import torch

from fairseq_plugins.ops.ctc import BestPath
from fairseq_plugins.sga.decoding import IterationOptions, SGAGenerator
from tests import builders

PERIOD, STATE = 0, 1
"""Slots: the first holds a sentence's period, the second its state in the cycle."""


class Guidance(NamedTuple):
    """Number of each sentence, which shows whose guidance arrives."""

    numbers: torch.Tensor

    def select(self, rows):
        return Guidance(self.numbers[rows])


class CyclicDenoiser:
    """A denoiser that counts down to a cycle, then 0, 1 ... period - 1 again and again.

    The log-probabilities name the state that was read, and so the pass that an output is of.

    Attributes:
        rewrite: (path, padding) -> the path that the denoiser gives; None = the path as it is.
        reads: ``tokens`` or ``pieces``, the part of a path that the denoiser reads.
        batch_sizes: number of sentences of each pass.
    """

    has_denoiser = True

    def __init__(self, rewrite=None, reads="tokens"):
        self.rewrite, self.reads, self.batch_sizes = rewrite, reads, []

    def denoiser_input(self, path):
        return getattr(path, self.reads)

    def denoise(self, tokens, guidance, lengths):
        """Return the tokens and those that follow them, (B, T, 2)."""
        assert len(guidance.numbers) == len(tokens) == len(lengths)
        assert tokens.size(1) == int(lengths.max())
        assert torch.equal(guidance.numbers + 4, lengths), "guidance of another sentence"
        self.batch_sizes.append(len(tokens))
        period, state = tokens[:, PERIOD], tokens[:, STATE]
        following = tokens.clone()
        following[:, STATE] = torch.where(state >= period, state - 1, (state + 1) % period)
        return torch.stack([tokens, following], dim=2)

    def best_path(self, hidden, lengths, penalty=0.0):
        path = BestPath(hidden[..., 1], hidden[..., 1], -hidden[..., 0].double())
        if self.rewrite is None:
            return path
        return self.rewrite(path, torch.arange(hidden.size(1)) >= lengths[:, None])


def align(periods, starts, filler=0):
    """Return an alignment of sentences of 4, 5, ... slots; ``filler`` stands in the padding."""
    lengths = torch.arange(len(periods)) + 4
    tokens = torch.zeros(len(periods), int(lengths.max()), dtype=torch.int64)
    tokens[:, PERIOD], tokens[:, STATE] = torch.tensor(periods), torch.tensor(starts)
    tokens = tokens.masked_fill(torch.arange(tokens.size(1)) >= lengths[:, None], filler)
    return BestPath(tokens, tokens, torch.zeros(tokens.shape).double()), lengths


def denoise(model, path, lengths, *options, **more):
    """Return the last path, the passes of each sentence, and the history."""
    generator = SGAGenerator(builders.dictionary(), IterationOptions(*options, **more))
    return generator.denoise(model, Guidance(lengths - 4), lengths, path)


@pytest.mark.parametrize("max_iter", [*range(1, 13), 30])
def test_outputs_in_a_cycle_end_as_all_passes_would(max_iter):
    periods, starts = [2, 1, 3, 2, 5, 4], [1, 0, 2, 5, 4, 0]
    model, (path, lengths) = CyclicDenoiser(), align(periods, starts)
    last, steps, _ = denoise(model, path, lengths, max_iter)
    expected, _, _ = denoise(CyclicDenoiser(), path, lengths, max_iter, adaptive=False)
    assert torch.equal(last.tokens, expected.tokens)
    assert torch.equal(last.log_probs, expected.log_probs)
    for period, start, count in zip(periods, starts, steps.tolist()):
        # Reach the cycle, run it once, then go on to the state of the last pass.
        turn = max(start - period + 1, 0) + period
        assert count == min(turn + (max_iter - turn) % period, max_iter)
    sizes = [int((steps > number).sum()) for number in range(int(steps.max()))]
    assert model.batch_sizes == sizes
    if max_iter == 30:
        assert int(steps.max()) < 15


def clear_padding(path, padding):
    """Write 0 into the padding, where the alignment wrote something else."""
    return BestPath(*(part.masked_fill(padding, 0) for part in path))


def fill_blanks(path, padding):
    """Give outputs 0, 1, 0, 1 ... while the pieces go on in their cycle."""
    tokens = path.tokens.clone()
    tokens[:, STATE] %= 2
    return path._replace(tokens=tokens)


def stand_still(path, padding):
    """Give the output 0 in every pass while the pieces count down."""
    return path._replace(tokens=torch.zeros_like(path.tokens))


@pytest.mark.cases(
    "rewrite reads period adaptive passes",
    (clear_padding, "tokens", 1, True, 1),
    (stand_still, "pieces", 9, True, 1),
    (fill_blanks, "pieces", 4, True, 5),
    (fill_blanks, "pieces", 4, False, 9),
)
def test_passes_end_by_the_output_and_cycles_by_the_input(rewrite, reads, period, adaptive, passes):
    path, lengths = align([period, period], [0, 0], filler=7)
    if rewrite is stand_still:
        path = stand_still(path, None)
    model = CyclicDenoiser(rewrite, reads)
    last, steps, history = denoise(model, path, lengths, 9, adaptive, retain_history=True)
    assert steps.tolist() == [passes] * 2 and len(history) == 1 + passes
    assert torch.equal(history[-1].tokens, last.tokens)
    if rewrite is fill_blanks:
        assert int(last.pieces[0, STATE]) == 1 and float(last.log_probs[0, STATE]) == 0
