"""Test cleaning, splitting and checking of parallel text: fixes, reasons, shares, bad options."""

import random

import pytest

from data_prep import layout
from data_prep.files import sha256
from data_prep.io import read_json
from data_prep.text import check, clean, split
from data_prep.text.clean import Filter, Normaliser, Rules, clean_files
from data_prep.text.split import Shares, split_files, split_of
from tests.nlu_bins import write
from tests.unit.data_prep.files import assert_refused, read_lines


@pytest.mark.cases(
    "line expected fix",
    ("as it is", "as it is", None),
    ("windows\r", "windows", "carriage return at the end"),
    ("a\u2028b\x85c", "a b c", "line separators"),
    ("zero\x00byte", "zerobyte", "line separators"),
    ("\ufeffmark", "mark", "control characters"),
    ("  two \t\u00a0 words\u3000", "two words", "white space"),
    ("zero\u200dwidth\u200cjoiners stay", "zero\u200dwidth\u200cjoiners stay", None),
)
def test_flaws_of_a_line_are_mended_and_counted(line, expected, fix):
    normaliser = Normaliser("NFC")
    assert normaliser(line) == expected
    assert (fix is None and not normaliser.changed) or normaliser.changed[fix] == 1


@pytest.mark.parametrize("form", ["NFC", "NFKC", "none"])
def test_cleaning_twice_changes_nothing(form):
    rng = random.Random(7)
    alphabet = (
        "ab \t\r\x00\x07\x85\u2028\ufeff\u0301\u00a8\u00a0\u2000\u1100\u1161\u11a8\ufb01\u200d"
    )
    for _ in range(500):
        clean_line = Normaliser(form)("".join(rng.choices(alphabet, k=12)))
        second = Normaliser(form)
        assert second(clean_line) == clean_line
        assert not second.changed
        assert clean_line.split() == (clean_line.split(" ") if clean_line else [])


@pytest.mark.cases(
    "dedup expected",
    ("none", ["1a", "1a", "1b", "2a", "3c", "a3"]),
    ("tuple", ["1a", "1b", "2a", "3c", "a3"]),
    ("first", ["1a", "2a", "3c", "a3"]),
    ("any", ["1a", "3c", "a3"]),
)
def test_duplicates_by_pair_or_by_side(dedup, expected):
    find_reason = Filter(Rules(dedup=dedup), ["x", "y"])
    rows = ["1a", "1a", "1b", "2a", "3c", "a3"]
    assert [row for row in rows if find_reason(tuple(row)) is None] == expected


def test_limits_of_length_and_ratio_are_inclusive():
    find_reason = Filter(Rules(min_length=2, max_length=4, max_ratio=2), ["x", "y"])
    assert find_reason(("a b", "a b c d")) is None
    for row, reason in ((("a b", "a"), "too short"), (("a b c", "a b c d e"), "too long")):
        assert find_reason(row).reason == reason


@pytest.fixture
def parallel_files(tmp_path):
    """Write three parallel files of seven lines, of which lines 3 to 7 are to be dropped."""
    texts = {
        "en": "\ufeffa cat\r\na dog\u2028here\r\n\r\na cat\r\na b c d e f\r\n1 2 3 4 5 6 7\r\nx\n",
        "de": "eine Katze\nein  Hund hier\nleer\neine Katze\na\neins\ny\n",
        "fr": "un chat\nun chien ici\nvide\nun chat\nb\nun\n\x07\n",
    }
    for lang, text in texts.items():
        (tmp_path / f"raw.{lang}").write_bytes(text.encode())
    outputs = [tmp_path / "out" / f"clean.{lang}" for lang in texts]
    return [tmp_path / f"raw.{lang}" for lang in texts], outputs


def test_three_files_are_cleaned_with_manifest_and_table(parallel_files, tmp_path):
    inputs, outputs = parallel_files
    table = tmp_path / "dropped.tsv"
    options = ["--max-length", "6", "--max-ratio", "5", "--dropped-table", str(table)]
    clean.main(["--inputs", *map(str, inputs), "--outputs", *map(str, outputs), *options])
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
    reasons = {"empty": 2, "too short": 0, "too long": 1, "length ratio": 1, "duplicate": 1}
    changed = {"carriage return at the end": 6, "control characters": 2, "line separators": 1}
    assert (counts["read"], counts["kept"], counts["dropped"]) == (7, 2, reasons)
    assert changed.items() <= counts["changed"].items()
    for name, paths in (("inputs", inputs), ("outputs", outputs)):
        assert [row["sha256"] for row in manifest[name]] == [sha256(path) for path in paths]
    assert manifest["options"]["max_ratio"] == 5


def test_cleaning_bad_files_leaves_nothing_behind(parallel_files, tmp_path):
    inputs, outputs = parallel_files
    short = write(tmp_path / "short", "x")
    (tmp_path / "latin").write_bytes(b"ok\n\xe9\n")
    manifest = tmp_path / "m.json"
    for sources, targets, rules, message in (
        ([inputs[0], short], outputs[:2], Rules(), "unequal line counts"),
        ([inputs[0], tmp_path / "latin"], outputs[:2], Rules(), "latin, line 2: not UTF-8"),
        (inputs, outputs, Rules(unit="characters", max_length=1), "dropped: empty 2, "),
        (inputs, inputs, Rules(), "would overwrite an input"),
    ):
        assert_refused(message, clean_files, sources, targets, rules, manifest)
    assert not manifest.exists()
    assert list(outputs[0].parent.iterdir()) == []
    for options, message in (
        ({"form": "NFD"}, "--form NFD: valid: NFC, NFKC, none"),
        ({"min_length": 9, "max_length": 8}, "--max-length 8: valid: 0 (no limit), or at least"),
        ({"max_ratio": float("nan")}, "--max-ratio nan"),
    ):
        assert_refused(message, Rules, **options)


@pytest.fixture
def corpus(tmp_path):
    """Write 600 pairs; every tenth source sentence occurs twice, with two translations."""
    rng = random.Random(3)
    sources = [f"sentence {rng.randrange(10**9)}" for _ in range(550)]
    rows = [(text, f"Satz {i}") for i, text in enumerate(sources + sources[::11])]
    rng.shuffle(rows)
    names = ("all.en", "all.de")
    return rows, [write(tmp_path / name, *column) for name, column in zip(names, zip(*rows))]


def test_the_split_of_a_sentence_never_changes():
    """Pin the hash, which is part of the interface."""
    pinned = {"a": "valid", "b": "valid", "c": "test", "e": "train", "g": "train", "h": "test"}
    shares = Shares(buckets=10, valid=2, test=1)
    assert {text: split_of([text], shares) for text in pinned} == pinned


@pytest.mark.cases(
    "shares hash_on salt",
    ("--valid-ratio 0.2 --test-ratio 0.1", "source", ""),
    ("--valid-ratio 0.2 --test-ratio 0.1", "tuple", "x"),
    ("--buckets 10 --valid-buckets 2 --test-buckets 1", "source", "x"),
    ("--buckets 10 --valid-buckets 2 --test-buckets 1", "tuple", ""),
)
def test_a_corpus_is_split_by_the_hash_of_its_lines(corpus, tmp_path, shares, hash_on, salt):
    rows, paths = corpus
    out = tmp_path / "o"
    options = ["--hash-on", hash_on, "--salt", salt, *shares.split()]
    split.main(["--inputs", *map(str, paths), "--output-dir", str(out), *options])
    parts = {}
    for name in ("train", "valid", "test"):
        parts[name] = list(zip(read_lines(out / f"{name}.en"), read_lines(out / f"{name}.de")))
        expected = Shares(10, 2, 1, hash_on, salt)
        assert parts[name] == [row for row in rows if split_of(row, expected) == name]
    assert sum(map(len, parts.values())) == len(rows)
    common_sources = {row[0] for row in parts["train"]} & {row[0] for row in parts["valid"]}
    assert bool(common_sources) == (hash_on == "tuple"), "two translations of one sentence"
    manifest = read_json(out / "split.json")
    assert manifest["options"]["hash_on"] == hash_on
    assert manifest["counts"] == {name: len(part) for name, part in parts.items()}


def test_bad_shares_and_an_empty_split_are_refused(corpus, tmp_path):
    _, paths = corpus
    line = ["--inputs", *map(str, paths), "--output-dir", str(tmp_path / "o")]
    for arguments, message in (
        ([], "--valid-ratio"),
        (["--valid-ratio", "0.5", "--test-ratio", "0.5"], "together less than 1"),
        (["--valid-buckets", "1"], "--buckets: missing"),
    ):
        assert_refused(message, split.main, [*line, *arguments])
    one_line = [write(tmp_path / "a.en", "e")]
    message = "no line of 1 fell into valid"
    assert_refused(message, split_files, one_line, ["en"], tmp_path / "o", Shares(10, 1, 0))
    assert list((tmp_path / "o").iterdir()) == []


@pytest.mark.cases(
    "name content message",
    ("test.fr", b"a\n \n", "test.fr, line 2: no text (1 "),
    ("test.fr", b"a\n\xc3\n", "test.fr, line 2: not UTF-8"),
    ("train.de", b"a\nb\n", "--text: unequal line counts: train.en has 3, train.de has 2"),
)
def test_bad_parallel_text_is_refused(tmp_path, name, content, message):
    for split_name, count in (("train", 3), ("test", 2)):
        for lang in ("en", "de", "fr"):
            write(tmp_path / f"{split_name}.{lang}", *[lang] * count)
    (tmp_path / name).write_bytes(content)
    pairs = [("en", "de"), ("en", "fr")]
    assert_refused(message, check.check_text, tmp_path, pairs, ["train", "test"])


def test_bad_pairs_and_splits_are_refused():
    for pairs in ("", "en", "en-", "en-en", "en-de,en-de", "en-de,", "en-d/e", "a-b-c", "en - de"):
        assert_refused("valid: different pairs", layout.parse_pairs, pairs)
    for splits in ("", "train,", "train,train", "a b", "a/b", "a.b"):
        assert_refused("valid: different names", layout.parse_splits, splits)
