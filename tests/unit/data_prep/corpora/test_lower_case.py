"""``--lower-case`` and ``--dedup`` of the translation corpora and of ``clean``."""

import pytest

from data_prep.corpora import iwslt14, ml50
from data_prep.io import read_json
from data_prep.text import clean
from data_prep.text.clean import Normaliser, Rules
from tests.nlu_bins import write
from tests.unit.data_prep.files import read_lines


@pytest.fixture
def raw(tmp_path):
    """Write training lines that differ only in case, a repeated pair and a test set in capitals."""
    rows = ["Der Hund", "der hund", "DIE KATZE", "Der Hund", "ÄRGER", "Ende"]
    for language in ("de", "en"):
        write(tmp_path / "raw" / f"train.tags.de-en.{language}", *rows)
        segment = f'<seg id="1"> EIN TEST {language} </seg>'
        write(tmp_path / "raw" / f"IWSLT14.TED.tst2012.de-en.{language}.xml", segment)
    return tmp_path


def prepare(raw, *more):
    out = raw / "out"
    line = [
        "--raw",
        raw / "raw",
        "--output",
        out,
        "--test-sets",
        "tst2012",
        "--valid-every",
        "3",
        *more,
    ]
    iwslt14.main([str(word) for word in line])
    sides = {name: read_lines(out / "de-en" / f"{name}.de") for name in ("train", "valid", "test")}
    return sides, read_json(out / "manifest.json")


def test_neither_is_the_default(raw):
    sides, manifest = prepare(raw)
    assert sides == {
        "train": ["Der Hund", "der hund", "Der Hund", "ÄRGER"],
        "valid": ["DIE KATZE", "Ende"],
        "test": ["EIN TEST de"],
    }
    assert "lower_case" not in manifest["options"]["rules"], (
        "folders of earlier versions stay unchanged"
    )


def test_all_splits_are_lower_cased_before_duplicates_are_dropped(raw):
    sides, manifest = prepare(raw, "--lower-case", "--dedup", "tuple")
    assert sides == {
        "train": ["der hund", "die katze", "ende"],
        "valid": ["ärger"],
        "test": ["ein test de"],
    }
    assert manifest["options"]["rules"]["lower_case"] is True
    assert manifest["counts"]["de-en"]["dropped"] == {"train: duplicate": 2}


def test_duplicates_alone(raw):
    sides, _ = prepare(raw, "--dedup", "tuple")
    assert sides["train"] + sides["valid"] == ["Der Hund", "der hund", "ÄRGER", "Ende", "DIE KATZE"]


def test_leaks_are_found_in_lower_case(tmp_path):
    for split, text in (
        ("train", ["Ein Test", "ein satz"]),
        ("valid", ["EIN TEST"]),
        ("test", ["x"]),
    ):
        for language in ("de_DE", "en_XX"):
            write(tmp_path / "raw" / f"{split}.de_DE-en_XX.{language}", *text)
    line = [
        "--raw",
        str(tmp_path / "raw"),
        "--output",
        str(tmp_path / "out"),
        "--pairs",
        "de_DE-en_XX",
    ]
    ml50.main([*line, "--lower-case"])
    assert read_lines(tmp_path / "out" / "de_DE-en_XX" / "train.de_DE") == ["ein satz"]


def test_clean_lower_cases_and_counts(tmp_path):
    for name in "ab":
        write(tmp_path / name, "Eins", "eins", "zwei")
    inputs, outputs = [tmp_path / "a", tmp_path / "b"], [tmp_path / "c", tmp_path / "d"]
    counts = clean.clean_files(inputs, outputs, Rules(lower_case=True), tmp_path / "m.json")
    assert read_lines(tmp_path / "c") == ["eins", "zwei"] and counts.dropped["duplicate"] == 1
    assert counts.changed["capitals"] == 2
    for text in ("İSTANBUL", "ΟΔΟΣ", "STRASSE", "E\u0301"):
        once = Normaliser("NFC", lower_case=True)(text)
        assert Normaliser("NFC", lower_case=True)(once) == once == once.lower()
