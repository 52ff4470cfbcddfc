"""The benchmarks compare equal work: equal losses, forced lengths and passes. No time is asserted."""

import argparse

import pytest
import torch

from benchmarks import decoding, sga_training_step, vocab_losses
from benchmarks.systems import Sizes, build_dictionary, build_sga, build_transformer, make_batch

SIZES = Sizes(vocab=60, layers=2, width=16, heads=2, prompts=3)
CPU = torch.device("cpu")


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("loss", ["ctc", "smoothed cross-entropy"])
def test_compared_losses_are_equal(loss, trained):
    options = argparse.Namespace(tokens=24, slots=12, vocab=50, width=8)
    case = vocab_losses.Case(options, CPU, trained)
    variants = vocab_losses.variants(loss)
    variants.pop(vocab_losses.WITHOUT_SMOOTHING, None)
    steps = [case.step(variant) for variant in variants.values()]
    assert len(steps) == 2
    torch.testing.assert_close(*steps, rtol=1e-4, atol=1e-5)


def test_autoregressive_systems_produce_the_length_that_is_asked_for():
    symbols = build_dictionary(SIZES.vocab)
    model = build_transformer(SIZES, symbols, 1, CPU)
    sample = make_batch(torch.tensor([9, 7]), SIZES.vocab, CPU)
    for beam in (1, 3):
        with torch.no_grad():
            hypotheses = decoding.decode_autoregressive(model, symbols, beam)(sample, 9)
        assert [len(sentence[0]["tokens"]) for sentence in hypotheses] == [10, 10], "nine tokens and </s>"


def test_sga_does_exactly_the_passes_that_are_asked_for():
    model, symbols = build_sga(SIZES, CPU), build_dictionary(SIZES.vocab)
    sample = make_batch(torch.tensor([9, 7]), SIZES.vocab, CPU)
    for passes in (0, 2):
        hypotheses = decoding.decode_sga(model, symbols, passes)(sample, 9)
        assert [sentence[0]["steps"] for sentence in hypotheses] == [passes, passes]


def test_training_steps_have_the_same_loss_and_gradient():
    model = build_sga(SIZES, CPU).train()
    sample = make_batch(torch.full((2,), 9), SIZES.vocab, CPU)
    targets = sample["net_input"]["src_tokens"][:, 1:-1].flip(1)
    lengths = torch.full((2,), targets.size(1))
    losses, gradients = [], []
    for ctc in sga_training_step.VARIANTS.values():
        losses.append(sga_training_step.run_step(model, sample, targets, lengths, ctc))
        gradients.append(model.semantic.key.weight.grad.clone())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)
