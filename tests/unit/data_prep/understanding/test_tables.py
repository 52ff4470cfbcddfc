"""Tables, tagged sentences, and the folders of XGLUE and XTREME: what is read, and what is refused with its place."""

import csv
import shutil
from collections import Counter

import pytest

from data_prep.understanding import sources as nlu_sources
from data_prep.understanding.layouts import LAYOUTS
from data_prep.understanding.sources import Source
from data_prep.understanding.tables import Row, Table
from data_prep.understanding.tags import Conll
from tests.nlu_bins import squad, write
from tests.unit.data_prep.files import refused

PAIR = (("1",), ("2",))


def rows(table, path, split="train", limit=0):
    return list(table.rows(Source(split, "en", path, limit)))


def test_columns_by_number_and_by_name(tmp_path):
    path = write(tmp_path / "a.tsv", "one\ttwo\tyes", "\u2028three\u0085x\tfour\t no ", "a\tb\tyes")
    found = [Row(1, ("one", "two"), "yes", ""), Row(2, ("\u2028three\u0085x", "four"), "no", "")]
    assert rows(Table(PAIR), path) == [*found, Row(3, ("a", "b"), "yes", "")]
    assert rows(Table(PAIR), path, limit=2) == found
    assert rows(Table((("2",),), "1", "3"), path)[0] == Row(1, ("two",), "one", "yes")
    assert [row.label for row in rows(Table(PAIR, label_map={"no": "yes", "yes": "1"}), path)] == ["1", "yes", "1"]
    assert rows(Table(PAIR, "none"), path)[0].label == ""
    path = write(tmp_path / "b.tsv", "id\ttitle\tbody\tclass", "7\tT\tB c\tx", "8\t\tB\ty")
    table = Table((("title", "body"), ("2",)), "class", "id", header=("train",))
    assert rows(table, path) == [Row(2, ("T B c", "T"), "x", "7"), Row(3, ("B", ""), "y", "8")]


def test_what_a_csv_writer_leaves(tmp_path):
    cells = ['he said "no"', "plain", '"', "a, b", "", 'x""y', "x" * 200_000]
    with open(tmp_path / "a.tsv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t").writerows([cell, "t", "1"] for cell in cells)
    assert b"\r\n" in (tmp_path / "a.tsv").read_bytes()
    assert [row.texts[0] for row in rows(Table(PAIR, csv=True), tmp_path / "a.tsv")] == cells
    raw = write(tmp_path / "b.tsv", '"he said ""no"""\tt\t1')
    assert rows(Table(PAIR), raw)[0].texts[0] == '"he said ""no"""'
    for line in ('"open\tt\t1', '"a"b\tt\t1'):
        words = "b.tsv, line 2: quotation marks that no csv writer leaves"
        refused(words, rows, Table(PAIR, csv=True), write(raw, "a\tt\t1", line))


def test_what_is_refused(tmp_path):
    path = tmp_path / "a.tsv"
    for content, table, words in (
        (b"a\tb\t1\nc\td\n", Table(PAIR), ["line 2", "2 columns", "valid: 3"]),
        (b"a\tb\t1\nc\td\t \n", Table(PAIR), ["line 2", "no label"]),
        (b"a\tb\t1\n", Table((("1",), ("4",))), ["line 1", "3 columns", "--text 4", "1 to 3"]),
        (b"a\tb\t1\n \tb\t1\n", Table(PAIR, query="1"), ["line 2", "as --query", "an id"]),
        (b"a\tb\t1\nc\td\t1\r\n", Table(PAIR), ["line 2", "CR (U+000D) at position 6"]),
        (b"a\tb\t1\nc\0\td\t1\n", Table(PAIR), ["line 2", "NUL (U+0000) at position 2"]),
        (b"a\tb\t1\nc\t\xff\t1\n", Table(PAIR), ["line 2", "not UTF-8 (byte 0xff at byte 3"]),
    ):
        path.write_bytes(content)
        refused(["input train.en:", str(path), *words], rows, table, path)
    for call, message in (
        (lambda: nlu_sources.parse_sources(["dev.en=x"], {}), "input dev.en=x: valid: SPLIT.LANG=FILE"),
        (lambda: nlu_sources.parse_sources(["test.en=nowhere"], {"test": 0}), "input test.en nowhere: no such file"),
        (lambda: nlu_sources.parse_sources([f"test.en={__file__}"] * 2, {"test": 0}), "given twice"),
    ):
        refused(message, call)


def sentences(reader, path, limit=0):
    """Words and tags of a file, the lines of the first words, and what was passed over."""
    skipped = Counter()
    found = list(reader.sentences(Source("test", "de", path, limit), skipped))
    pairs = [[(word.text, word.tag) for word in sentence] for sentence in found]
    return pairs, [sentence[0].number for sentence in found], dict(skipped)


def test_conll_with_tabs_and_spaces(tmp_path):
    tabs = write(tmp_path / "a.tsv", "", "New York\tB-LOC", "\u00a0\tO", "\tO", "", " ", "#\tO", "\u2028x\tO")
    words = [[("New York", "B-LOC"), ("\u00a0", "O"), ("", "O")], [("#", "O"), ("\u2028x", "O")]]
    assert sentences(Conll(), tabs) == (words, [2, 7], {})
    assert sentences(Conll(), tabs, 1) == (words[:1], [2], {})
    mark = "-DOCSTART- -X- -X- O"
    lines = [mark, "", "EU NNP  B-NP B-ORG", "a\u00a0b VB B-VP O", mark, "c N x O", "", mark, "d N x O"]
    spaces = write(tmp_path / "a.txt", *lines)
    words = [[("EU", "B-ORG"), ("a\u00a0b", "O")], [("c", "O")], [("d", "O")]]
    assert sentences(Conll(), spaces) == (words, [3, 6, 9], {"marks of documents": 3})
    assert sentences(Conll(tag="2"), spaces)[0][0] == [("EU", "NNP"), ("a\u00a0b", "VB")]
    plain = write(tmp_path / "b.txt", "EU NNP O")
    assert sentences(Conll(token=2, tag="1", label_map={"EU": "X"}), plain)[0] == [[("NNP", "X")]]


def node(name, form, upos="NOUN", xpos="NN"):
    return "\t".join([name, form, "_", upos, xpos, "_", "0", "_", "_", "_"])


def test_conllu(tmp_path):
    lines = ["# text = im 10 000 x", node("1-2", "im", "_", "_"), node("1", "in", "ADP", "IN"), node("2", "dem", "DET")]
    lines += [node("2.1", "ghost"), node("3", "10 000", "NUM"), "", "# next", node("1", "#", "SYM"), ""]
    path = write(tmp_path / "a.conllu", *lines)
    first = [("in", "ADP"), ("dem", "DET"), ("10 000", "NUM")]
    skipped = {"ranges of multiword tokens": 1, "empty nodes": 1}
    assert sentences(Conll(), path) == ([first, [("#", "SYM")]], [3, 9], skipped)
    assert sentences(Conll(tag="xpos"), path)[0][0][0] == ("in", "IN")
    assert sentences(Conll(label_map={"DET": "D", "IN": "no"}), path)[0][0] == [first[0], ("dem", "D"), first[2]]
    assert sentences(Conll(form="conllu"), path.rename(tmp_path / "a.txt"))[0][0] == first


def test_misaligned_words_and_tags(tmp_path):
    for lines, reader, words in (
        (["a\tO", "b"], Conll(), ["line 2", "1 columns ('b')", "valid: 2, as in the first line: a word and its tag"]),
        (["a\tO", "b\t "], Conll(), ["line 2", "no tag for 'b'"]),
        (["a O"], Conll(tag="3"), ["line 1", "2 columns", "valid: 3 or more"]),
        ([node("1", "a")], Conll("conllu", tag="2"), ["--tag-column 2 with --format conllu; valid: upos, xpos"]),
        ([node("1", "a"), node("3", "b")], Conll("conllu"), ["line 2", "word '3'", "valid: 2"]),
        ([node("1", "a", "_")], Conll("conllu"), ["line 1", "no upos tag for 'a'"]),
    ):
        path = write(tmp_path / "a.txt", *lines)
        refused(["input test.de:", str(path), *words], sentences, reader, path)


def sources_of(name, folder, languages=(), training=("en",)):
    """SPLIT.LANG=FILE, the files below the folder."""
    return [item.replace(f"{folder}/", "") for item in LAYOUTS[name].sources(name, folder, languages, training)]


def test_files_and_languages(tmp_path):
    for name in ("en.train", "en.dev", "de.dev", "de.test", "en.dev.old", "de.x.dev", "fr.dev/file", "de.train"):
        write(tmp_path / f"NC/xglue.nc.{name}")
    valid = ["valid.de=NC/xglue.nc.de.dev", "valid.en=NC/xglue.nc.en.dev"]
    assert sources_of("xglue-nc", tmp_path) == ["train.en=NC/xglue.nc.en.train", *valid, "test.de=NC/xglue.nc.de.test"]
    assert sources_of("xglue-nc", tmp_path, ["en", "de"])[1:3] == valid
    assert sources_of("xglue-nc", tmp_path, training=("de",))[0] == "train.de=NC/xglue.nc.de.train"
    refused("--languages de,ru: ru is in no file of xglue-nc", sources_of, "xglue-nc", tmp_path, ["de", "ru"])


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


def xtreme(folder, gold=False):
    """Tasks of XTREME in English with translations into German; with ``gold`` German training files whose labels are wrong."""
    languages = ["en", "de"] if gold else ["en"]
    for language in languages:
        wrong = language == "de"
        write(folder / f"xnli/train-{language}.tsv", f"the cat\ta dog\t{'wrong' if wrong else 'neutral'}")
        write(folder / f"pawsx/train-{language}.tsv", f"the cat\ta dog\t{'7' if wrong else '1'}")
        for task in ("panx", "udpos"):
            write(folder / f"{task}/train-{language}.tsv", f"the\t{'WRONG' if wrong else 'O'}", "cat\tO")
        answer = ("dog", 2) if wrong else ("cat", 2)
        path = folder / f"tydiqa/tydiqa-goldp-v1.1-train/tydiqa.goldp.{language}.train.json"
        squad(write(path), ("a dog" if wrong else "a cat", [("1", "q?", [answer])]))
    for task in ("xnli", "pawsx"):
        write(folder / f"{task}/dev-de.tsv", f"the cat\ta dog\t{'neutral' if task == 'xnli' else '1'}")
        write(folder / f"{task}/test-de.tsv", "the cat\ta dog")
    for task in ("panx", "udpos"):
        write(folder / f"{task}/dev-de.tsv", "the\tO")
        write(folder / f"{task}/test-de.tsv", "the", "cat")
    squad(write(folder / "squad/train-v1.1.json"), ("a cat", [("1", "q?", [("cat", 2)])]))
    files = ["squad/dev-v1.1.json", "xquad/xquad.de.json", "tydiqa/tydiqa-goldp-v1.1-dev/tydiqa.goldp.de.dev.json"]
    files += [f"mlqa/MLQA_V1/{split}/{split}-context-de-question-de.json" for split in ("dev", "test")]
    translations = folder / "xtreme_translations"
    files += [f"{translations}/SQuAD/translate-train/squad.translate.train.en-de.json"]
    files += [f"{translations}/TyDiQA-GoldP/translate-train/tydiqa.translate.train.en-de.json"]
    for name in files:
        squad(write(folder / name), ("a Hund", [("1", "q?", [("Hund", 2)])]))
    pair = "the cat\ta dog\tdie Katze\tder Hund"
    for task, label, other in (("XNLI", "neutral", "contradictory"), ("PAWSX", "1", "die")):
        rows = [f"{pair}\t{label}", f"{pair}\t{other}", "the cat\ta dog"]
        write(translations / f"{task}/translate-train/en-de-translated.tsv", *rows)
    return folder


XTREME = {"xnli": "sentences", "pawsx": "sentences", "xquad": "questions", "mlqa": "questions", "tydiqa": "questions"}


def files_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("task", XTREME)
def test_translations_are_read_and_gold_labels_of_other_languages_are_not(run, tmp_path, task):
    found = []
    for gold in (False, True):
        folder = xtreme(tmp_path / f"gold-{gold}", gold)
        counts = run(XTREME[task], "--layout", f"xtreme-{task}", "--folder", folder, "--train-languages", "translate")
        found.append(files_of(run.out))
        shutil.rmtree(run.out)
    assert found[0] == found[1]
    assert {name for name in counts if not name.startswith(("valid", "test"))} == {"train.en", "translate.de"}
    of = counts["translate.de"]
    assert (of["kept"], of["read"]) == ((1, 1) if XTREME[task] == "questions" else (1, 3)), of["dropped"]


def test_rows_of_translations(run, tmp_path):
    folder = xtreme(tmp_path / "download")
    counts = run("sentences", "--layout", "xtreme-xnli", "--folder", folder, "--train-languages", "translate")
    assert counts["translate.de"]["dropped"] == {"label that train has not": 2}, (
        "another width, a label of no English row"
    )
    assert "".join(run.rows("input0", "translate.de")[0]) == "\u2581die\u2581Katze</s>"
    assert run.rows("label", "translate.de") == run.rows("label", "train.en") == [["neutral", "</s>"]]
    write(folder / "xnli/train-en.tsv", "the cat\ta dog\tneutral", "the cat\ta dog\tcontradiction")
    counts = run("sentences", "--layout", "xtreme-xnli", "--folder", folder, "--train-languages", "translate")
    assert counts["translate.de"]["kept"] == 2, "XNLI's translations call a contradiction contradictory"


def test_what_has_no_translations_is_refused(run, tmp_path):
    folder = xtreme(tmp_path / "download", gold=True)
    for task in ("panx", "udpos"):
        line = ["tags", "--layout", f"xtreme-{task}", "--folder", folder, "--train-languages"]
        refused(
            [f"translate: xtreme-{task} has no machine translations", "every word has a label"], run, *line, "translate"
        )
        refused(["all", "gold labels of the test languages", "valid: codes", "or translate"], run, *line, "all")
        refused(["translate alone"], run, *line, "en,translate")
        counts = run(*line, "en")
        assert set(counts) == {"train.en", "valid.de", "test.de"}
        assert counts["test.de"]["notes"] == {"rows without tags": 1}
        assert set(run.rows("label", "test.de")[0]) == {"<unk>", "<pad>", "</s>"}
        gold = set(run(*line, "en,de"))
        assert gold == {"train.de", "train.en", "valid.de", "test.de"}, "gold labels, by name"
        write(folder / f"{task}/test-de.tsv", "the\tO", "cat\tO")
        assert run(*line, "en")["test.de"]["notes"] == {}
    shutil.rmtree(folder / "xtreme_translations")
    line = ["questions", "--layout", "xtreme-xquad", "--folder", folder, "--train-languages", "translate"]
    refused(["no xtreme_translations/SQuAD/translate-train/squad.translate.train.en-{lang}.json"], run, *line)
    squad(write(folder / "squad/squad.translate.train.en-de.json"), ("a Hund", [("1", "q?", [("Hund", 2)])]))
    assert "translate.de" in run(*line)
