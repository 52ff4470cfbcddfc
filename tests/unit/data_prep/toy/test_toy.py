"""Test the toy corpus: reproducible bytes, splits that never share a sentence, interrupted runs."""

import hashlib
import json
from itertools import islice

import pytest

from data_prep.toy import corpus
from data_prep.toy.corpus import LANGUAGES, generate, split_of, write_corpus
from tests.unit.data_prep.files import read_tree

COUNTS = {"train": 300, "valid": 20, "test": 20}


def test_a_seed_gives_the_same_bytes_and_manifest(tmp_path):
    manifest = write_corpus(str(tmp_path / "a"), 7, COUNTS)
    assert write_corpus(str(tmp_path / "b"), 7, COUNTS) == manifest
    first, second = (read_tree(tmp_path / name) for name in "ab")
    assert first == second
    assert json.loads(first.pop("manifest.json")) == manifest
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in first.items()}
    assert digests == manifest["sha256"]
    assert len(first) == 3 * 3 + 3 and (manifest["seed"], manifest["counts"]) == (7, COUNTS)


def test_bytes_are_the_same_on_every_python_and_machine():
    text = "".join(f"{example.split} {example.texts}\n" for example in generate(1, COUNTS))
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    # The shipped models are trained on these sentences.
    assert digest == "0803512eef838995d6bb993b5b3d4773ad28692efeac7d319b5bd0e6fb347f6c"


def test_splits_share_no_sentence_of_any_seed_and_language():
    splits = {language: {} for language in LANGUAGES}
    for seed in range(4):
        for example in generate(seed, {"train": 4000, "valid": 200, "test": 200}):
            assert split_of(example.texts["tr"]) == example.split
            for language, text in example.texts.items():
                assert splits[language].setdefault(text, example.split) == example.split


def test_an_interrupted_run_keeps_the_older_corpus(tmp_path, monkeypatch):
    write_corpus(str(tmp_path), 1, COUNTS)
    before = read_tree(tmp_path)

    def interrupted(examples, label):
        yield from islice(examples, 100)
        raise KeyboardInterrupt

    monkeypatch.setattr(corpus, "with_progress", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_corpus(str(tmp_path), 2, COUNTS)
    assert read_tree(tmp_path) == before
