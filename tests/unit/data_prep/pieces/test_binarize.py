"""Binary files of a pair: made once, made again after any change or kill, never from a mixture.

fairseq-preprocess is replaced here by a function that writes the same files; tests/cli runs the real one.
"""

import os

import pytest
from fairseq.data import Dictionary, indexed_dataset

from data_prep.pieces import binarize
from tests.nlu_bins import write
from tests.unit.data_prep.files import assert_refused, read_tree

SPLITS = ["train", "test1", "held"]


def fake_fairseq(job, folder):
    pair, sources = job.pair, job.sources()
    vocabulary = Dictionary.load(str(job.dictionary))
    folder.mkdir()
    for name in binarize._fairseq_names(job.splits):
        for lang in pair:
            stem = str(folder / f"{name.output}.{pair[0]}-{pair[1]}.{lang}")
            builder = indexed_dataset.make_builder(stem + ".bin", impl="mmap", vocab_size=len(vocabulary))
            for line in sources[f"{name.split}.{lang}"].read_text().splitlines():
                builder.add_item(vocabulary.encode_line(line, add_if_not_exist=False))
            builder.finalize(stem + ".idx")
    for lang in pair:
        vocabulary.save(str(folder / f"dict.{lang}.txt"))


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Pieces of three languages and three splits, and a list that grows with every run of fairseq-preprocess."""
    runs = []

    def counted(job, output):
        runs.append(job.pair)
        fake_fairseq(job, output)

    monkeypatch.setattr(binarize, "_run_fairseq", counted)
    for number, split in enumerate(SPLITS):
        for lang in ("en", "de", "fr"):
            write(tmp_path / "pieces" / f"{split}.{lang}", *(f"a {lang} " + "b " * i for i in range(3 + number)))
    write(tmp_path / "dict.txt", "a 1", "b 1", "en 1", "de 1", "fr 1")
    return tmp_path, runs


def run(folder, pairs="en-de", splits="train,test1,held", dictionary="dict.txt"):
    line = f"--pieces {folder}/pieces --pairs {pairs} --splits {splits} --dict {folder}/{dictionary}"
    binarize.main([*line.split(), "--output", f"{folder}/out"])


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
    changed = {name for name, content in read_tree(folder / "out").items() if content != before[name]}
    steps = {".steps/binarize.json", ".steps/pair.en-fr.json"}
    assert {"held.en-fr.fr.bin", "held.en-fr.fr.idx"} <= changed <= {"held.en-fr.fr.bin", "held.en-fr.fr.idx", *steps}


@pytest.mark.parametrize("moment", range(1, 30, 7))
def test_a_kill_at_any_move_is_made_good_by_the_next_run(work, monkeypatch, moment):
    folder, runs = work
    run(folder)
    expected = read_tree(folder / "out")
    for lang in ("en", "de"):
        (folder / "pieces" / f"train.{lang}").write_text("b\n" * 9)
    replace, moves = os.replace, []

    def killed(source, target):
        moves.append(target)
        if len(moves) == moment:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", killed)
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

    def lossy(job, output):
        fake_fairseq(job, output)
        for ending in (".en.bin", ".en.idx"):  # the smaller set under the name of the larger one
            os.replace(output / f"train.en-de{ending}", output / f"test1.en-de{ending}")
            os.link(output / f"test1.en-de{ending}", output / f"train.en-de{ending}")

    run(folder)
    (folder / "out" / "held.en-de.en.bin").unlink()
    monkeypatch.setattr(binarize, "_run_fairseq", lossy)
    assert_refused("wrote 3 sentences and 12 tokens of held.en, which has 5 lines and 20 piece", run, folder)
    assert not (folder / "out" / "held.en-de.en.bin").exists()
    assert not (folder / "out" / ".steps" / "pair.en-de.json").exists()


def test_one_folder_holds_one_dictionary(work):
    folder, runs = work
    run(folder, "en-de")
    (folder / "other.txt").write_text("b 1\na 1\nen 1\nde 1\nfr 1\n")
    words = ["out: holds en-de, made with another dictionary than --dict", "other.txt"]
    assert_refused(words, run, folder, "en-fr", dictionary="other.txt")
    assert (folder / "out" / "dict.txt").read_bytes() == (folder / "dict.txt").read_bytes()
    run(folder, "en-de,en-fr", dictionary="other.txt")
    assert runs == [("en", "de"), ("en", "de"), ("en", "fr")]
    assert (folder / "out" / "dict.fr.txt").read_bytes() == (folder / "other.txt").read_bytes()


def test_bad_input(work, tmp_path):
    folder, runs = work
    line = ["--pairs", "en-de", "--dict", "x", "--output", "x", "--pieces"]
    assert_refused("--workers 0: valid: 1 or more", binarize.main, [*line, "x", "--workers", "0"])
    write(folder / "pieces" / "test1.de", "a")
    assert_refused("--pieces: unequal line counts: test1.en has 4, test1.de has 1", run, folder)
    assert_refused("train.xx: no such file", run, folder, "en-xx")
    assert_refused("test1.de: not an index", binarize.count_index, folder / "pieces" / "test1.de")
    assert runs == []
