"""Steps are skipped only when nothing changed; a manifest that does not match its files is an error that names them."""

import shutil

import pytest

from data_prep.files import write_json
from data_prep.io import read_json
from data_prep.layout import piece_name, text_names
from data_prep.pieces import manifest
from data_prep.pieces.encode import apply_files
from data_prep.pieces.manifest import check_manifest
from data_prep.steps import Step, write_manifest
from data_prep.text.check import check_text
from tests.nlu_bins import write
from tests.unit.data_prep.files import assert_refused
from tests.unit.data_prep.pieces import test_binarize


def test_a_step_is_done_until_something_changes(tmp_path, monkeypatch):
    source, target, record = write(tmp_path / "in", "in"), tmp_path / "out", tmp_path / "steps" / "record.json"

    def step():
        return Step(record, {"text": source}, {"size": 1}, [target])

    def undo_version():
        monkeypatch.setattr("data_prep.steps.read_versions", lambda: {"sentencepiece": "0"})

    damage = [lambda: step().begin(), target.unlink, lambda: record.write_bytes(record.read_bytes()[:-9]), undo_version]
    for undo in damage:
        write(target, "out")
        step().finish({"lines": 1})
        assert step().recall() == {"lines": 1}
        undo()
        assert step().recall() is None


PAIRS = [("en", "de"), ("fr", "en")]
SPLITS = ["train", "held"]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder as preprocess.sh --codes --per-pair leaves it; every pair has sentences of its own."""
    monkeypatch.setattr(test_binarize.binarize, "_run_fairseq", test_binarize.fake_fairseq)
    out, text = tmp_path / "out", tmp_path / "text"
    write(tmp_path / "codes", "a b</w> 2")
    names = text_names(PAIRS, SPLITS, per_pair=True)
    for number, name in enumerate(sorted(names)):
        write(text / name, *[f"ab b {'a ' * number}b"] * (3 if "en-de" in name else 4))
    apply_files(
        "bpe", tmp_path / "codes", [text / n for n in names], [out / "pieces" / n for n in names], steps=out / ".steps"
    )
    write(tmp_path / "dict.txt", "a 1", "b 1", "ab 1", "a@@ 1")
    line = ["--pieces", f"{out}/pieces", "--pairs", "en-de,fr-en", "--splits", ",".join(SPLITS), "--per-pair"]
    test_binarize.binarize.main([*line, "--dict", f"{tmp_path}/dict.txt", "--output", str(out), "--workers", "2"])
    shutil.copy(tmp_path / "codes", out / "codes.bpe")
    manifest.main(["--data", str(out), *line[2:]])
    return tmp_path


def test_a_folder_with_pairs_of_their_own_sentences(data):
    content = read_json(data / "out" / "manifest.json")
    assert content["codes"]["file"] == "codes.bpe" and "model" not in content
    counts = [content["data"][pair]["counts"]["train.en"]["lines"] for pair in ("en-de", "fr-en")]
    assert [*counts, content["pieces"]["fr-en/held.en"]["lines"]] == [3, 4, 4]
    assert check_manifest(data / "out") == 2 + 8 + 2 * (8 + 2)
    assert check_manifest(data / "out", data / "text") == 2 + 8 + 2 * (8 + 2) + 8
    assert (piece_name("x/en-de/train.de"), piece_name("x/en-de/train.fr")) == ("en-de/train.de", "train.fr")
    assert check_text(data / "text", PAIRS, SPLITS, per_pair=True)["en-de/train.de"] == 3
    write(data / "text" / "en-de" / "held.de", "one line")
    words = "unequal line counts: en-de/held.en has 3, en-de/held.de has 1"
    assert_refused(words, check_text, data / "text", PAIRS, SPLITS, per_pair=True)
    assert check_manifest(data / "out")
    assert_refused(["1 of 38 files differ: ", "text/en-de/held.de: sha256"], check_manifest, data / "out", data / "text")


@pytest.mark.parametrize("name", ["codes.bpe", "dict.txt", "pieces/en-de/train.de", "train.fr-en.en.bin"])
def test_a_changed_file_is_named_with_both_hashes(data, name):
    path = data / "out" / name
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    words = ["1 of 30 files differ: ", f"{name}: sha256 ", " expected, ", " found"]
    assert_refused(words, manifest.main, ["--check", str(data / "out")])
    path.unlink()
    assert_refused(f"{name}: missing, expected sha256 ", check_manifest, data / "out")


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


def test_manifests_of_verbs_and_what_is_no_manifest(tmp_path):
    write_manifest(tmp_path / "a.json", "clean", {}, {}, [], [write(tmp_path / "a", "a")])
    write_json(tmp_path / "other.json", {"a": 1})
    assert check_manifest(tmp_path) == 1
    write(tmp_path / "a", "aa")
    assert_refused(["1 of 1 files differ: ", "a: sha256 ", ", bytes 2 expected, 3 found"], check_manifest, tmp_path)
    assert_refused("not a manifest of data_prep", check_manifest, tmp_path / "other.json")
    write_json(tmp_path / "other.json", {"verb": "clean", "outputs": [{"bytes": 1}], "format": 1})
    assert_refused("a damaged manifest (KeyError", check_manifest, tmp_path / "other.json")
