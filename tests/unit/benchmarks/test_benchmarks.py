"""Test that benchmarks compare equal work: equal losses, forced lengths and passes."""

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
    first, second = (case.step(variant) for variant in variants.values())
    torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-5)


def test_outputs_have_the_forced_length_and_passes():
    dictionary = build_dictionary(SIZES.vocab)
    sample = make_batch(torch.tensor([9, 7]), SIZES.vocab, CPU)
    transformer = build_transformer(SIZES, dictionary, 1, CPU)
    for beam in (1, 3):
        with torch.no_grad():
            decode = decoding.decode_autoregressive(transformer, dictionary, beam)
            lengths = [len(sentence[0]["tokens"]) for sentence in decode(sample, 9)]
        assert lengths == [10, 10], "nine tokens and </s>"
    sga = build_sga(SIZES, CPU)
    for passes in (0, 2):
        hypotheses = decoding.decode_sga(sga, dictionary, passes)(sample, 9)
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
