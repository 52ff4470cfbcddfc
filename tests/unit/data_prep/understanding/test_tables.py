"""Test tables, tagged sentences, and the folders of XGLUE and XTREME."""

import csv
import shutil
from collections import Counter

import pytest

from data_prep.understanding.layouts import LAYOUTS
from data_prep.understanding.sources import Source, parse_sources
from data_prep.understanding.tables import Row, Table
from data_prep.understanding.tags import Conll
from tests.nlu_bins import squad, write
from tests.unit.data_prep.files import assert_refused, read_tree

PAIR = (("1",), ("2",))


def read_rows(table, path, split="train", limit=0):
    return list(table.rows(Source(split, "en", path, limit)))


def write_csv(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t").writerows(rows)
    return path


# ---- Files. ----


def test_columns_by_number_and_by_name(tmp_path):
    lines = "one\ttwo\tyes", "\u2028three\u0085x\tfour\t no ", "a\tb\tyes"
    path = write(tmp_path / "a.tsv", *lines)
    expected = [
        Row(1, ("one", "two"), "yes", ""),
        Row(2, ("\u2028three\u0085x", "four"), "no", ""),
        Row(3, ("a", "b"), "yes", ""),
    ]
    assert read_rows(Table(PAIR), path) == expected
    assert read_rows(Table(PAIR), path, limit=2) == expected[:2]
    assert read_rows(Table((("2",),), "1", "3"), path)[0] == Row(1, ("two",), "one", "yes")
    swapped = Table(PAIR, label_map={"no": "yes", "yes": "1"})
    assert [row.label for row in read_rows(swapped, path)] == ["1", "yes", "1"]
    assert read_rows(Table(PAIR, "none"), path)[0].label == ""
    path = write(tmp_path / "b.tsv", "id\ttitle\tbody\tclass", "7\tT\tB c\tx", "8\t\tB\ty")
    table = Table((("title", "body"), ("2",)), "class", "id", header=("train",))
    expected = [Row(2, ("T B c", "T"), "x", "7"), Row(3, ("B", ""), "y", "8")]
    assert read_rows(table, path) == expected


def test_quotation_marks_of_a_csv_writer_are_removed(tmp_path):
    cells = ['he said "no"', "plain", '"', "a, b", "", 'x""y', "x" * 200_000]
    path = write_csv(tmp_path / "a.tsv", *([cell, "t", "1"] for cell in cells))
    assert b"\r\n" in path.read_bytes()
    assert [row.texts[0] for row in read_rows(Table(PAIR, csv=True), path)] == cells
    raw = write(tmp_path / "b.tsv", '"he said ""no"""\tt\t1')
    assert read_rows(Table(PAIR), raw)[0].texts[0] == '"he said ""no"""'
    for line in ('"open\tt\t1', '"a"b\tt\t1'):
        path = write(raw, "a\tt\t1", line)
        assert_refused("b.tsv, line 2: quotation", read_rows, Table(PAIR, csv=True), path)


def test_bad_rows_and_sources_are_refused(tmp_path):
    path = tmp_path / "a.tsv"
    for content, table, words in (
        (b"a\tb\t1\nc\td\n", Table(PAIR), ["line 2", "2 columns", "valid: 3"]),
        (b"a\tb\t1\nc\td\t \n", Table(PAIR), ["line 2", "no label"]),
        (b"a\tb\t1\n", Table((("1",), ("4",))), ["line 1", "3 columns", "--text 4"]),
        (b"a\tb\t1\n \tb\t1\n", Table(PAIR, query="1"), ["line 2", "--query"]),
        (b"a\tb\t1\nc\td\t1\r\n", Table(PAIR), ["line 2", "CR (U+000D) at position 6"]),
        (b"a\tb\t1\nc\0\td\t1\n", Table(PAIR), ["line 2", "NUL (U+0000) at position 2"]),
        (b"a\tb\t1\nc\t\xff\t1\n", Table(PAIR), ["line 2", "not UTF-8 (byte 0xff at byte 3"]),
    ):
        path.write_bytes(content)
        assert_refused(["input train.en:", str(path), *words], read_rows, table, path)
    for items, limits, message in (
        (["dev.en=x"], {}, "input dev.en=x: valid: SPLIT.LANG=FILE"),
        (["test.en=nowhere"], {"test": 0}, "input test.en nowhere: no such file"),
        ([f"test.en={__file__}"] * 2, {"test": 0}, "twice"),
    ):
        assert_refused(message, parse_sources, items, limits)


def read_sentences(reader, path, limit=0):
    """Return words with tags, the line of each first word, and what was skipped."""
    skipped = Counter()
    sentences = list(reader.sentences(Source("test", "de", path, limit), skipped))
    pairs = [[(word.text, word.tag) for word in sentence] for sentence in sentences]
    return pairs, [sentence[0].number for sentence in sentences], dict(skipped)


def test_conll_with_tabs_and_spaces(tmp_path):
    lines = ["", "New York\tB-LOC", "\u00a0\tO", "\tO", "", " ", "#\tO", "\u2028x\tO"]
    tabs = write(tmp_path / "a.tsv", *lines)
    words = [[("New York", "B-LOC"), ("\u00a0", "O"), ("", "O")], [("#", "O"), ("\u2028x", "O")]]
    assert read_sentences(Conll(), tabs) == (words, [2, 7], {})
    assert read_sentences(Conll(), tabs, 1) == (words[:1], [2], {})
    mark = "-DOCSTART- -X- -X- O"
    lines = [mark, "", "EU NNP  B-NP B-ORG", "a\u00a0b VB B-VP O"]
    lines += [mark, "c N x O", "", mark, "d N x O"]
    spaces = write(tmp_path / "a.txt", *lines)
    words = [[("EU", "B-ORG"), ("a\u00a0b", "O")], [("c", "O")], [("d", "O")]]
    expected = (words, [3, 6, 9], {"marks of documents": 3})
    assert read_sentences(Conll(), spaces) == expected
    sentence = read_sentences(Conll(tag="2"), spaces)[0][0]
    assert sentence == [("EU", "NNP"), ("a\u00a0b", "VB")]
    line = write(tmp_path / "b.txt", "EU NNP O")
    reader = Conll(token=2, tag="1", label_map={"EU": "X"})
    assert read_sentences(reader, line)[0] == [[("NNP", "X")]]


def node(name, form, upos="NOUN", xpos="NN"):
    return "\t".join([name, form, "_", upos, xpos, "_", "0", "_", "_", "_"])


def test_conllu(tmp_path):
    lines = [
        "# text = im 10 000 x",
        node("1-2", "im", "_", "_"),
        node("1", "in", "ADP", "IN"),
        node("2", "dem", "DET"),
        node("2.1", "ghost"),
        node("3", "10 000", "NUM"),
        "",
        "# next",
        node("1", "#", "SYM"),
        "",
    ]
    path = write(tmp_path / "a.conllu", *lines)
    first = [("in", "ADP"), ("dem", "DET"), ("10 000", "NUM")]
    skipped = {"ranges of multiword tokens": 1, "empty nodes": 1}
    assert read_sentences(Conll(), path) == ([first, [("#", "SYM")]], [3, 9], skipped)
    assert read_sentences(Conll(tag="xpos"), path)[0][0][0] == ("in", "IN")
    mapped = read_sentences(Conll(label_map={"DET": "D", "IN": "no"}), path)[0][0]
    assert mapped == [first[0], ("dem", "D"), first[2]]
    renamed = path.rename(tmp_path / "a.txt")
    assert read_sentences(Conll(form="conllu"), renamed)[0][0] == first


def test_misaligned_words_and_tags_are_refused(tmp_path):
    for lines, reader, words in (
        (["a\tO", "b"], Conll(), ["line 2", "1 columns ('b')", "valid: 2"]),
        (["a\tO", "b\t "], Conll(), ["line 2", "no tag for 'b'"]),
        (["a O"], Conll(tag="3"), ["line 1", "2 columns", "valid: 3 or more"]),
        ([node("1", "a")], Conll("conllu", tag="2"), ["--tag-column 2", "valid: upos, xpos"]),
        ([node("1", "a"), node("3", "b")], Conll("conllu"), ["line 2", "word '3'", "valid: 2"]),
        ([node("1", "a", "_")], Conll("conllu"), ["line 1", "no upos tag for 'a'"]),
    ):
        path = write(tmp_path / "a.txt", *lines)
        assert_refused(["input test.de:", str(path), *words], read_sentences, reader, path)


# ---- Folders. ----


def list_sources(folder, languages=(), training=("en",)):
    """Return SPLIT.LANG=FILE of XGLUE's NC, with files relative to the folder."""
    sources = LAYOUTS["xglue-nc"].sources("xglue-nc", folder, languages, training)
    return [item.replace(f"{folder}/", "") for item in sources]


def test_files_and_languages_of_a_folder(tmp_path):
    names = ("en.train", "en.dev", "de.dev", "de.test", "de.train")
    for name in (*names, "en.dev.old", "de.x.dev", "fr.dev/file"):
        write(tmp_path / f"NC/xglue.nc.{name}")
    train, test = "train.en=NC/xglue.nc.en.train", "test.de=NC/xglue.nc.de.test"
    valid = ["valid.de=NC/xglue.nc.de.dev", "valid.en=NC/xglue.nc.en.dev"]
    assert list_sources(tmp_path) == [train, *valid, test]
    assert list_sources(tmp_path, ["en", "de"])[1:3] == valid
    assert list_sources(tmp_path, training=("de",))[0] == "train.de=NC/xglue.nc.de.train"
    message = "--languages de,ru: ru is in no file"
    assert_refused(message, list_sources, tmp_path, ["de", "ru"])


def test_rows_of_xglue(run, tmp_path):
    folder = tmp_path / "xglue"
    header = "premise\thypo\tlabel"
    train = (header, "a\tb\tcontradictory", "a\tb\tneutral")
    write(folder / "XNLI/multinli.train.en.tsv", *train)
    write(folder / "XNLI/de.dev", "a\tb\tcontradiction", "c\td\tneutral")
    write(folder / "XNLI/de.test", "a\tb", "c\td")
    counts = run("sentences", "--layout", "xglue-xnli", "--folder", folder)
    rows = {name: count["kept"] for name, count in counts.items()}
    assert rows == {"train.en": 2, "valid.de": 2, "test.de": 2}
    assert run.rows("label", "train.en") == run.rows("label", "valid.de")
    for ending in ("train", "dev", "test"):
        rows = "cat\tthe cat\ta dog\t3", "dog\ta\tdog\t1"
        write(folder / f"WPR/xglue.wpr.en.{ending}", *rows)
    run("ranking", "--layout", "xglue-wpr", "--folder", folder, "--label-map", "3=4")
    assert (run.out / "group/test.en.txt").read_text() == "cat\ndog\n"
    assert "".join(run.rows("input1", "valid.en")[0]) == "\u2581the\u2581cat\u2581a\u2581dog</s>"


def test_rows_of_xtreme(run, tmp_path):
    folder = tmp_path / "download"
    for split in ("train", "dev", "test"):
        label = ["1"] if split != "test" else []
        write_csv(folder / f"pawsx/{split}-en.tsv", ['"the cat" saw', "a dog", *label])
        write(folder / f"panx/{split}-en.tsv", "the\tO", "Hund\tB-PER")
    counts = run("sentences", "--layout", "xtreme-pawsx", "--folder", folder)
    (text,) = {"".join(run.rows("input0", name)[0]) for name in counts}
    assert text.count("<unk>") == 2
    assert counts["test.en"]["notes"] == {"rows without labels": 1}
    run("tags", "--layout", "xtreme-panx", "--folder", folder)
    assert run.rows("label", "valid.en")[0][0] == "O"
    for name in ("squad/train-v1.1.json", "squad/dev-v1.1.json", "xquad/xquad.hi.json"):
        squad(write(folder / name), ("a dog", [("1", "q?", [("dog", 2)])]))
    run("questions", "--layout", "xtreme-xquad", "--folder", folder)
    assert [row["id"] for row in run.lines("qa/test.hi.jsonl")] == ["1"]


# ---- Translations of XTREME. ----

CAT = ("a cat", [("1", "q?", [("cat", 2)])])
DOG = ("a dog", [("1", "q?", [("dog", 2)])])
HUND = ("a Hund", [("1", "q?", [("Hund", 2)])])
TYDIQA = "tydiqa/tydiqa-goldp-v1.1-{0}/tydiqa.goldp.{1}.{0}.json"
GERMAN_QUESTIONS = [
    "squad/dev-v1.1.json",
    "xquad/xquad.de.json",
    TYDIQA.format("dev", "de"),
    "mlqa/MLQA_V1/dev/dev-context-de-question-de.json",
    "mlqa/MLQA_V1/test/test-context-de-question-de.json",
    "xtreme_translations/SQuAD/translate-train/squad.translate.train.en-de.json",
    "xtreme_translations/TyDiQA-GoldP/translate-train/tydiqa.translate.train.en-de.json",
]


def write_xtreme(folder, gold=False):
    """Write tasks in English with German translations; `gold` adds German gold files.

    The labels of the German gold files are wrong.
    """
    pair = "the cat\ta dog"
    labels = {"xnli": "neutral", "pawsx": "1"}
    for task, label in labels.items():
        write(folder / f"{task}/train-en.tsv", f"{pair}\t{label}")
        write(folder / f"{task}/dev-de.tsv", f"{pair}\t{label}")
        write(folder / f"{task}/test-de.tsv", pair)
    for task in ("panx", "udpos"):
        write(folder / f"{task}/train-en.tsv", "the\tO", "cat\tO")
        write(folder / f"{task}/dev-de.tsv", "the\tO")
        write(folder / f"{task}/test-de.tsv", "the", "cat")
    squad(write(folder / "squad/train-v1.1.json"), CAT)
    squad(write(folder / TYDIQA.format("train", "en")), CAT)
    for name in GERMAN_QUESTIONS:
        squad(write(folder / name), HUND)
    translation = f"{pair}\tdie Katze\tder Hund"
    for task, label, wrong in (("XNLI", "neutral", "contradictory"), ("PAWSX", "1", "die")):
        path = folder / f"xtreme_translations/{task}/translate-train/en-de-translated.tsv"
        write(path, f"{translation}\t{label}", f"{translation}\t{wrong}", pair)
    if gold:
        for task, label in (("xnli", "wrong"), ("pawsx", "7")):
            write(folder / f"{task}/train-de.tsv", f"{pair}\t{label}")
        for task in ("panx", "udpos"):
            write(folder / f"{task}/train-de.tsv", "the\tWRONG", "cat\tO")
        squad(write(folder / TYDIQA.format("train", "de")), DOG)
    return folder


@pytest.mark.cases(
    "task verb rows",
    ("xnli", "sentences", 3),
    ("pawsx", "sentences", 3),
    ("xquad", "questions", 1),
    ("mlqa", "questions", 1),
    ("tydiqa", "questions", 1),
)
def test_translations_are_read_and_gold_labels_of_other_languages_are_not(
    run, tmp_path, task, verb, rows
):
    outputs = []
    for gold in (False, True):
        folder = write_xtreme(tmp_path / f"gold-{gold}", gold)
        line = [verb, "--layout", f"xtreme-{task}", "--folder", folder]
        counts = run(*line, "--train-languages", "translate")
        outputs.append(read_tree(run.out))
        shutil.rmtree(run.out)
    assert outputs[0] == outputs[1]
    training = {name for name in counts if not name.startswith(("valid", "test"))}
    assert training == {"train.en", "translate.de"}
    count = counts["translate.de"]
    assert (count["kept"], count["read"]) == (1, rows), count["dropped"]


def test_rows_of_translations(run, tmp_path):
    folder = write_xtreme(tmp_path / "download")
    line = ["sentences", "--layout", "xtreme-xnli", "--folder", folder]
    line += ["--train-languages", "translate"]
    reasons = run(*line)["translate.de"]["dropped"]
    assert reasons == {"label that train has not": 2}, "too few columns, and an unknown label"
    assert "".join(run.rows("input0", "translate.de")[0]) == "\u2581die\u2581Katze</s>"
    assert run.rows("label", "translate.de") == run.rows("label", "train.en")
    assert run.rows("label", "train.en") == [["neutral", "</s>"]]
    rows = "the cat\ta dog\tneutral", "the cat\ta dog\tcontradiction"
    write(folder / "xnli/train-en.tsv", *rows)  # translations call it contradictory
    assert run(*line)["translate.de"]["kept"] == 2


def test_tags_have_no_translations_but_gold_files_by_name(run, tmp_path):
    folder = write_xtreme(tmp_path / "download", gold=True)
    for task in ("panx", "udpos"):
        line = ["tags", "--layout", f"xtreme-{task}", "--folder", folder, "--train-languages"]
        assert_refused(f"translate: xtreme-{task}", run, *line, "translate")
        assert_refused(["all", "valid: codes", "translate"], run, *line, "all")
        assert_refused("translate alone", run, *line, "en,translate")
        counts = run(*line, "en")
        assert set(counts) == {"train.en", "valid.de", "test.de"}
        assert counts["test.de"]["notes"] == {"rows without tags": 1}
        assert set(run.rows("label", "test.de")[0]) == {"<unk>", "<pad>", "</s>"}
        gold = set(run(*line, "en,de"))
        assert gold == {"train.de", "train.en", "valid.de", "test.de"}, "gold labels, by name"
        write(folder / f"{task}/test-de.tsv", "the\tO", "cat\tO")
        assert run(*line, "en")["test.de"]["notes"] == {}


def test_translations_are_read_from_two_folders(run, tmp_path):
    folder = write_xtreme(tmp_path / "download")
    shutil.rmtree(folder / "xtreme_translations")
    line = ["questions", "--layout", "xtreme-xquad", "--folder", folder]
    line += ["--train-languages", "translate"]
    assert_refused("squad.translate.train.en-{lang}.json", run, *line)
    squad(write(folder / "squad/squad.translate.train.en-de.json"), HUND)
    assert "translate.de" in run(*line)
