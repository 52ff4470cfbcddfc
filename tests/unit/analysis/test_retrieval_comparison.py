"""The paired test of two retrievals: equal to every assignment of signs, by hand, and what is refused."""

import itertools
import json
import re

import numpy as np
import pytest

from fairseq_plugins.analysis import retrieval_comparison as room


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
    assert room.main([str(first), str(other), "--json", str(tmp_path / "x.json")]) == 0
    (found,) = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))["comparisons"]
    assert found["first"] == "a.json" and found["than"] == "b.json"
    assert found["ours"] == pytest.approx(100 * 4.5 / 6)
    assert found["theirs"] == pytest.approx(100 * 2.5 / 6)
    assert found["difference"] == pytest.approx(100 * 2 / 6)
    assert found["p"] == pytest.approx(exact([0.5, 0.5, 0, 0, 0, 1]), abs=0.02)
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in capsys.readouterr().out.splitlines()
        if "json" in line
    ]
    assert lines[1] == ["a.json", "3", "62.5", "100.0", "75.0", "", ""]
    assert lines[2][:6] == ["b.json", "2", "37.5", "50.0", "41.7", "+33.3"]


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
    first = written(tmp_path / "a.json", {"de-en": ["1101", "1001"]})
    second = written(tmp_path / "b.json", other)
    with pytest.raises(SystemExit) as status:
        room.main([str(first), str(second)])
    assert status.value.code == 2
    assert re.search(message, capsys.readouterr().err.replace("\n", " "))


def test_bad_command_lines(tmp_path, capsys):
    first = str(written(tmp_path / "a.json", {"de-en": ["11", "10"]}))
    for line, message in (
        ([first, first], "is there twice"),
        ([first, str(tmp_path / "b.json")], "b.json: valid: a file that retrieval"),
        ([first, str(tmp_path / "b.json"), "--samples", "0"], "--samples must be 1 or more; got 0"),
    ):
        with pytest.raises(SystemExit):
            room.main(line)
        assert message in capsys.readouterr().err
