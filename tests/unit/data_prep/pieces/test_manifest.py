"""Test that steps are skipped only when nothing changed, and that manifests match their files."""

import shutil

import pytest

from data_prep.files import write_json
from data_prep.io import read_json
from data_prep.layout import piece_name, text_names
from data_prep.pieces import binarize, manifest
from data_prep.pieces.encode import apply_files
from data_prep.pieces.manifest import check_manifest
from data_prep.steps import Step, write_manifest
from data_prep.text.check import check_text
from tests.nlu_bins import write
from tests.unit.data_prep.files import assert_refused
from tests.unit.data_prep.pieces.builders import fake_preprocess


def test_a_step_is_finished_until_something_changes(tmp_path, monkeypatch):
    source, target = write(tmp_path / "in", "in"), tmp_path / "out"
    record = tmp_path / "steps" / "record.json"

    def make_step():
        return Step(record, {"text": source}, {"size": 1}, [target])

    def change_version():
        monkeypatch.setattr("data_prep.steps.read_versions", lambda: {"sentencepiece": "0"})

    for change in (
        lambda: make_step().begin(),
        target.unlink,
        lambda: record.write_bytes(record.read_bytes()[:-9]),
        change_version,
    ):
        write(target, "out")
        make_step().finish({"lines": 1})
        assert make_step().recall() == {"lines": 1}
        change()
        assert make_step().recall() is None


PAIRS = [("en", "de"), ("fr", "en")]
SPLITS = ["train", "held"]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Write a folder as preprocess.sh --codes --per-pair does, each pair with its sentences."""
    monkeypatch.setattr(binarize, "_run_fairseq", fake_preprocess)
    out, text = tmp_path / "out", tmp_path / "text"
    codes = write(tmp_path / "codes", "a b</w> 2")
    names = text_names(PAIRS, SPLITS, per_pair=True)
    for number, name in enumerate(sorted(names)):
        write(text / name, *[f"ab b {'a ' * number}b"] * (3 if "en-de" in name else 4))
    sources, targets = ([folder / name for name in names] for folder in (text, out / "pieces"))
    apply_files("bpe", codes, sources, targets, steps=out / ".steps")
    dictionary = write(tmp_path / "dict.txt", "a 1", "b 1", "ab 1", "a@@ 1")
    pairs = f"--pairs en-de,fr-en --splits {','.join(SPLITS)} --per-pair"
    files = f"--pieces {out}/pieces --dict {dictionary} --output {out} --workers 2"
    binarize.main(f"{files} {pairs}".split())
    shutil.copy(codes, out / "codes.bpe")
    manifest.main(f"--data {out} {pairs}".split())
    return tmp_path


def test_a_folder_whose_pairs_have_different_sentences(data):
    content = read_json(data / "out" / "manifest.json")
    assert content["codes"]["file"] == "codes.bpe" and "model" not in content
    for pair, count in (("en-de", 3), ("fr-en", 4)):
        assert content["data"][pair]["counts"]["train.en"]["lines"] == count
        assert content["pieces"][f"{pair}/held.en"]["lines"] == count
    assert check_manifest(data / "out") == 2 + 8 + 2 * (8 + 2)
    assert check_manifest(data / "out", data / "text") == 2 + 8 + 2 * (8 + 2) + 8
    assert piece_name("x/en-de/train.de") == "en-de/train.de"
    assert piece_name("x/en-de/train.fr") == "train.fr"
    assert check_text(data / "text", PAIRS, SPLITS, per_pair=True)["en-de/train.de"] == 3
    write(data / "text" / "en-de" / "held.de", "one line")
    words = "unequal line counts: en-de/held.en has 3, en-de/held.de has 1"
    assert_refused(words, check_text, data / "text", PAIRS, SPLITS, per_pair=True)
    assert check_manifest(data / "out")
    words = ["1 of 38 files differ: ", "text/en-de/held.de: sha256"]
    assert_refused(words, check_manifest, data / "out", data / "text")


def test_a_changed_or_missing_file_is_named_with_both_hashes(data):
    for name in ("codes.bpe", "dict.txt", "pieces/en-de/train.de", "train.fr-en.en.bin"):
        path = data / "out" / name
        content = path.read_bytes()
        path.write_bytes(content[:-1] + b"?")
        words = ["1 of 30 files differ: ", f"{name}: sha256 ", " expected, ", " found"]
        assert_refused(words, manifest.main, ["--check", str(data / "out")])
        path.unlink()
        assert_refused(f"{name}: missing", check_manifest, data / "out")
        path.write_bytes(content)


def test_counts_are_counted_again_and_only_the_first_files_are_listed(data):
    path = data / "out" / "manifest.json"
    content = read_json(path)
    content["data"]["en-de"]["counts"]["train.de"]["tokens"] += 1
    content["pieces"]["en-de/held.de"]["lines"] = 99
    write_json(path, content)
    words = ["2 of 30 files differ: ", "held.de: lines 99 expected, 3 found; ", " expected"]
    assert_refused(words, check_manifest, data / "out")
    for name in content["pieces"]:
        write(data / "out" / "pieces" / name, "other")
    assert_refused(["9 of 30 files differ: ", "; and 4 more"], check_manifest, path)


def test_manifests_of_verbs_are_checked_and_other_json_is_refused(tmp_path):
    output = write(tmp_path / "a", "a")
    write_manifest(tmp_path / "a.json", "clean", {}, {}, [], [output])
    no_manifest = tmp_path / "other.json"
    write_json(no_manifest, {"a": 1})
    assert check_manifest(tmp_path) == 1
    write(output, "aa")
    words = ["1 of 1 files differ: ", "a: sha256 ", ", bytes 2 expected, 3 found"]
    assert_refused(words, check_manifest, tmp_path)
    assert_refused("other.json: not a manifest", check_manifest, no_manifest)
    write_json(no_manifest, {"verb": "clean", "outputs": [{"bytes": 1}], "format": 1})
    assert_refused("other.json: a damaged manifest (KeyError", check_manifest, no_manifest)
