"""The benchmarks measure what they say: memory, forced lengths, equal losses, verdicts. No time is asserted."""

import argparse
from argparse import Namespace

import pytest
import torch

from benchmarks import data_path, decoding, deltalm, floor, measure, results, sga_training_step, vocab_losses
from benchmarks.systems import Sizes, autoregressive, batch, dictionary, sga

SIZES = Sizes(vocab=60, layers=2, width=16, heads=2, prompts=3)
CPU = torch.device("cpu")


def test_ratios_are_taken_round_by_round() -> None:
    ratio = measure.Timing([1.0, 4.0, 2.0]).ratio_to(measure.Timing([1.0, 2.0, 4.0]))
    assert ratio == (1.0, 0.5, 2.0)


def test_peak_memory_sees_what_is_freed_again() -> None:
    def call() -> None:
        torch.ones(40_000_000).sum()

    call()
    assert 150e6 < measure.peak_memory(call, CPU) < 200e6


def test_percentile_is_the_nearest_rank() -> None:
    assert measure.percentile(range(100), 0.95) == 95
    assert measure.percentile([3.0, 1.0], 0.95) == 3.0


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("loss", ["ctc", "smoothed cross-entropy"])
def test_compared_losses_are_equal(loss: str, trained: bool) -> None:
    options = argparse.Namespace(tokens=24, slots=12, vocab=50, width=8)
    case = vocab_losses.Case(options, CPU, trained)
    values = [case.step(variant) for name, variant in vocab_losses.variants(loss).items() if "no smoothing" not in name]
    assert len(values) == 2
    torch.testing.assert_close(values[0], values[1], rtol=1e-4, atol=1e-5)


def test_autoregressive_systems_produce_the_length_that_is_asked_for() -> None:
    symbols = dictionary(SIZES.vocab)
    model = autoregressive(SIZES, symbols, 1, CPU)
    sample = batch(torch.tensor([9, 7]), SIZES.vocab, CPU)
    for beam in (1, 3):
        with torch.no_grad():
            hypotheses = decoding.decode_autoregressive(model, symbols, beam)(sample, 9)
        assert [len(sentence[0]["tokens"]) for sentence in hypotheses] == [10, 10], "nine tokens and </s>"


def test_sga_does_exactly_the_passes_that_are_asked_for() -> None:
    model, symbols = sga(SIZES, CPU), dictionary(SIZES.vocab)
    sample = batch(torch.tensor([9, 7]), SIZES.vocab, CPU)
    for passes in (0, 2):
        hypotheses = decoding.decode_sga(model, symbols, passes)(sample, 9)
        assert [sentence[0]["steps"] for sentence in hypotheses] == [passes, passes]


def test_shares_add_up() -> None:
    model, symbols = sga(SIZES, CPU), dictionary(SIZES.vocab)
    sample = batch(torch.tensor([9]), SIZES.vocab, CPU)
    parts = decoding.shares(model, lambda: decoding.decode_sga(model, symbols, 1)(sample, 9), CPU)
    assert sum(parts.values()) == pytest.approx(1.0, abs=0.01)
    assert min(parts[name] for name in ("attention", "feed-forward", "projection")) > 0
    assert not model._forward_hooks and "best_path" not in vars(model)


def test_the_floor_is_the_slower_of_reading_and_computing() -> None:
    rates = {"gflops": 1.0, "gb_per_s": 2.0}
    assert floor.floor_seconds(4e9, 1e9, rates) == 2.0
    assert floor.floor_seconds(1e9, 3e9, rates) == 3.0


def test_training_steps_have_the_same_loss_and_gradient() -> None:
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


def test_data_paths_have_the_same_blocks_and_all_their_tokens() -> None:
    options = argparse.Namespace(tokens=3000, batch_tokens=1024, vocab=300, rounds=1)
    found = data_path.cases(options)
    stock, ours, pairs = found.values()
    assert len(stock.dataset) == len(ours.dataset) >= 5
    for index in range(len(ours.dataset)):
        block = stock.dataset[index]["target"].tolist()
        assert block[1:] == ours.dataset.streams[0].read(index, None)[0].tolist()
    assert (
        stock.tokens
        == ours.tokens
        == sum(len(stock.dataset[index]["target"]) - 1 for index in range(len(stock.dataset)))
    )
    assert pairs.tokens == int(pairs.dataset.sizes[:, 0].sum())
    assert stock.run() == stock.tokens + len(stock.dataset), "the stock target is the whole block with its <s>"
    table = data_path.render({"results": data_path.compare(options)})
    assert table.count("\n") == 4 and "1.00 (1.00 to 1.00)" in table


def test_verdicts_name_what_is_missed() -> None:
    row = {"loss": "ctc", "weight": "frozen", "variant": "chunked", "time_ratio": [1.2, 1.1, 1.3], "memory_ratio": 0.05}
    lines = [results.verdict({"results": [row]}, bar) for bar in results.BARS["vocab_losses"]]
    assert "**missed** (1.200)" in lines[0]
    assert "holds (0.050)" in lines[1]
    assert "not measured" in lines[2]


def test_deltalm_against_stock() -> None:
    options = Namespace(
        vocab=60, decoding_vocab=60, layers=2, width=16, heads=2, batch=2, sentences=2, length=6, rounds=1
    )
    found = deltalm.decoding(options, CPU)
    assert [(row["system"], row["sentences"]) for row in found] == [
        (name, count) for count in (1, 2) for name in (deltalm.PEER, deltalm.OURS)
    ]
    sizes = {row["system"]: row["decoder_parameters"] for row in found}
    assert sizes[deltalm.OURS] == pytest.approx(sizes[deltalm.PEER], rel=0.02), "the peer must be as large"
    stock, chunked = deltalm.training(options, CPU)
    assert stock["loss"] == pytest.approx(chunked["loss"], rel=1e-5) and stock["time_ratio"] == [1.0, 1.0, 1.0]
    text = deltalm.render({"results": [*found, stock, chunked]})
    assert text.count("DeltaLM, interleaved decoder") == 2 and "chunked criterion" in text
    (bar,) = results.BARS["deltalm"]
    slow = [{**row, "speed_ratio": [0.8, 0.8, 0.8]} for row in found]
    assert "**missed**" in results.verdict({"results": slow}, bar)
