"""Cleaning: each fix, each reason to drop, the bookkeeping, and what happens with bad options."""

import random

import pytest

from data_prep.clean import Filter, Normaliser, Rules, clean_files, main
from data_prep.io import read_json, sha256
from tests.unit.data_prep.files import refused


@pytest.mark.parametrize(
    ("line", "expected", "fix"),
    [
        ("as it is", "as it is", None),
        ("windows\r", "windows", "carriage return at the end"),
        ("old\rmac", "old mac", "line separators"),
        ("a\u2028b\x85c", "a b c", "line separators"),
        ("zero\x00byte", "zerobyte", "line separators"),
        ("\ufeffmark", "mark", "control characters"),
        ("be\x07ll\x7f", "bell", "control characters"),
        ("cafe\u0301", "caf\u00e9", "unicode form"),
        ("  two \t\u00a0 words\u3000", "two words", "white space"),
        ("zero\u200dwidth\u200cjoiners stay", "zero\u200dwidth\u200cjoiners stay", None),
    ],
)
def test_fixes(line, expected, fix):
    normaliser = Normaliser("NFC")
    assert normaliser(line) == expected
    assert (fix is None and not normaliser.changed) or normaliser.changed[fix] == 1


@pytest.mark.parametrize("form", ["NFC", "NFKC", "none"])
def test_cleaning_twice_changes_nothing(form):
    rng = random.Random(7)
    alphabet = "ab \t\r\x00\x07\x85\u2028\ufeff\u0301\u00a8\u00a0\u2000\u1100\u1161\u11a8\ufb01\u200d"
    for _ in range(500):
        once = Normaliser(form)("".join(rng.choices(alphabet, k=12)))
        again = Normaliser(form)
        assert again(once) == once
        assert not again.changed
        assert once.split() == (once.split(" ") if once else [])


@pytest.mark.parametrize(
    ("rules", "lines", "reason"),
    [
        ({}, ("a", ""), "empty"),
        ({"min_length": 2}, ("a b", "c"), "too short"),
        ({"max_length": 2}, ("a b", "a b c"), "too long"),
        ({"max_length": 3, "unit": "characters"}, ("abc", "ab c"), "too long"),
        ({"max_ratio": 2}, ("a b", "a b c d e"), "length ratio"),
        ({"max_ratio": 2}, ("a b", "a b c d"), None),
        ({"max_ratio": 2}, ("a b", "a b c", "a"), "length ratio"),
        ({"normalise_only": True, "max_length": 1}, ("a b c", ""), None),
    ],
)
def test_reasons(rules, lines, reason):
    verdict = Filter(Rules(**rules), [f"file{i}" for i in range(len(lines))])(lines)
    assert (verdict and verdict[0]) == reason


@pytest.mark.parametrize(
    ("dedup", "kept"),
    [
        ("none", ["1a", "1a", "1b", "2a", "3c", "a3"]),
        ("tuple", ["1a", "1b", "2a", "3c", "a3"]),
        ("first", ["1a", "2a", "3c", "a3"]),
        ("any", ["1a", "3c", "a3"]),
    ],
)
def test_duplicates(dedup, kept):
    select = Filter(Rules(dedup=dedup), ["x", "y"])
    rows = ["1a", "1a", "1b", "2a", "3c", "a3"]
    assert [row for row in rows if select(tuple(row)) is None] == kept


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "NFD"}, "--form NFD: valid: NFC, NFKC, none"),
        ({"dedup": "all"}, "--dedup all: valid: tuple"),
        ({"min_length": 0}, "--min-length 0: valid: 1 or more"),
        ({"min_length": 9, "max_length": 8}, "--max-length 8: valid: 0 (no limit), or at least --min-length (9)"),
        ({"max_ratio": 0.5}, "--max-ratio 0.5: valid: 0 (no limit) or 1 or more"),
        ({"max_ratio": float("nan")}, "--max-ratio nan"),
    ],
)
def test_bad_options(options, message):
    refused(message, Rules, **options)


@pytest.fixture
def three(tmp_path):
    """Three parallel files, seven lines: 3, 4, 5, 6 and 7 are to be dropped."""
    texts = {
        "en": "\ufeffa cat\r\na dog\u2028here\r\n\r\na cat\r\na b c d e f\r\none two three four five six seven\r\nx\n",
        "de": "eine Katze\nein  Hund hier\nleer\neine Katze\na\neins\ny\n",
        "fr": "un chat\nun chien ici\nvide\nun chat\nb\nun\n\x07\n",
    }
    for lang, text in texts.items():
        (tmp_path / f"raw.{lang}").write_bytes(text.encode())
    return [tmp_path / f"raw.{lang}" for lang in texts], [tmp_path / "out" / f"clean.{lang}" for lang in texts]


def test_three_files_with_manifest_and_table(three, tmp_path):
    inputs, outputs = three
    table = tmp_path / "dropped.tsv"
    options = ["--max-length", "6", "--max-ratio", "5", "--dropped-table", str(table)]
    main(["--inputs", *map(str, inputs), "--outputs", *map(str, outputs), *options])
    assert outputs[0].read_bytes() == b"a cat\na dog here\n"
    assert outputs[1].read_bytes() == b"eine Katze\nein Hund hier\n"
    assert outputs[2].read_bytes() == b"un chat\nun chien ici\n"
    assert table.read_text().splitlines() == [
        "line\treason\tdetails",
        "3\tempty\traw.en",
        "4\tduplicate\tby tuple",
        "5\tlength ratio\t6.00",
        "6\ttoo long\traw.en: 7 words",
        "7\tempty\traw.fr",
    ]
    manifest = read_json(tmp_path / "out" / "clean.json")
    counts = manifest["counts"]
    assert (counts["read"], counts["kept"]) == (7, 2)
    assert counts["dropped"] == {"empty": 2, "too short": 0, "too long": 1, "length ratio": 1, "duplicate": 1}
    changed = {"carriage return at the end": 6, "control characters": 2, "line separators": 1}
    assert changed.items() <= counts["changed"].items()
    for name, paths in (("inputs", inputs), ("outputs", outputs)):
        assert [row["sha256"] for row in manifest[name]] == [sha256(path) for path in paths]
    assert manifest["options"]["max_ratio"] == 5


def test_bad_files_leave_nothing_behind(three, tmp_path):
    inputs, outputs = three
    (tmp_path / "short").write_bytes(b"x\n")
    (tmp_path / "latin").write_bytes(b"ok\n\xe9\n")
    (tmp_path / "none").write_bytes(b"")
    rules, manifest = Rules(), tmp_path / "m.json"
    for bad, outs, how, message in (
        ([inputs[0], tmp_path / "short"], outputs[:2], rules, "unequal line counts"),
        ([inputs[0], tmp_path / "latin"], outputs[:2], rules, "latin, line 2: not UTF-8"),
        ([tmp_path / "none", inputs[0]], outputs[:2], rules, "none: the file is empty"),
        (inputs, outputs, Rules(unit="characters", max_length=1), "none of 7 lines would be left; dropped: empty 2, "),
        (inputs, outputs[:1], rules, "--outputs: 1 files for 3"),
        (inputs, inputs, rules, "would overwrite an input"),
    ):
        refused(message, clean_files, bad, outs, how, manifest)
    assert not manifest.exists()
    assert list(outputs[0].parent.iterdir()) == []
