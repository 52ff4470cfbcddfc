"""The benchmarks measure what they say: memory, forced lengths, equal losses, verdicts. No time is asserted."""

import argparse

import pytest
import torch

from benchmarks import decoding, floor, measure, report, results, sga_training_step, vocab_losses
from benchmarks.systems import Sizes, autoregressive, batch, dictionary, sga

SIZES = Sizes(vocab=60, layers=2, width=16, heads=2, prompts=3)
CPU = torch.device("cpu")


def test_every_variant_runs_in_every_round():
    calls = []
    names = {name: (lambda name=name: calls.append(name)) for name in "ab"}
    timings = measure.time_side_by_side(names, 3, CPU, warmup=1, quiet=True)
    assert sorted(calls) == ["a"] * 4 + ["b"] * 4
    assert calls[0] != calls[2], "the order turns"
    assert all(len(timing.seconds) == 3 for timing in timings.values())


def test_ratios_are_taken_round_by_round():
    ratio = measure.Timing([1.0, 4.0, 2.0]).ratio_to(measure.Timing([1.0, 2.0, 4.0]))
    assert ratio == (1.0, 0.5, 2.0)


def test_peak_memory_sees_what_is_freed_again():
    def call():
        torch.ones(40_000_000).sum()

    call()
    assert 150e6 < measure.peak_memory(call, CPU) < 200e6


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


def test_the_floor_is_the_slower_of_reading_and_computing():
    rates = {"gflops": 1.0, "gb_per_s": 2.0}
    assert floor.floor_seconds(4e9, 1e9, rates) == 2.0
    assert floor.floor_seconds(1e9, 3e9, rates) == 3.0


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


def test_verdicts_name_what_is_missed():
    row = {"loss": "ctc", "weight": "frozen", "variant": "chunked", "time_ratio": [1.2, 1.1, 1.3], "memory_ratio": 0.05}
    lines = [results.verdict({"results": [row]}, bar) for bar in results.BARS["vocab_losses"]]
    assert "**missed** (1.200)" in lines[0]
    assert "holds (0.050)" in lines[1]
    assert "not measured" in lines[2]


@pytest.mark.parametrize(
    ("mean_passes", "expected"), [(None, []), (0.5, [0.25]), (2.0, [0.4]), (3.0, [0.5]), (9.0, [])]
)
def test_the_trained_models_passes_are_looked_up_between_the_forced_ones(tmp_path, monkeypatch, mean_passes, expected):
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    report.write(
        "trained", CPU, {}, [{"mean_passes": 0.0 if mean_passes is None else mean_passes}, {"mean_passes": None}]
    )
    speeds = {
        "SGA alignment": 5.0,
        "SGA 1 passes": 1 / 0.3,
        "SGA 2 passes": 2.5,
        "SGA 4 passes": 1 / 0.6,
        "AT 2+2 beam 5": 1.0,
    }
    rows = [
        {"vocab": vocab, "system": name, "speedup": [speed * factor]}
        for vocab, factor in ((9, 1.0), (3, 7.0))
        for name, speed in speeds.items()
    ]
    assert results.speedups_at_trained_stopping({"results": rows}) == pytest.approx(expected)
