"""The benchmarks measure what they say: memory, forced lengths, equal losses, verdicts. No time is asserted."""

import argparse

import pytest
import torch

from benchmarks import decoding, sga_training_step, vocab_losses
from benchmarks.systems import Sizes, autoregressive, batch, dictionary, sga

SIZES = Sizes(vocab=60, layers=2, width=16, heads=2, prompts=3)
CPU = torch.device("cpu")


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("loss", ["ctc", "smoothed cross-entropy"])
def test_compared_losses_are_equal(loss, trained):
    options = argparse.Namespace(tokens=24, slots=12, vocab=50, width=8)
    case = vocab_losses.Case(options, CPU, trained)
    values = [case.step(variant) for name, variant in vocab_losses.variants(loss).items() if "no smoothing" not in name]
    assert len(values) == 2
    torch.testing.assert_close(values[0], values[1], rtol=1e-4, atol=1e-5)


def test_autoregressive_systems_produce_the_length_that_is_asked_for():
    symbols = dictionary(SIZES.vocab)
    model = autoregressive(SIZES, symbols, 1, CPU)
    sample = batch(torch.tensor([9, 7]), SIZES.vocab, CPU)
    for beam in (1, 3):
        with torch.no_grad():
            hypotheses = decoding.decode_autoregressive(model, symbols, beam)(sample, 9)
        assert [len(sentence[0]["tokens"]) for sentence in hypotheses] == [10, 10], "nine tokens and </s>"


def test_sga_does_exactly_the_passes_that_are_asked_for():
    model, symbols = sga(SIZES, CPU), dictionary(SIZES.vocab)
    sample = batch(torch.tensor([9, 7]), SIZES.vocab, CPU)
    for passes in (0, 2):
        hypotheses = decoding.decode_sga(model, symbols, passes)(sample, 9)
        assert [sentence[0]["steps"] for sentence in hypotheses] == [passes, passes]


def test_training_steps_have_the_same_loss_and_gradient():
    model = sga(SIZES, CPU).train()
    sample = batch(torch.full((2,), 9), SIZES.vocab, CPU)
    targets = sample["net_input"]["src_tokens"][:, 1:-1].flip(1)
    lengths = torch.full((2,), targets.size(1))
    found = []
    for ctc in sga_training_step.VARIANTS.values():
        loss = sga_training_step.step(model, sample, targets, lengths, ctc)
        found.append((loss, model.semantic.key.weight.grad.clone()))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-3, atol=1e-5)
