"""Splitting: a sentence never moves, shares are kept, bad shares are refused."""

import random

import pytest

from data_prep.io import read_json
from data_prep.split import Shares, main, split_files, split_of
from tests.nlu_bins import write
from tests.unit.data_prep.files import lines, refused

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


def read_split(folder, name):
    return list(zip(lines(folder / f"{name}.en"), lines(folder / f"{name}.de")))


def test_these_sentences_never_move():
    """The hash is part of the interface: these values may never change."""
    pinned = {"a": "valid", "b": "valid", "c": "test", "e": "train", "g": "train", "h": "test"}
    assert {text: split_of([text], SHARES) for text in pinned} == pinned


def test_split_depends_on_the_sentence_alone(corpus, tmp_path):
    rows, _ = corpus
    where = {row: split_of(row, SHARES) for row in rows}
    assert all(split_of((source, "another translation"), SHARES) == name for (source, _), name in where.items())
    whole = Shares(10, 2, 1, hash_on="tuple")
    for column in (0, 1):
        others = [row[:column] + ("another",) + row[column + 1 :] for row in rows]
        assert any(split_of(row, whole) != split_of(other, whole) for row, other in zip(rows, others)), column
    assert any(split_of(row, Shares(10, 2, 1, salt="x")) != name for row, name in where.items())


@pytest.mark.parametrize("shares", [["--valid-ratio", "0.2", "--test-ratio", "0.1"], ["--buckets", "10", *BUCKETS]])
@pytest.mark.parametrize(("hash_on", "salt"), [("source", ""), ("tuple", ""), ("source", "x"), ("tuple", "x")])
def test_the_command_splits_by_what_it_was_asked_for(corpus, tmp_path, shares, hash_on, salt):
    rows, paths = corpus
    options = ["--hash-on", hash_on, "--salt", salt, *shares]
    main(["--inputs", *map(str, paths), "--output-dir", str(tmp_path / "o"), *options])
    parts = {name: read_split(tmp_path / "o", name) for name in ("train", "valid", "test")}
    for name, part in parts.items():
        assert part == [row for row in rows if split_of(row, Shares(10, 2, 1, hash_on, salt)) == name]
    assert sum(map(len, parts.values())) == len(rows)
    apart = {row[0] for row in parts["train"]} & {row[0] for row in parts["valid"]}
    assert bool(apart) == (hash_on == "tuple"), "two translations of a sentence may part only where the tuple is hashed"
    manifest = read_json(tmp_path / "o" / "split.json")
    assert manifest["options"]["hash_on"] == hash_on
    assert manifest["counts"] == {name: len(part) for name, part in parts.items()}


def test_an_empty_split_is_refused(tmp_path):
    words = ["no line of 1 fell into valid", "larger share for valid, or 0"]
    refused(words, split_files, [write(tmp_path / "a.en", "e")], ["en"], tmp_path / "o", Shares(10, 1, 0))
    assert list((tmp_path / "o").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either --valid-ratio"),
        (["--valid-ratio", "0.1", "--buckets", "9"], "give either --valid-ratio"),
        (["--valid-ratio", "1.5"], "--valid-ratio 1.5: valid: 0 or more, less than 1"),
        (["--valid-ratio", "0.5", "--test-ratio", "0.5"], "together less than 1"),
        (["--valid-buckets", "1"], "--buckets: missing"),
        (["--buckets", "0", "--valid-buckets", "1"], "--buckets 0: valid: 1 to"),
        (["--buckets", "9", "--test-buckets", "-1"], "--test-buckets -1: valid: 0 or more"),
        (["--buckets", "9", "--valid-buckets", "5", "--test-buckets", "4"], "number of buckets (9)"),
        (["--valid-ratio", "0.1", "--langs", "en"], "1 names for 2 files"),
        (["--valid-ratio", "0.1", "--langs", "en", "en"], "--langs: 'en'; valid: different names"),
    ],
)
def test_bad_options(corpus, tmp_path, arguments, message):
    _, paths = corpus
    refused(message, main, ["--inputs", *map(str, paths), "--output-dir", str(tmp_path / "o"), *arguments])
    refused("--hash-on x", Shares, 10, 1, 1, hash_on="x")
