"""The benchmark of trained systems: ratios, scores and curves by hand. No time is asserted."""

import pytest

from benchmarks import trained, trained_systems
from benchmarks.trained import Run


def test_what_passes_cost_by_hand():
    def run(*seconds):
        return Run([7.0], list(seconds), [], [])

    allowed, forced = [run(1, 5), run(2, 2), run(9)], [run(2, 1), run(1, 1), run(3)]
    assert trained.compare_passes(allowed, forced) == [2.0, 2.0, 3.0]


def test_a_row_by_hand():
    texts = ["a b c d e", "f g h i j"]

    def run(total, model, steps):
        return Run(total, model, texts, steps)

    runs = {
        ("AT, beam 1", 1): [run([2.0, 6.0], [2.0, 2.0], []), run([4.0, 4.0], [1.0, 1.0], []), run([9.0, 9.0], [9.0, 9.0], [])],
        ("AT, beam 1", 2): [run([3.0], [2.0], []), run([1.0], [2.0], []), run([8.0], [2.0], [])],
        ("SGA, x", 1): [run([1.0, 1.0], [1.0, 1.0], [1, 2]), run([2.0, 2.0], [1.0, 1.0], []), run([2.0, 1.0], [1.0, 2.0], [])],
        ("SGA, x", 2): [run([1.0], [1.0], []), run([1.0], [1.0], []), run([4.0], [1.0], [])],
    }  # fmt: skip
    speed = trained.describe_speed("SGA, x", "AT, beam 1", runs, 2)
    assert (speed["sentences_per_s"], speed["batch_sentences_per_s"]) == (2 / 3, 2.0)
    assert (speed["speedup"], speed["model_only_speedup"], speed["batch_speedup"]) == (4.0, 2.0, 2.0)
    assert (speed["p50"], speed["p95"]) == (2.0, 2.0)
    run = runs["SGA, x", 1][0]
    trained.describe_quality(run, [["", texts[1]]], "bleu")  # an empty line of the first reference is one
    quality = trained.describe_quality(run, [texts], "bleu")
    assert (quality["bleu"], quality["length_ratio"]) == (100.0, 1.0)
    assert (quality["passes"], quality["mean_passes"]) == ({"1": 1, "2": 1}, 1.5)


def test_options_of_a_generator_belong_to_a_system():
    assert trained_systems.parse_generation(['SGA={"a": 1}'], ["AT", "SGA"]) == {"SGA": {"a": 1}}
    for wrong in ('X={"a": 1}', "SGA=1", "SGA={", "SGA"):
        with pytest.raises(ValueError, match="valid: NAME="):
            trained_systems.parse_generation([wrong], ["AT", "SGA"])
