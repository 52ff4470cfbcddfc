"""The toy corpus: hand-written sentences in three languages, reproducible bytes, splits that never meet."""

import hashlib
import json

import pytest

from data_prep import toy
from data_prep.toy import LANGUAGES, generate, write_corpus
from data_prep.toy.__main__ import main
from data_prep.toy.toy_lexicon import ADJECTIVES, ADVERBS, NOUNS, PLACES, VERBS, gold_entries
from tests.unit.data_prep.files import lines, tree

COUNTS = {"train": 300, "valid": 20, "test": 20}


# Meaning, then English, German and Turkish, written by hand.
def test_lexicon_is_one_to_one():
    entries = gold_entries()
    assert len(entries) == len(NOUNS) + len(ADJECTIVES) + len(VERBS) + len(ADVERBS) + len(PLACES) + 4 + 1
    assert [len(set(column)) for column in zip(*entries)] == [len(entries)] * len(LANGUAGES)


def test_same_seed_same_bytes_and_manifest_hashes(tmp_path):
    manifest = write_corpus(str(tmp_path / "a"), 7, COUNTS)
    assert write_corpus(str(tmp_path / "b"), 7, COUNTS) == manifest
    first, second = (tree(tmp_path / name) for name in "ab")
    assert first == second
    assert json.loads(first.pop("manifest.json")) == manifest
    assert {name: hashlib.sha256(data).hexdigest() for name, data in first.items()} == manifest["sha256"]
    assert len(first) == 3 * 3 + 3 and (manifest["seed"], manifest["counts"]) == (7, COUNTS)


def test_bytes_are_the_same_on_every_python_and_machine():
    text = "".join(f"{example.split} {example.texts}\n" for example in generate(1, COUNTS))
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    assert digest == "0803512eef838995d6bb993b5b3d4773ad28692efeac7d319b5bd0e6fb347f6c", (
        "the toy corpus changed: renew models trained on it"
    )


def test_splits_never_meet_whatever_the_seed_and_language():
    splits = {language: {} for language in LANGUAGES}
    for seed in range(4):
        for example in generate(seed, {"train": 4000, "valid": 200, "test": 200}):
            assert toy.split_of(example.texts["tr"]) == example.split
            for language in LANGUAGES:
                assert splits[language].setdefault(example.texts[language], example.split) == example.split


def test_command_writes_the_split_and_languages_asked_for(tmp_path):
    out = tmp_path / "corpus"
    main(["--out", str(out), "--seed", "3", "--train", "40", "--langs", "tr,en", "--split-only", "train"])
    assert set(tree(out)) == {"lexicon.en-tr.tsv", "manifest.json", "train.en", "train.tr"}
    expected = [example.texts for example in generate(3, {"train": 40})]
    for language in ("en", "tr"):
        assert lines(out / f"train.{language}") == [texts[language] for texts in expected]
    lexicon = [tuple(line.split("\t")) for line in lines(out / "lexicon.en-tr.tsv")]
    assert lexicon == [(english, turkish) for english, _, turkish in gold_entries()]


def test_bad_options(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    for line, message in (
        (["--seed", "-1"], "argument --seed: '-1' is not valid: an integer >= 0 is needed"),
        (["--train", "0"], "argument --train: '0' is not valid: an integer >= 1 is needed"),
        (["--langs", "en,fr"], "argument --langs: langs is 'en,fr'; valid: distinct codes out of en,de,tr"),
        (["--langs", "en,en"], "argument --langs: langs is 'en,en'"),
        (["--out", f"{tmp_path}/file/corpus"], "argument --out: "),
    ):
        with pytest.raises(SystemExit) as stop:
            main(["--out", str(tmp_path / "never"), *line])
        assert stop.value.code == 2 and message in capsys.readouterr().err
    assert not (tmp_path / "never").exists()


def test_an_interrupted_run_leaves_the_older_corpus_alone(tmp_path):
    write_corpus(str(tmp_path), 1, COUNTS)
    before = tree(tmp_path)

    def interrupt(done, total):
        if done == 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_corpus(str(tmp_path), 2, COUNTS, progress=interrupt)
    assert tree(tmp_path) == before
