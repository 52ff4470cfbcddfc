"""Precision, coverage, the paired test, and lexicons of another language or direction."""

import pytest
from scipy.stats import binomtest

from data_prep import score_lexicon
from data_prep.io import read_json
from data_prep.lexicon_files import check_direction
from data_prep.score_lexicon import mcnemar, score
from tests.csr_builders import write_raw
from tests.unit.data_prep.files import refused

LEXICON = {"dog": ["katze", "hund", "tier"], "cat": ["katze", "hund"], "sun": ["mond", "stern"], "one": ["eins"]}
DICTIONARY = {"dog": ["hund", "köter"], "cat": ["katze"], "sun": ["sonne"], "tree": ["baum"]}


def test_precision_and_coverage_by_hand():
    both = dict.fromkeys(("p@2", "p@5"), pytest.approx(200 / 3))
    assert score(LEXICON, DICTIONARY, [1, 2, 5]) == {
        "words": 3,
        "coverage": 75.0,
        "p@1": pytest.approx(100 / 3),
        **both,
    }
    # The sun's translation is not in the target vocabulary: it cannot be found and does not count.
    fewer = score(LEXICON, DICTIONARY, [1], targets={"hund", "katze", "mond", "stern"})
    assert fewer == {"words": 2, "coverage": 50.0, "p@1": 50.0}
    baseline = {"dog": ["hund"], "cat": ["hund", "katze"], "moon": ["mond"]}
    found = score(LEXICON, DICTIONARY, [1, 2], baseline=baseline)  # on common words
    assert (found["words"], found["p@1"], found["baseline"]["p@1"]) == (2, 50.0, 50.0)
    assert found["mcnemar"] == {"only_first": 1, "only_second": 1, "p": 1.0}


@pytest.mark.parametrize(("first", "second"), [(0, 0), (5, 0), (3, 9), (12, 4), (40, 22)])
def test_mcnemar_is_the_binomial_test(first, second):
    right = {number: number < first for number in range(first + second + 4)}
    other = {number: first <= number < first + second for number in right}
    found = mcnemar({**right, -1: True}, {**other, -1: True})
    assert (found["only_first"], found["only_second"]) == (first, second)
    expected = binomtest(first, first + second).pvalue if first + second else 1.0
    assert found["p"] == pytest.approx(expected)


def test_the_wrong_direction_and_language():
    names = ("--lexicon L", "--dictionary D")
    assert check_direction(LEXICON, DICTIONARY, *names) is None
    for dictionary, words in (
        (
            {"hund": ["dog"], "katze": ["cat"], "sonne": ["sun"]},
            "0 of 3 pairs have both words in --lexicon L, but 2 the",
        ),
        ({"perro": ["hund2"]}, "none of its source words is in --lexicon L"),
        ({"dog": ["chien"], "cat": ["chat"]}, "none of its pairs is in --lexicon L"),
    ):
        refused(["--dictionary D: ", words], check_direction, LEXICON, dictionary, *names)
    large = {f"w{i}": [f"z{i}"] for i in range(100)}
    french = {f"w{i}": [f"q{i}" if i else "z5"] for i in range(100)}
    assert "only 1 of 100 are among its targets: another language?" in str(check_direction(large, french, *names))


def files(folder):
    """The lexicons of above."""
    rows = [f"{word}\t{each}\t0.5\t{rank}" for word, found in LEXICON.items() for rank, each in enumerate(found, 1)]
    return {
        "lexicon": write_raw(folder / "l.tsv", *rows),
        "dictionary": write_raw(folder / "d.txt", "DOG Hund", "dog Köter", "Cat Katze", "sun sonne"),
        "more": write_raw(folder / "e.txt", "tree baum", "dog hund"),
        "reverse": write_raw(folder / "r.txt", *(f"{word} x" for word in ("hund", "katze", "mond", "stern"))),
        "baseline": write_raw(folder / "b.txt", "dog hund", "cat hund", "sun mond"),
    }


def test_the_command_line(tmp_path, capsys):
    paths = files(tmp_path)
    line = ["--lexicon", paths["lexicon"], "--dictionary", paths["dictionary"], paths["more"]]

    def table(*more):
        score_lexicon.main([*map(str, [*line, *more])])
        return capsys.readouterr().out

    shown = table("--baseline", paths["baseline"], "--json", tmp_path / "s.json", "--at", "1,2")
    assert "| lexicon | 3 | 75.0 | 33.3 | 66.7 |\n| baseline | 3 | 75.0 | 33.3 | 33.3 |" in shown
    assert "1 words right only in the lexicon, 1 only in the baseline; McNemar p = 1.000" in shown
    assert read_json(tmp_path / "s.json")["words"] == 3
    assert "| lexicon | 2 | 50.0 | 50.0 |" in table("--reverse", paths["reverse"])
    assert "| lexicon | 2 | 40.0 | 0.0 | 50.0 | 50.0 |" in table("--cased")


def test_bad_files_are_refused(tmp_path):
    paths = files(tmp_path)
    (tmp_path / "latin").write_bytes(b"caf\xe9 x\n")
    (tmp_path / "empty").write_bytes(b"")
    write_raw(tmp_path / "one", "dog hund", "dog tier")
    given = ["--lexicon", str(paths["lexicon"]), "--dictionary", str(paths["dictionary"])]
    for name, message in [
        ("latin", "line 1: byte 0xe9 is not UTF-8"),
        ("empty", "holds no pair; valid: at least 2 source words"),
        ("one", "holds one source word, 'dog'"),
        ("none", "there is no such file"),
    ]:
        refused(["--lexicon: lexicon ", message], score_lexicon.main, ["--lexicon", str(tmp_path / name), *given[2:]])
    for name in ("lexicon", "dictionary"):
        before = paths[name].read_bytes()
        refused(f": is the file of --{name} too", score_lexicon.main, [*given, "--json", str(paths[name])])
        assert paths[name].read_bytes() == before
    for ranks in ("0", "1,x", ""):
        refused(f"--at {ranks}: valid: whole numbers from 1", score_lexicon.parse_ranks, ranks)
