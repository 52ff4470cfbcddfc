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


@pytest.mark.parametrize(("first", "second"), [(0, 0), (5, 0), (3, 9)])
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


def test_the_command_line(tmp_path, capsys):
    rows = [f"{word}\t{each}\t0.5\t{rank}" for word, found in LEXICON.items() for rank, each in enumerate(found, 1)]
    lexicon = write_raw(tmp_path / "l.tsv", *rows)
    dictionary = write_raw(tmp_path / "d.txt", "DOG Hund", "dog Köter", "Cat Katze", "sun sonne", "tree baum")
    baseline = write_raw(tmp_path / "b.txt", "dog hund", "cat hund", "sun mond")
    line = ["--lexicon", str(lexicon), "--dictionary", str(dictionary), "--baseline", str(baseline)]
    score_lexicon.main([*line, "--json", str(tmp_path / "s.json"), "--at", "1,2"])
    shown = capsys.readouterr().out
    assert "| lexicon | 3 | 75.0 | 33.3 | 66.7 |\n| baseline | 3 | 75.0 | 33.3 | 33.3 |" in shown
    assert read_json(tmp_path / "s.json")["words"] == 3
    before = lexicon.read_bytes()
    refused(": is the file of --lexicon too", score_lexicon.main, [*line, "--json", str(lexicon)])
    assert lexicon.read_bytes() == before
    (tmp_path / "latin").write_bytes(b"caf\xe9 x\n")
    words = ["--lexicon: lexicon ", "line 1: byte 0xe9 is not UTF-8"]
    refused(words, score_lexicon.main, ["--lexicon", str(tmp_path / "latin"), *line[2:]])
