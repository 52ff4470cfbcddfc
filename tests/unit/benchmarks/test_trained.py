"""The benchmark of trained systems: ratios, scores and curves by hand. No time is asserted."""

import pytest

from benchmarks import trained, trained_systems
from benchmarks.trained import Run


def test_what_passes_cost_by_hand():
    def run(*seconds):
        return Run([7.0], list(seconds), [], [])

    allowed, forced = [run(1, 5), run(2, 2), run(9)], [run(2, 1), run(1, 1), run(3)]
    assert trained.to_one_pass(allowed, forced) == [2.0, 2.0, 3.0]


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
    trained.row("SGA, x", runs, "AT, beam 1", [["", texts[1]]], 2)  # an empty line of the first reference is one
    found = trained.row("SGA, x", runs, "AT, beam 1", [texts], 2)
    assert (found["sentences_per_s"], found["batch_sentences_per_s"]) == (2 / 3, 2.0)
    assert (found["speedup"], found["model_only_speedup"], found["batch_speedup"]) == (4.0, 2.0, 2.0)
    assert (found["p50"], found["p95"], found["bleu"], found["length_ratio"]) == (2.0, 2.0, 100.0, 1.0)
    assert (found["passes"], found["mean_passes"]) == ({"1": 1, "2": 1}, 1.5)


def test_options_of_a_generator_belong_to_a_system():
    assert trained_systems.generation_options(['SGA={"a": 1}'], ["AT", "SGA"]) == {"SGA": {"a": 1}}
    for wrong in ('X={"a": 1}', "SGA=1", "SGA={", "SGA"):
        with pytest.raises(ValueError, match="valid: NAME="):
            trained_systems.generation_options([wrong], ["AT", "SGA"])
