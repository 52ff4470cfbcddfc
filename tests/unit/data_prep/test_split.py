"""Splitting: a sentence never moves, shares are kept, bad shares are refused."""

import random

import pytest

from data_prep.io import InputError, read_json
from data_prep.split import Shares, main, split_files, split_of

SHARES = Shares(buckets=10, valid=2, test=1)
BUCKETS = ["--valid-buckets", "2", "--test-buckets", "1"]  # of 10


@pytest.fixture
def corpus(tmp_path):
    """600 pairs; every tenth source sentence occurs twice, with two translations."""
    rng = random.Random(3)
    sources = [f"sentence {rng.randrange(10**9)}" for _ in range(550)]
    rows = [(text, f"Satz {i}") for i, text in enumerate(sources + sources[::11])]
    rng.shuffle(rows)
    paths = [tmp_path / "all.en", tmp_path / "all.de"]
    for column, path in enumerate(paths):
        path.write_text("".join(row[column] + "\n" for row in rows))
    return rows, paths


def read_split(folder, name):
    return list(zip((folder / f"{name}.en").read_text().splitlines(), (folder / f"{name}.de").read_text().splitlines()))


def test_these_sentences_never_move():
    """The hash is part of the interface: these values may never change."""
    pinned = {"a": "valid", "b": "valid", "c": "test", "e": "train", "g": "train", "h": "test"}
    assert {text: split_of([text], SHARES) for text in pinned} == pinned


def test_every_pair_lands_once_and_repetitions_stay_together(corpus, tmp_path):
    rows, paths = corpus
    counts = split_files(paths, ["en", "de"], tmp_path / "out", SHARES)
    parts = {name: read_split(tmp_path / "out", name) for name in ("train", "valid", "test")}
    assert sorted(pair for part in parts.values() for pair in part) == sorted(rows)
    sources = [{source for source, _ in part} for part in parts.values()]
    assert sum(map(len, sources)) == len(set().union(*sources))
    assert (
        counts == {name: len(part) for name, part in parts.items()} == read_json(tmp_path / "out/split.json")["counts"]
    )
    assert [pair for pair in rows if pair in set(parts["test"])] == parts["test"]


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
    expected = Shares(10, 2, 1, hash_on, salt)
    for name in ("train", "valid", "test"):
        assert read_split(tmp_path / "o", name) == [row for row in rows if split_of(row, expected) == name]
    apart = {row[0] for row in read_split(tmp_path / "o", "train")} & {
        row[0] for row in read_split(tmp_path / "o", "valid")
    }
    assert bool(apart) == (hash_on == "tuple"), "two translations of a sentence may part only where the tuple is hashed"
    assert read_json(tmp_path / "o" / "split.json")["options"]["hash_on"] == hash_on


def test_an_empty_split_is_refused(tmp_path):
    (tmp_path / "a.en").write_text("e\n")
    with pytest.raises(InputError, match=r"no line of 1 fell into valid.*larger share for valid, or 0"):
        split_files([tmp_path / "a.en"], ["en"], tmp_path / "o", Shares(10, 1, 0))
    assert list((tmp_path / "o").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either --valid-ratio"),
        (["--valid-ratio", "0.1", "--buckets", "9"], "give either --valid-ratio"),
        (["--valid-ratio", "1.5"], r"--valid-ratio 1\.5: valid: 0 or more, less than 1"),
        (["--valid-ratio", "0.5", "--test-ratio", "0.5"], "together less than 1"),
        (["--valid-buckets", "1"], "--buckets: missing"),
        (["--buckets", "0", "--valid-buckets", "1"], "--buckets 0: valid: 1 to"),
        (["--buckets", "9", "--test-buckets", "-1"], "--test-buckets -1: valid: 0 or more"),
        (["--buckets", "9", "--valid-buckets", "5", "--test-buckets", "4"], r"number of buckets \(9\)"),
        (["--valid-ratio", "0.1", "--langs", "en"], "1 names for 2 files"),
        (["--valid-ratio", "0.1", "--langs", "en", "en"], "--langs: 'en'; valid: different names"),
    ],
)
def test_bad_options(corpus, tmp_path, arguments, message):
    _, paths = corpus
    with pytest.raises(InputError, match=message):
        main(["--inputs", *map(str, paths), "--output-dir", str(tmp_path / "o"), *arguments])
    with pytest.raises(InputError, match="--hash-on x"):
        Shares(10, 1, 1, hash_on="x")


def test_bad_files(corpus, tmp_path):
    _, paths = corpus
    (tmp_path / "crlf.de").write_bytes(b"x\r\n" * 600)
    with pytest.raises(InputError, match=r"crlf.de, line 1: character U\+000D"):
        split_files([paths[0], tmp_path / "crlf.de"], ["en", "de"], tmp_path / "o", SHARES)
    (tmp_path / "short.de").write_bytes(b"x\n" * 599)
    with pytest.raises(InputError, match="has 600, .*has 599; line 600"):
        split_files([paths[0], tmp_path / "short.de"], ["en", "de"], tmp_path / "o", SHARES)
