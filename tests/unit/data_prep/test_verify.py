"""A manifest that does not match its files is an error that names them; one that does is silent about nothing."""

import shutil

import pytest

from data_prep import bpe, manifest
from data_prep.check import check_text
from data_prep.io import InputError, read_json, write_json
from data_prep.layout import piece_name, text_names
from data_prep.steps import write_manifest
from data_prep.verify import check_manifest
from tests.unit.data_prep import test_binarize

PAIRS = [("en", "de"), ("fr", "en")]
SPLITS = ["train", "held"]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder as preprocess.sh --codes --per-pair leaves it; every pair has sentences of its own."""
    monkeypatch.setattr(test_binarize.binarize, "_run_fairseq", test_binarize.fake_fairseq)
    out, text = tmp_path / "out", tmp_path / "text"
    (tmp_path / "codes").write_text("a b</w> 2\n")
    names = text_names(PAIRS, SPLITS, per_pair=True)
    for number, name in enumerate(sorted(names)):
        (text / name).parent.mkdir(parents=True, exist_ok=True)
        count = 3 if "en-de" in name else 4
        (text / name).write_text(f"ab b {'a ' * number}b\n" * count)
    bpe.apply(tmp_path / "codes", [text / n for n in names], [out / "pieces" / n for n in names], steps=out / ".steps")
    (tmp_path / "dict.txt").write_text("a 1\nb 1\nab 1\na@@ 1\n")
    line = ["--pieces", f"{out}/pieces", "--pairs", "en-de,fr-en", "--splits", ",".join(SPLITS), "--per-pair"]
    test_binarize.binarize.main([*line, "--dict", f"{tmp_path}/dict.txt", "--output", str(out), "--workers", "2"])
    shutil.copy(tmp_path / "codes", out / "codes.bpe")
    manifest.main(["--data", str(out), *line[2:]])
    return tmp_path


def test_a_folder_with_pairs_of_their_own_sentences(data):
    content = read_json(data / "out" / "manifest.json")
    assert content["codes"]["file"] == "codes.bpe"
    assert "model" not in content
    assert content["data"]["en-de"]["counts"]["train.en"]["lines"] == 3
    assert content["data"]["fr-en"]["counts"]["train.en"]["lines"] == 4
    assert content["pieces"]["fr-en/held.en"]["lines"] == 4
    assert check_manifest(data / "out") == 2 + 8 + 2 * (8 + 2)
    assert check_manifest(data / "out", data / "text") == 2 + 8 + 2 * (8 + 2) + 8
    assert piece_name("x/en-de/train.de") == "en-de/train.de"
    assert piece_name("x/en-de/train.fr") == "train.fr"
    assert check_text(data / "text", PAIRS, SPLITS, per_pair=True)["en-de/train.de"] == 3
    (data / "text" / "en-de" / "held.de").write_text("one line\n")
    with pytest.raises(InputError, match=r"unequal line counts: en-de/held\.en has 3, en-de/held\.de has 1"):
        check_text(data / "text", PAIRS, SPLITS, per_pair=True)


def damage(data, name):
    path = data / "out" / name
    if name == "codes.bpe":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] + b"?")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("codes.bpe", r"codes\.bpe: missing, expected sha256 [0-9a-f]{64}"),
        ("dict.txt", r"dict\.txt: sha256 [0-9a-f]{64} expected, [0-9a-f]{64} found"),
        ("pieces/en-de/train.de", r"pieces/en-de/train\.de: sha256 \w+ expected, \w+ found"),
        ("train.fr-en.en.bin", r"train\.fr-en\.en\.bin: sha256"),
    ],
)
def test_a_changed_file_is_named_with_both_hashes(data, name, message):
    damage(data, name)
    with pytest.raises(InputError, match=rf"--check .*out: 1 of 30 files differ: .*{message}"):
        manifest.main(["--check", str(data / "out")])


def test_counts_are_counted_again_and_only_the_first_files_are_listed(data):
    path = data / "out" / "manifest.json"
    content = read_json(path)
    content["data"]["en-de"]["counts"]["train.de"]["tokens"] += 1
    content["pieces"]["en-de/held.de"]["lines"] = 99
    write_json(path, content)
    with pytest.raises(
        InputError, match=r"2 of 30 files differ: .*held\.de: lines 99 expected, 3 found; .*tokens \d+ expected"
    ):
        check_manifest(data / "out")
    for name in content["pieces"]:
        damage(data, f"pieces/{name}")
    with pytest.raises(InputError, match=r"9 of 30 files differ: .*; and 4 more"):
        check_manifest(path)


def test_changed_text_is_found_when_asked_for(data):
    (data / "text" / "en-de" / "train.en").write_text("other\n" * 3)
    assert check_manifest(data / "out")
    with pytest.raises(InputError, match=r"1 of 38 files differ: .*text/en-de/train\.en: sha256"):
        check_manifest(data / "out", data / "text")


def test_manifests_of_verbs_and_what_is_no_manifest(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
        write_manifest(tmp_path / f"{name}.json", "clean", {}, {}, [], [tmp_path / name])
    write_json(tmp_path / "other.json", {"a": 1})
    assert check_manifest(tmp_path) == 2
    assert check_manifest(tmp_path / "b.json") == 1
    (tmp_path / "b").write_text("bb")
    with pytest.raises(InputError, match=r"1 of 2 files differ: .*b: sha256 .*, bytes 1 expected, 2 found"):
        check_manifest(tmp_path)
    for content, message in (
        ({"verb": "clean", "outputs": [{"bytes": 1}], "format": 1}, r"a damaged manifest \(KeyError"),
        ({"verb": "clean", "outputs": [], "format": 99}, "format 99; valid: 1"),
        ({"a": 1}, "not a manifest of data_prep"),
    ):
        write_json(tmp_path / "other.json", content)
        with pytest.raises(InputError, match=message):
            check_manifest(tmp_path / "other.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no manifest"):
        check_manifest(tmp_path / "empty")
    with pytest.raises(InputError, match="no such file or folder"):
        check_manifest(tmp_path / "none")
    for line, message in (([], "--data or --check: valid: one of them"), (["--data", "x"], "--pairs: missing")):
        with pytest.raises(InputError, match=message):
            manifest.main(line)
