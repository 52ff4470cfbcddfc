"""Test that binary files of a pair are made once, and again after every change or kill."""

import os

import pytest

from data_prep.pieces import binarize
from tests.nlu_bins import write
from tests.unit.data_prep.files import assert_refused, read_tree
from tests.unit.data_prep.pieces.builders import fake_preprocess

SPLITS = ["train", "test1", "held"]


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Write pieces of three languages and splits; return the folder and a list of the runs."""
    runs = []

    def preprocess(job, output):
        runs.append(job.pair)
        fake_preprocess(job, output)

    monkeypatch.setattr(binarize, "_run_fairseq", preprocess)
    for number, split in enumerate(SPLITS):
        for lang in ("en", "de", "fr"):
            lines = (f"a {lang} " + "b " * i for i in range(3 + number))
            write(tmp_path / "pieces" / f"{split}.{lang}", *lines)
    write(tmp_path / "dict.txt", "a 1", "b 1", "en 1", "de 1", "fr 1")
    return tmp_path, runs


def run(folder, pairs="en-de", dictionary="dict.txt"):
    line = f"--pieces {folder}/pieces --pairs {pairs} --splits {','.join(SPLITS)}"
    binarize.main(f"{line} --dict {folder}/{dictionary} --output {folder}/out".split())


def test_unchanged_pairs_are_skipped_and_changed_ones_made_again(work):
    folder, runs = work
    run(folder, "en-de,en-fr")
    run(folder, "en-de,en-fr")
    assert runs == [("en", "de"), ("en", "fr")]
    before = read_tree(folder / "out")
    (folder / "pieces" / "held.fr").write_text("fr\n" * 5)
    (folder / "out" / "train.en-de.en.bin").write_bytes(b"damaged")
    run(folder, "en-de,en-fr")
    assert runs[2:] == [("en", "de"), ("en", "fr")]
    after = read_tree(folder / "out")
    changed = {name for name in after if after[name] != before[name]}
    data = {"held.en-fr.fr.bin", "held.en-fr.fr.idx"}
    assert data <= changed <= {*data, ".steps/binarize.json", ".steps/pair.en-fr.json"}


@pytest.mark.parametrize("moment", range(1, 30, 7))
def test_the_run_after_a_kill_at_any_move_is_complete(work, monkeypatch, moment):
    folder, runs = work
    run(folder)
    expected = read_tree(folder / "out")
    for lang in ("en", "de"):
        (folder / "pieces" / f"train.{lang}").write_text("b\n" * 9)
    replace, moves = os.replace, []

    def replace_or_die(source, target):
        moves.append(target)
        if len(moves) == moment:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", replace_or_die)
    with pytest.raises(KeyboardInterrupt):
        run(folder)
    monkeypatch.setattr(os, "replace", replace)
    (folder / "out" / ".tmp-en-de-left").mkdir()
    run(folder)
    after = read_tree(folder / "out")
    assert after.keys() == expected.keys()
    assert not list((folder / "out").glob(".tmp-*"))
    assert binarize.count_index(folder / "out" / "train.en-de.en.idx") == (9, 18)
    assert after["held.en-de.en.bin"] == expected["held.en-de.en.bin"]
    assert 2 <= len(runs) <= 3


def test_lost_sentences_are_noticed(work, monkeypatch):
    folder, _ = work

    def preprocess(job, output):
        fake_preprocess(job, output)
        for ending in (".en.bin", ".en.idx"):  # the smaller set under the name of the larger one
            os.replace(output / f"train.en-de{ending}", output / f"test1.en-de{ending}")
            os.link(output / f"test1.en-de{ending}", output / f"train.en-de{ending}")

    run(folder)
    (folder / "out" / "held.en-de.en.bin").unlink()
    monkeypatch.setattr(binarize, "_run_fairseq", preprocess)
    words = ["3 sentences and 12 tokens of held.en", "5 lines and 20 piece"]
    assert_refused(words, run, folder)
    assert not (folder / "out" / "held.en-de.en.bin").exists()
    assert not (folder / "out" / ".steps" / "pair.en-de.json").exists()


def test_one_folder_holds_one_dictionary(work):
    folder, runs = work
    run(folder, "en-de")
    write(folder / "other.txt", "b 1", "a 1", "en 1", "de 1", "fr 1")
    words = ["out: holds en-de", "--dict", "other.txt"]
    assert_refused(words, run, folder, "en-fr", "other.txt")
    assert (folder / "out" / "dict.txt").read_bytes() == (folder / "dict.txt").read_bytes()
    run(folder, "en-de,en-fr", "other.txt")
    assert runs == [("en", "de"), ("en", "de"), ("en", "fr")]
    assert (folder / "out" / "dict.fr.txt").read_bytes() == (folder / "other.txt").read_bytes()


def test_bad_input_is_refused_before_anything_runs(work):
    folder, runs = work
    line = ["--pairs", "en-de", "--dict", "x", "--output", "x", "--pieces", "x", "--workers", "0"]
    assert_refused("--workers 0: valid: 1 or more", binarize.main, line)
    bad = write(folder / "pieces" / "test1.de", "a")
    assert_refused("--pieces: unequal line counts: test1.en has 4, test1.de has 1", run, folder)
    assert_refused("train.xx: no such file", run, folder, "en-xx")
    assert_refused("test1.de: not an index", binarize.count_index, bad)
    assert runs == []
