"""The paired test of two retrievals: equal to every assignment of signs, by hand, and what is refused."""

import itertools
import json
import re

import numpy as np
import pytest

from fairseq_plugins.analysis import retrieval_comparison as room
from tests.unit.analysis.commands import refused, run


def written(path, found, layer=3):
    path.write_text(json.dumps({"layer": layer, "found": found}), encoding="utf-8")
    return path


def exact(differences):
    """Share of all assignments whose sum is as large."""
    sums = [
        abs(sum(sign * each for sign, each in zip(signs, differences)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(one >= abs(sum(differences)) - 1e-9 for one in sums) / len(sums)


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_p_is_the_share_of_all_assignments(seed):
    differences = np.random.default_rng(seed).integers(-1, 3, 11) / 2
    expected = exact(differences.tolist())
    assert 0.005 < expected < 0.9, "the test must be able to see a difference"
    assert room.randomisation(differences, 20_000, 1) == pytest.approx(expected, abs=0.015)


def test_by_hand(tmp_path, capsys):
    """Sentences of all pairs count alike, and both directions half."""
    first = written(tmp_path / "a.json", {"de-en": ["1101", "1001"], "fr-en": ["11", "11"]})
    other = written(tmp_path / "b.json", {"fr-en": ["10", "10"], "de-en": ["0001", "1001"]}, layer=2)
    (found,) = run(room.main, tmp_path / "x.json", first, other)["comparisons"]
    assert (found.pop("first"), found.pop("than")) == ("a.json", "b.json")
    assert found.pop("p") == pytest.approx(exact([0.5, 0.5, 0, 0, 0, 1]), abs=0.02)
    assert found == pytest.approx({"ours": 100 * 4.5 / 6, "theirs": 100 * 2.5 / 6, "difference": 100 * 2 / 6})
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith(("| a", "| b"))]
    assert rows[0][1:12:2] == ["a.json", "3", "62.5", "100.0", "75.0", "|"]
    assert rows[1][1:12:2] == ["b.json", "2", "37.5", "50.0", "41.7", "+33.3"]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"de-en": ["110", "100"]}, r"a.json, .*b.json: the files need the same pairs with as many sentences"),
        ({"fr-en": ["1101", "1001"]}, "the files need the same pairs"),
        ({}, "holds no sentence that was looked for"),
        ({"de-en": ["11", "1"]}, "valid: a file that retrieval tatoeba --json wrote"),
        ({"de-en": ["1x", "11"]}, "valid: a file that retrieval tatoeba --json wrote"),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path, capsys, other, message):
    first, second = written(tmp_path / "a.json", {"de-en": ["1101", "1001"]}), written(tmp_path / "b.json", other)
    assert re.search(message, refused(capsys, room.main, first, second))
    assert "is there twice" in refused(capsys, room.main, first, first)
    assert "c.json: valid: a file that retrieval" in refused(capsys, room.main, first, tmp_path / "c.json")
    assert "--samples must be 1 or more; got 0" in refused(capsys, room.main, first, second, "--samples", "0")
