"""Test the benchmark of trained systems: ratios, scores and curves by hand."""

import pytest

from benchmarks import trained, trained_systems
from benchmarks.trained import Run


def test_cost_of_passes_by_hand():
    def run(*seconds):
        return Run([7.0], list(seconds), [], [])

    allowed, forced = [run(1, 5), run(2, 2), run(9)], [run(2, 1), run(1, 1), run(3)]
    assert trained.compare_passes(allowed, forced) == [2.0, 2.0, 3.0]


def test_speed_and_quality_by_hand():
    texts = ["a b c d e", "f g h i j"]

    def run(total, model, steps=()):
        return Run(total, model, texts, list(steps))

    at, sga = "AT, beam 1", "SGA, x"
    sga_run = run([1.0, 1.0], [1.0, 1.0], [1, 2])
    runs = {
        (at, 1): [run([2, 6], [2, 2]), run([4, 4], [1, 1]), run([9, 9], [9, 9])],
        (at, 2): [run([3], [2]), run([1], [2]), run([8], [2])],
        (sga, 1): [sga_run, run([2, 2], [1, 1]), run([2, 1], [1, 2])],
        (sga, 2): [run([1], [1]), run([1], [1]), run([4], [1])],
    }
    speed = trained.describe_speed(sga, at, runs, 2)
    assert (speed["sentences_per_s"], speed["batch_sentences_per_s"]) == (2 / 3, 2.0)
    speedups = (speed["speedup"], speed["model_only_speedup"], speed["batch_speedup"])
    assert speedups == (4.0, 2.0, 2.0)
    assert (speed["p50"], speed["p95"]) == (2.0, 2.0)
    trained.describe_quality(sga_run, [["", texts[1]]], "bleu")  # an empty line is a reference
    quality = trained.describe_quality(sga_run, [texts], "bleu")
    assert (quality["bleu"], quality["length_ratio"]) == (100.0, 1.0)
    assert (quality["passes"], quality["mean_passes"]) == ({"1": 1, "2": 1}, 1.5)


def test_options_of_a_generator_belong_to_a_system():
    options = trained_systems.parse_generation(['SGA={"a": 1}'], ["AT", "SGA"])
    assert options == {"SGA": {"a": 1}}
    for option in ('X={"a": 1}', "SGA=1", "SGA={", "SGA"):
        with pytest.raises(ValueError, match="valid: NAME="):
            trained_systems.parse_generation([option], ["AT", "SGA"])
