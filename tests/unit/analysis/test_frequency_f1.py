"""F1 of words by training frequency: hand-worked counts, a slow loop, the bootstrap, mistakes."""

import random
from collections import Counter

import numpy as np
import pytest

from fairseq_plugins.analysis.frequency_f1 import count_matches, p_value, resample, score
from tests.unit.analysis.commands import refused, run, written

REFERENCE = ["the cat sat on the mat", "a dog", "the rare zebra"]
FIRST = ["the cat sat at the the mat", "a cat", "the zebra"]
SECOND = ["the cat sat on the mat", "dog a dog", "the rare okapi"]
TRAIN = ["the the the the", "cat mat a", "Cat, cat!", "rare sat on dog"]
"""the 4, cat 3; mat a rare sat on dog 1; zebra at okapi 0."""


def write(folder):
    texts = {"train": TRAIN, "reference": REFERENCE, "first": FIRST, "second": SECOND}
    train, reference, first, second = (written(folder / name, *lines) for name, lines in texts.items())
    return ["--train", train, "--reference", reference, "--output", f"one={first}", f"two={second}"]


def rows(folder, *line):
    """(output, bucket) -> row of the JSON file."""
    found = run("frequency-f1", folder / "x.json", *line)["rows"]
    return {(row["output"], row["bucket"]): row for row in found}


def slow_counts(ours, theirs, frequencies, edges):
    """Match each word of the output with an unused one of the reference, as compare-mt does; bucket by bucket."""
    found = [[0, 0, 0] for _ in range(len(edges) + 2)]

    def bucket(word):
        return sum(frequencies[word] >= edge for edge in edges)

    left = list(theirs)
    for word in ours:
        for place in (bucket(word), -1):
            found[place][1] += 1
        if word in left:
            left.remove(word)
            for place in (bucket(word), -1):
                found[place][0] += 1
    for word in theirs:
        for place in (bucket(word), -1):
            found[place][2] += 1
    return found


def test_the_command_by_hand(tmp_path, capsys):
    """Edges 2 and 4: the lowest bucket has zebra, at and okapi, which are not in the training text, and the words with 1.

    Output one, lowest bucket. Reference: sat on mat a dog rare zebra = 7. Output: sat at mat a zebra = 5. Matched: all but at = 4.
    The cat of the second sentence matches nothing, nor does the third "the" of a sentence.
    """
    line, numbers = write(tmp_path), ("matched", "produced", "expected")
    more = ["--edges", "2", "4", "--samples", "50"]
    found = rows(tmp_path, *line, *more, "--tsv", tmp_path / "x.tsv", "--plot", tmp_path / "x.svg")
    counts = {bucket: [found["one", bucket][name] for name in numbers] for bucket in ("<2", "2–3", ">3", "all")}
    assert counts == {"<2": [4, 5, 7], "2–3": [1, 2, 1], ">3": [3, 4, 3], "all": [8, 11, 11]}
    low = found["one", "<2"]
    assert (low["precision"], low["recall"], low["f1"]) == pytest.approx((4 / 5, 4 / 7, 8 / 12))
    assert low["difference"] is None
    assert found["two", "<2"]["difference"] == pytest.approx(found["two", "<2"]["f1"] - low["f1"])
    assert f"{100 * low['f1']:.1f}" in capsys.readouterr().out
    assert (tmp_path / "x.tsv").read_text(encoding="utf-8").split("\n")[1].split("\t")[:3] == ["one", "<2", "4"]


def test_random_sentences_equal_a_slow_loop():
    draw = random.Random(3)
    words = [f"w{number}" for number in range(12)]
    frequencies = Counter({word: number**2 for number, word in enumerate(words)})
    texts = [[[draw.choice(words) for _ in range(draw.randrange(9))] for _ in range(40)] for _ in range(2)]
    found = count_matches(*texts, frequencies, (1, 30, 64))
    expected = [slow_counts(ours, theirs, frequencies, (1, 30, 64)) for ours, theirs in zip(*texts)]
    assert found.tolist() == expected


def test_samples_are_of_sentences_and_the_same_for_every_output():
    counts = np.random.default_rng(5).integers(1, 6, size=(30, 2, 3))
    drawn = resample([counts, counts, counts[::-1]], 100, 7)
    assert drawn.shape == (3, 100, 2)
    assert (drawn[0] == drawn[1]).all() and not (drawn[0] == drawn[2]).all()
    assert not (resample([counts], 100, 8)[0] == drawn[0]).all()
    again = np.random.default_rng(7).multinomial(30, np.full(30, 1 / 30), size=64)
    sums = (again[:, :, None, None] * counts[None]).sum(1)
    np.testing.assert_allclose(drawn[0, :64], 2 * sums[..., 0] / (sums[..., 1] + sums[..., 2]))


def test_p_by_hand():
    """Centred: -2 -1 0 1 2 around 3; two of them lie farther away than 1.5."""
    samples = np.array([1.0, 2.0, 3.0, 4.0, 5.0, np.nan])
    assert p_value(samples, 1.5) == pytest.approx(3 / 6)
    assert p_value(samples, -1.5) == pytest.approx(3 / 6)
    assert p_value(samples, 4.0) == pytest.approx(1 / 6)
    assert p_value(np.array([np.nan]), 1.0) is None


def test_the_interval_holds_95_percent_of_the_samples():
    """Of 201 samples in order the 6th and the 196th: 2.5 % of 200 steps from either end. F1 of nothing is missing."""
    counts = np.random.default_rng(5).integers(1, 9, size=(2, 40, 3, 3))
    counts[0, :, 1] += 20  # so that outputs and buckets lie apart
    counts[:, :, 2] = 0
    rows = score({"x": counts[0], "y": counts[1]}, ["<2", ">1", "all"], 201, 1)
    drawn = resample([counts[0], counts[1]], 201, 1)
    for place in (0, 1, 3, 4):
        ordered = sorted(drawn[place // 3, :, place % 3])
        assert rows[place].span == pytest.approx((ordered[5], ordered[195]))
    for place, row in enumerate(rows[3:5]):
        assert row.p == p_value(drawn[1, :, place] - drawn[0, :, place], row.difference)
    assert [rows[5].f1, rows[5].precision, rows[5].span, rows[5].difference, rows[5].p] == [None] * 5


def test_mistakes(tmp_path, capsys):
    line = write(tmp_path)
    short = written(tmp_path / "short", "a")
    for more, message in (
        ([*line, "--edges", "9", "3"], "--edges 9 3: valid: ascending"),
        ([*line[:-1], f"two={short}"], "got --reference 3, one 3, two 1"),
    ):
        assert message in refused(capsys, "frequency-f1", *more)
