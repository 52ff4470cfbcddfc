"""XGLUE's and XTREME's folders: which files become which split and language, and how their rows are read."""

import csv

import pytest

from data_prep.io import InputError
from data_prep.nlu_layouts import LANG, LAYOUTS
from tests.nlu_bins import squad, write


def touch(folder, *names):
    """Empty files."""
    for name in names:
        write(folder / name)


def found(name, folder, languages="", training="en"):
    """SPLIT.LANG=FILE, the files below the folder."""
    layout = LAYOUTS[name]
    items = layout.sources(
        name, folder, languages.split(",") if languages else [], training.split(",") if training else []
    )
    return [item.replace(f"{folder}/", "") for item in items]


def test_files_and_languages(tmp_path):
    touch(tmp_path, "NC/xglue.nc.en.train", "NC/xglue.nc.en.dev", "NC/xglue.nc.de.dev", "NC/xglue.nc.de.test")
    touch(tmp_path, "NC/xglue.nc.en.dev.old", "NC/xglue.nc.de.x.dev", "NC/xglue.nc.fr.dev/file", "NC/xglue.nc.de.train")
    valid = ["valid.de=NC/xglue.nc.de.dev", "valid.en=NC/xglue.nc.en.dev"]
    assert found("xglue-nc", tmp_path) == ["train.en=NC/xglue.nc.en.train", *valid, "test.de=NC/xglue.nc.de.test"]
    assert found("xglue-nc", tmp_path, "en,de")[1:3] == valid
    assert found("xglue-nc", tmp_path, training="")[0] == "train.de=NC/xglue.nc.de.train"
    with pytest.raises(
        InputError, match=r"--folder .*: no NC/xglue\.nc\.{lang}\.test for en; valid: the folder of xglue"
    ):
        found("xglue-nc", tmp_path, "en")
    with pytest.raises(InputError, match="--languages de,ru: ru is in no file of xglue-nc"):
        found("xglue-nc", tmp_path, "de,ru")
    with pytest.raises(InputError, match=r"no NC/xglue\.nc\.{lang}\.train for ru"):
        found("xglue-nc", tmp_path, training="ru")


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_every_layout_finds_its_files(tmp_path, name):
    files = {
        split: [pattern.replace(LANG, lang) for lang in ("en", "de")] for split, pattern in LAYOUTS[name].files.items()
    }
    touch(tmp_path, *(path for paths in files.values() for path in paths))
    expected = [
        f"{split}.{lang}={pattern.replace(LANG, lang)}"
        for split, pattern in LAYOUTS[name].files.items()
        for lang in ("de", "en")
        if (lang == "en" if split == "train" or LANG not in pattern else True)
    ]
    assert found(name, tmp_path) == expected


def test_rows_of_xglue(run, tmp_path):
    folder = tmp_path / "xglue"
    write(folder / "XNLI/multinli.train.en.tsv", "premise\thypo\tlabel", "a\tb\tcontradictory", "a\tb\tneutral")
    write(folder / "XNLI/de.dev", "a\tb\tcontradiction", "c\td\tneutral")
    write(folder / "XNLI/de.test", "a\tb", "c\td")
    counts = run("sentences", "--layout", "xglue-xnli", "--folder", folder)
    assert {name: of["kept"] for name, of in counts.items()} == {"train.en": 2, "valid.de": 2, "test.de": 2}
    assert run.rows("label", "train.en") == run.rows("label", "valid.de")
    assert (run.out / "label/dict.txt").read_text() == "contradiction 1\nneutral 1\n"
    for split, name in (("train", "train"), ("valid", "dev_2k"), ("test", "test_2k")):
        write(folder / f"PAWSX/en/{name}.tsv", "id\tsentence1\tsentence2\tlabel", f"1\tthe cat\t{split}\t0")
    run("sentences", "--layout", "xglue-pawsx", "--folder", folder)
    assert "".join(run.rows("input0", "test.en")[0]) == "\u2581the\u2581cat</s>"
    for ending in ("train", "dev", "test"):
        write(folder / f"WPR/xglue.wpr.en.{ending}", "cat\tthe cat\ta dog\t3", "dog\ta\tdog\t1")
        write(folder / f"QADSM/xglue.qadsm.en.{ending}", "cat\tthe cat\ta dog\tGood")
    run("ranking", "--layout", "xglue-wpr", "--folder", folder, "--label-map", "3=4")
    assert (run.out / "group/test.en.txt").read_text() == "cat\ndog\n"
    assert "".join(run.rows("input1", "valid.en")[0]) == "\u2581the\u2581cat\u2581a\u2581dog</s>"
    assert len((run.out / "label/dict.txt").read_text().splitlines()) == 5
    run("sentences", "--layout", "xglue-qadsm", "--folder", folder, "--text", "1,3")
    assert "".join(run.rows("input1", "train.en")[0]) == "\u2581a\u2581dog</s>"


def test_rows_of_xtreme(run, tmp_path):
    folder = tmp_path / "download"
    for split in ("train", "dev", "test"):
        write(folder / f"pawsx/{split}-en.tsv")
        with open(folder / f"pawsx/{split}-en.tsv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter="\t").writerow(['"the cat" saw', "a dog", *(["1"] if split != "test" else [])])
        write(folder / f"panx/{split}-en.tsv", "the\tO", "Hund\tB-PER")
    counts = run("sentences", "--layout", "xtreme-pawsx", "--folder", folder)
    first = ["".join(run.rows("input0", name)[0]) for name in counts]
    assert len(set(first)) == 1
    assert first[0].count("<unk>") == 2
    assert counts["test.en"]["notes"] == {"rows without labels": 1}
    run("tags", "--layout", "xtreme-panx", "--folder", folder)
    assert run.rows("label", "valid.en")[0][0] == "O"
    squad(tmp_path / "train.json", ("a dog", [("1", "q?", [("dog", 2)])]))
    for name in ("squad/train-v1.1.json", "squad/dev-v1.1.json", "xquad/xquad.hi.json"):
        write(folder / name).write_bytes((tmp_path / "train.json").read_bytes())
    run("questions", "--layout", "xtreme-xquad", "--folder", folder)
    assert [row["id"] for row in run.lines("qa/test.hi.jsonl")] == ["1"]
