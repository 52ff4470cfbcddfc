"""Test F1 of words by training frequency: counts by hand and in a slow loop, the bootstrap."""

import random
from collections import Counter

import numpy as np
import pytest

from fairseq_plugins.analysis.frequency_f1 import count_matches, p_value, resample, score
from tests.unit.analysis.commands import read_refusal, run, write_lines

# Frequencies: the 4, cat 3; mat a rare sat on dog 1; zebra at okapi 0.
TEXTS = {
    "train": ["the the the the", "cat mat a", "Cat, cat!", "rare sat on dog"],
    "reference": ["the cat sat on the mat", "a dog", "the rare zebra"],
    "first": ["the cat sat at the the mat", "a cat", "the zebra"],
    "second": ["the cat sat on the mat", "dog a dog", "the rare okapi"],
}


@pytest.fixture
def line(tmp_path):
    paths = {name: write_lines(tmp_path / name, *lines) for name, lines in TEXTS.items()}
    files = ["--train", paths["train"], "--reference", paths["reference"]]
    return [*files, "--output", f"one={paths['first']}", f"two={paths['second']}"]


def count_slowly(output, reference, frequencies, edges):
    """Match each word of the output with an unused word of the reference, as compare-mt does.

    Returns matched, produced and expected words for each bucket, then for all.
    """
    counts = [[0, 0, 0] for _ in range(len(edges) + 2)]

    def count(word, column):
        bucket = sum(frequencies[word] >= edge for edge in edges)
        counts[bucket][column] += 1
        counts[-1][column] += 1

    unused = list(reference)
    for word in output:
        count(word, 1)
        if word in unused:
            unused.remove(word)
            count(word, 0)
    for word in reference:
        count(word, 2)
    return counts


def test_the_command_by_hand(line, tmp_path, capsys):
    """The edges 2 and 4 put words of the frequencies 0 and 1 into the lowest bucket.

    Output one, lowest bucket. Reference: sat on mat a dog rare zebra = 7. Output: sat at mat a
    zebra = 5. Matched: all but at = 4. The cat of the second sentence matches nothing, nor does
    the third "the" of a sentence.
    """
    files = ["--tsv", tmp_path / "x.tsv", "--plot", tmp_path / "x.svg"]
    options = ["--edges", "2", "4", "--samples", "50", *files]
    content = run("frequency-f1", tmp_path / "x.json", *line, *options)
    rows = {(row["output"], row["bucket"]): row for row in content["rows"]}
    for bucket, counts in (
        ("<2", [4, 5, 7]),
        ("2–3", [1, 2, 1]),
        (">3", [3, 4, 3]),
        ("all", [8, 11, 11]),
    ):
        row = rows["one", bucket]
        assert [row[name] for name in ("matched", "produced", "expected")] == counts
    low = rows["one", "<2"]
    assert (low["precision"], low["recall"], low["f1"]) == pytest.approx((4 / 5, 4 / 7, 8 / 12))
    assert low["difference"] is None
    assert rows["two", "<2"]["difference"] == pytest.approx(rows["two", "<2"]["f1"] - low["f1"])
    assert f"{100 * low['f1']:.1f}" in capsys.readouterr().out
    table = (tmp_path / "x.tsv").read_text(encoding="utf-8").split("\n")
    assert table[1].split("\t")[:3] == ["one", "<2", "4"]


def test_random_sentences_equal_a_slow_loop():
    draw = random.Random(3)
    words = [f"w{number}" for number in range(12)]
    frequencies = Counter({word: number**2 for number, word in enumerate(words)})
    outputs, references = (
        [draw.choices(words, k=draw.randrange(9)) for _ in range(40)] for _ in range(2)
    )
    edges = (1, 30, 64)
    counts = count_matches(outputs, references, frequencies, edges)
    pairs = zip(outputs, references)
    assert counts.tolist() == [count_slowly(*pair, frequencies, edges) for pair in pairs]


def test_samples_are_of_sentences_and_the_same_for_every_output():
    counts = np.random.default_rng(5).integers(1, 6, size=(30, 2, 3))
    samples = resample([counts, counts, counts[::-1]], 100, 7)
    assert samples.shape == (3, 100, 2)
    assert (samples[0] == samples[1]).all() and not (samples[0] == samples[2]).all()
    assert not (resample([counts], 100, 8)[0] == samples[0]).all()
    weights = np.random.default_rng(7).multinomial(30, np.full(30, 1 / 30), size=64)
    sums = (weights[:, :, None, None] * counts[None]).sum(1)
    np.testing.assert_allclose(samples[0, :64], 2 * sums[..., 0] / (sums[..., 1] + sums[..., 2]))


def test_p_by_hand():
    """The centred samples are -2 -1 0 1 2 around 3; two of them lie farther away than 1.5."""
    samples = np.array([1.0, 2.0, 3.0, 4.0, 5.0, np.nan])
    assert p_value(samples, 1.5) == pytest.approx(3 / 6)
    assert p_value(samples, -1.5) == pytest.approx(3 / 6)
    assert p_value(samples, 4.0) == pytest.approx(1 / 6)
    assert p_value(np.array([np.nan]), 1.0) is None


def test_the_interval_holds_95_percent_of_the_samples():
    """The 6th and the 196th of 201 sorted samples lie 2.5 % of 200 steps from either end."""
    counts = np.random.default_rng(5).integers(1, 9, size=(2, 40, 3, 3))
    counts[0, :, 1] += 20  # so that outputs and buckets lie apart
    counts[:, :, 2] = 0  # F1 of nothing is missing
    rows = score({"x": counts[0], "y": counts[1]}, ["<2", ">1", "all"], 201, 1)
    samples = resample([counts[0], counts[1]], 201, 1)
    for place in (0, 1, 3, 4):
        ordered = sorted(samples[place // 3, :, place % 3])
        assert rows[place].span == pytest.approx((ordered[5], ordered[195]))
    for place, row in enumerate(rows[3:5]):
        differences = samples[1, :, place] - samples[0, :, place]
        assert row.p == p_value(differences, row.difference)
    empty = rows[5]
    assert [empty.f1, empty.precision, empty.span, empty.difference, empty.p] == [None] * 5


def test_bad_input_is_refused(line, tmp_path, capsys):
    short = write_lines(tmp_path / "short", "a")
    for bad_line, message in (
        ([*line, "--edges", "9", "3"], "--edges 9 3"),
        ([*line[:-1], f"two={short}"], "--reference 3, one 3, two 1"),
    ):
        assert message in read_refusal(capsys, "frequency-f1", *bad_line)
