"""Cleaning, splitting and the check before anything is made: fixes, reasons, shares, bookkeeping, bad options."""

import random

import pytest

from data_prep import layout
from data_prep.files import sha256
from data_prep.io import read_json
from data_prep.text import check, clean, split
from data_prep.text.clean import Filter, Normaliser, Rules, clean_files
from data_prep.text.split import Shares, split_files, split_of
from tests.nlu_bins import write
from tests.unit.data_prep.files import lines, refused


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


def test_duplicates():
    rows = ["1a", "1a", "1b", "2a", "3c", "a3"]
    wanted = {"none": rows, "tuple": rows[1:], "first": ["1a", "2a", "3c", "a3"], "any": ["1a", "3c", "a3"]}
    for dedup, kept in wanted.items():
        select = Filter(Rules(dedup=dedup), ["x", "y"])
        assert [row for row in rows if select(tuple(row)) is None] == kept


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
    assert (counts["read"], counts["kept"]) == (7, 2)
    assert counts["dropped"] == {"empty": 2, "too short": 0, "too long": 1, "length ratio": 1, "duplicate": 1}
    changed = {"carriage return at the end": 6, "control characters": 2, "line separators": 1}
    assert changed.items() <= counts["changed"].items()
    for name, paths in (("inputs", inputs), ("outputs", outputs)):
        assert [row["sha256"] for row in manifest[name]] == [sha256(path) for path in paths]
    assert manifest["options"]["max_ratio"] == 5


def test_cleaning_bad_files_leaves_nothing_behind(three, tmp_path):
    inputs, outputs = three
    (tmp_path / "short").write_bytes(b"x\n")
    (tmp_path / "latin").write_bytes(b"ok\n\xe9\n")
    rules, manifest = Rules(), tmp_path / "m.json"
    for bad, outs, how, message in (
        ([inputs[0], tmp_path / "short"], outputs[:2], rules, "unequal line counts"),
        ([inputs[0], tmp_path / "latin"], outputs[:2], rules, "latin, line 2: not UTF-8"),
        (inputs, outputs, Rules(unit="characters", max_length=1), "none of 7 lines would be left; dropped: empty 2, "),
        (inputs, inputs, rules, "would overwrite an input"),
    ):
        refused(message, clean_files, bad, outs, how, manifest)
    assert not manifest.exists()
    assert list(outputs[0].parent.iterdir()) == []
    for options, message in (
        ({"form": "NFD"}, "--form NFD: valid: NFC, NFKC, none"),
        ({"min_length": 9, "max_length": 8}, "--max-length 8: valid: 0 (no limit), or at least --min-length (9)"),
        ({"max_ratio": float("nan")}, "--max-ratio nan"),
    ):
        refused(message, Rules, **options)


SHARES = Shares(buckets=10, valid=2, test=1)
BUCKETS = ["--valid-buckets", "2", "--test-buckets", "1"]  # of 10


@pytest.fixture
def corpus(tmp_path):
    """600 pairs; every tenth source sentence occurs twice, with two translations."""
    rng = random.Random(3)
    sources = [f"sentence {rng.randrange(10**9)}" for _ in range(550)]
    rows = [(text, f"Satz {i}") for i, text in enumerate(sources + sources[::11])]
    rng.shuffle(rows)
    return rows, [write(tmp_path / name, *column) for name, column in zip(("all.en", "all.de"), zip(*rows))]


def test_these_sentences_never_move():
    """The hash is part of the interface: these values may never change."""
    pinned = {"a": "valid", "b": "valid", "c": "test", "e": "train", "g": "train", "h": "test"}
    assert {text: split_of([text], SHARES) for text in pinned} == pinned


@pytest.mark.parametrize("shares", [["--valid-ratio", "0.2", "--test-ratio", "0.1"], ["--buckets", "10", *BUCKETS]])
@pytest.mark.parametrize(("hash_on", "salt"), [("source", ""), ("tuple", ""), ("source", "x"), ("tuple", "x")])
def test_the_command_splits_by_what_it_was_asked_for(corpus, tmp_path, shares, hash_on, salt):
    rows, paths = corpus
    options = ["--hash-on", hash_on, "--salt", salt, *shares]
    split.main(["--inputs", *map(str, paths), "--output-dir", str(tmp_path / "o"), *options])
    sides = {
        name: [lines(tmp_path / "o" / f"{name}.{side}") for side in ("en", "de")] for name in ("train", "valid", "test")
    }
    parts = {name: list(zip(*texts)) for name, texts in sides.items()}
    for name, part in parts.items():
        assert part == [row for row in rows if split_of(row, Shares(10, 2, 1, hash_on, salt)) == name]
    assert sum(map(len, parts.values())) == len(rows)
    apart = {row[0] for row in parts["train"]} & {row[0] for row in parts["valid"]}
    assert bool(apart) == (hash_on == "tuple"), "two translations of a sentence may part only where the tuple is hashed"
    manifest = read_json(tmp_path / "o" / "split.json")
    assert manifest["options"]["hash_on"] == hash_on
    assert manifest["counts"] == {name: len(part) for name, part in parts.items()}


def test_bad_options_and_an_empty_split(corpus, tmp_path):
    _, paths = corpus
    for arguments, message in (
        ([], "give either --valid-ratio"),
        (["--valid-ratio", "0.5", "--test-ratio", "0.5"], "together less than 1"),
        (["--valid-buckets", "1"], "--buckets: missing"),
    ):
        refused(message, split.main, ["--inputs", *map(str, paths), "--output-dir", str(tmp_path / "o"), *arguments])
    words = ["no line of 1 fell into valid", "larger share for valid, or 0"]
    refused(words, split_files, [write(tmp_path / "a.en", "e")], ["en"], tmp_path / "o", Shares(10, 1, 0))
    assert list((tmp_path / "o").iterdir()) == []


PAIRS = [("en", "de"), ("en", "fr")]


@pytest.fixture
def folder(tmp_path):
    for name, count in (("train", 3), ("test", 2)):
        for lang in ("en", "de", "fr"):
            (tmp_path / f"{name}.{lang}").write_text("".join(f"{lang} {i}\n" for i in range(count)))
    return tmp_path


def test_bad_files(folder):
    for name, content, message in (
        ("test.fr", b"a\n \n", "test.fr, line 2: no text (1 such lines in all); valid: "),
        ("test.fr", b"a\n\xc3\n", "test.fr, line 2: not UTF-8"),
        ("train.de", b"a\nb\n", "--text: unequal line counts: train.en has 3, train.de has 2; line 3 has no counter"),
    ):
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(content)
        refused(message, check.check_text, folder, PAIRS, ["train", "test"])
        (folder / name).write_bytes(before)


def test_bad_pairs_and_splits():
    for pairs in ("", "en", "en-", "en-en", "en-de,en-de", "en-de,", "en-d/e", "a-b-c", "en - de"):
        refused("valid: different pairs of two languages, as en-de,en-fr", layout.parse_pairs, pairs)
    for splits in ("", "train,", "train,train", "a b", "a/b", "a.b"):
        refused("valid: different names, as train,valid,test", layout.parse_splits, splits)
