"""XGLUE's and XTREME's folders: which files become which split and language, and how their rows are read."""

import csv

from data_prep.nlu_layouts import LAYOUTS
from tests.nlu_bins import squad, write
from tests.unit.data_prep.files import refused


def found(name, folder, languages=(), training=("en",)):
    """SPLIT.LANG=FILE, the files below the folder."""
    return [item.replace(f"{folder}/", "") for item in LAYOUTS[name].sources(name, folder, languages, training)]


def test_files_and_languages(tmp_path):
    for name in ("en.train", "en.dev", "de.dev", "de.test", "en.dev.old", "de.x.dev", "fr.dev/file", "de.train"):
        write(tmp_path / f"NC/xglue.nc.{name}")
    valid = ["valid.de=NC/xglue.nc.de.dev", "valid.en=NC/xglue.nc.en.dev"]
    assert found("xglue-nc", tmp_path) == ["train.en=NC/xglue.nc.en.train", *valid, "test.de=NC/xglue.nc.de.test"]
    assert found("xglue-nc", tmp_path, ["en", "de"])[1:3] == valid
    assert found("xglue-nc", tmp_path, training=())[0] == "train.de=NC/xglue.nc.de.train"
    words = "no NC/xglue.nc.{lang}.test for en; valid: the folder of xglue"
    refused(words, found, "xglue-nc", tmp_path, ["en"])
    refused("--languages de,ru: ru is in no file of xglue-nc", found, "xglue-nc", tmp_path, ["de", "ru"])
    refused("no NC/xglue.nc.{lang}.train for ru", found, "xglue-nc", tmp_path, training=["ru"])


def test_rows_of_xglue(run, tmp_path):
    folder = tmp_path / "xglue"
    write(folder / "XNLI/multinli.train.en.tsv", "premise\thypo\tlabel", "a\tb\tcontradictory", "a\tb\tneutral")
    write(folder / "XNLI/de.dev", "a\tb\tcontradiction", "c\td\tneutral")
    write(folder / "XNLI/de.test", "a\tb", "c\td")
    counts = run("sentences", "--layout", "xglue-xnli", "--folder", folder)
    assert {name: of["kept"] for name, of in counts.items()} == {"train.en": 2, "valid.de": 2, "test.de": 2}
    assert run.rows("label", "train.en") == run.rows("label", "valid.de")
    for ending in ("train", "dev", "test"):
        write(folder / f"WPR/xglue.wpr.en.{ending}", "cat\tthe cat\ta dog\t3", "dog\ta\tdog\t1")
    run("ranking", "--layout", "xglue-wpr", "--folder", folder, "--label-map", "3=4")
    assert (run.out / "group/test.en.txt").read_text() == "cat\ndog\n"
    assert "".join(run.rows("input1", "valid.en")[0]) == "\u2581the\u2581cat\u2581a\u2581dog</s>"


def test_rows_of_xtreme(run, tmp_path):
    folder = tmp_path / "download"
    for split in ("train", "dev", "test"):
        write(folder / f"pawsx/{split}-en.tsv")
        with open(folder / f"pawsx/{split}-en.tsv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter="\t").writerow(['"the cat" saw', "a dog", *(["1"] if split != "test" else [])])
        write(folder / f"panx/{split}-en.tsv", "the\tO", "Hund\tB-PER")
    counts = run("sentences", "--layout", "xtreme-pawsx", "--folder", folder)
    (first,) = {"".join(run.rows("input0", name)[0]) for name in counts}
    assert first.count("<unk>") == 2
    assert counts["test.en"]["notes"] == {"rows without labels": 1}
    run("tags", "--layout", "xtreme-panx", "--folder", folder)
    assert run.rows("label", "valid.en")[0][0] == "O"
    for name in ("squad/train-v1.1.json", "squad/dev-v1.1.json", "xquad/xquad.hi.json"):
        squad(write(folder / name), ("a dog", [("1", "q?", [("dog", 2)])]))
    run("questions", "--layout", "xtreme-xquad", "--folder", folder)
    assert [row["id"] for row in run.lines("qa/test.hi.jsonl")] == ["1"]
