"""Tables with tabs: columns by number and name, headers, csv quotes, missing labels, and what is refused with file and line."""

import csv
from collections import Counter

import pytest

from data_prep import nlu_rows, nlu_sources
from data_prep.nlu_conll import Conll
from data_prep.nlu_rows import Row, Table
from data_prep.nlu_sources import Source
from tests.nlu_bins import write
from tests.unit.data_prep.files import refused

PAIR = (("1",), ("2",))


def rows(table, path, split="train", limit=0):
    """All rows of a file."""
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
    assert rows(table, path, limit=1) == rows(table, path)[:1]
    assert [row.number for row in rows(Table((("2",),), "4", header=("train",)), path, "valid")] == [1, 2, 3]


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


@pytest.mark.parametrize("label", ["3", "last", "class"])
def test_only_test_files_may_lack_labels(tmp_path, label):
    path = write(tmp_path / "a.tsv", "one\ttwo", "a\tb")
    table = Table(PAIR, label, header=("test", "train") if label == "class" else ())
    assert rows(table, path, "test")[-1] == Row(2, ("a", "b"), "", "")
    assert not table.labelled(Source("test", "en", path))
    refused(["train.en: ", "a.tsv, line 1: 2 columns", f"--label {label} is "], rows, table, path)
    full = write(tmp_path / "b.tsv", "one\ttwo\tclass", "a\tb\tc")
    assert table.labelled(Source("test", "en", full))


@pytest.mark.parametrize(
    ("content", "table", "words"),
    [
        (b"a\tb\t1\nc\td\n", Table(PAIR), ["line 2", "2 columns", "valid: 3"]),
        (b"a\tb\t1\nc\td\te\tf\n", Table(PAIR), ["line 2", "4 columns", "valid: 3"]),
        (b"a\tb\t1\nc\td\t \n", Table(PAIR), ["line 2", "no label"]),
        (b"a\tb\t1\n", Table((("1",), ("4",))), ["line 1", "3 columns", "--text 4", "1 to 3"]),
        (b"a\tb\t1\n", Table((("1",),), "9"), ["line 1", "--label 9 is not there", "1 to 3"]),
        (b"a\tb\t1\n", Table((("1",),), "1"), ["line 1", "--label 1 is a text already"]),
        (b"a\tb\t1\n", Table((("x",),), header=("train",)), ["--text x", "1 to 3, last, a, b, 1"]),
        (b"a\tb\t1\n", Table(PAIR, query="5"), ["--query 5"]),
        (b"a\tb\t1\n \tb\t1\n", Table(PAIR, query="1"), ["line 2", "as --query", "an id"]),
        ("a\u2028x\tb\t1\n".encode(), Table(PAIR, query="1"), ["line 1", "as --query", "on one line"]),
        (b"\xef\xbb\xbfa\tb\t1\n", Table(PAIR), ["line 1", "byte order mark"]),
        (b"a\tb\t1\nc\td\t1\r\n", Table(PAIR), ["line 2", "CR (U+000D) at position 6"]),
        (b"a\tb\t1\nc\0\td\t1\n", Table(PAIR), ["line 2", "NUL (U+0000) at position 2"]),
        (b"a\tb\t1\nc\t\xff\t1\n", Table(PAIR), ["line 2", "not UTF-8 (byte 0xff at byte 3"]),
        (b"", Table(PAIR), ["the file is empty"]),
    ],
)
def test_what_is_refused(tmp_path, content, table, words):
    path = tmp_path / "a.tsv"
    path.write_bytes(content)
    refused(["input train.en:", str(path), *words], rows, table, path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nlu_rows.parse_texts("1,2,3", ()), "--text 1,2,3: valid: one or two texts"),
        (lambda: nlu_rows.parse_texts("1+,2", ()), "--text 1+,2"),
        (lambda: nlu_rows.parse_texts("title", ()), "--text title: valid: a number from 1"),
        (lambda: nlu_rows.check_columns("--label", ["x"], ()), "--label x"),
        (lambda: nlu_rows.parse_header("dev"), "--header dev"),
        (lambda: nlu_rows.parse_map("a=b,a=c"), "'a=c'"),
        (lambda: nlu_sources.parse_limits("0"), "--limit 0"),
        (lambda: nlu_sources.parse_limits("train=3,train=4"), "--limit train=3,train=4"),
        (lambda: nlu_sources.parse_sources([], {}), "none is given"),
        (lambda: nlu_sources.parse_sources(["dev.en=x"], {}), "input dev.en=x: valid: SPLIT.LANG=FILE"),
        (lambda: nlu_sources.parse_sources(["test.e.n=x"], {}), "input test.e.n=x"),
        (lambda: nlu_sources.parse_sources(["test.en=nowhere"], {"test": 0}), "input test.en nowhere: no such file"),
        (lambda: nlu_sources.parse_sources([f"test.en={__file__}"] * 2, {"test": 0}), "given twice"),
        (lambda: Conll(token=0), "--token-column 0"),
        (lambda: Conll(tag="pos"), "--tag-column pos"),
    ],
)
def test_options_that_are_refused(call, message):
    refused(message, call)


# ---- Tagged sentences. ----


def sentences(reader, path, limit=0):
    """Words and tags of a file, the lines of the first words, and what was passed over."""
    skipped = Counter()
    found = list(reader.sentences(Source("test", "de", path, limit), skipped))
    return [list(zip(one.words, one.tags)) for one in found], [one.number for one in found], dict(skipped)


def test_conll_with_tabs_and_spaces(tmp_path):
    tabs = write(tmp_path / "a.tsv", "", "New York\tB-LOC", "\u00a0\tO", "\tO", "", " ", "#\tO", "\u2028x\tO")
    words = [[("New York", "B-LOC"), ("\u00a0", "O"), ("", "O")], [("#", "O"), ("\u2028x", "O")]]
    assert sentences(Conll(), tabs) == (words, [2, 7], {})
    assert sentences(Conll(), tabs, 1) == (words[:1], [2], {})
    mark = "-DOCSTART- -X- -X- O"
    spaces = write(
        tmp_path / "a.txt", mark, "", "EU NNP  B-NP B-ORG", "a\u00a0b VB B-VP O", mark, "c N x O", "", mark, "d N x O"
    )
    words = [[("EU", "B-ORG"), ("a\u00a0b", "O")], [("c", "O")], [("d", "O")]]
    assert sentences(Conll(), spaces) == (words, [3, 6, 9], {"marks of documents": 3})
    assert sentences(Conll(tag="2"), spaces)[0][0] == [("EU", "NNP"), ("a\u00a0b", "VB")]
    plain = write(tmp_path / "b.txt", "EU NNP O")
    assert sentences(Conll(token=2, tag="1", label_map={"EU": "X"}), plain)[0] == [[("NNP", "X")]]


def node(name, form, upos="NOUN", xpos="NN"):
    """A line of CoNLL-U."""
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


@pytest.mark.parametrize(
    ("lines", "reader", "words"),
    [
        (["a\tO", "b"], Conll(), ["line 2", "1 columns ('b')", "valid: 2, as in the first line: a word and its tag"]),
        (["a\tO", "b\t "], Conll(), ["line 2", "no tag for 'b'"]),
        (["a O", "b\tO"], Conll(), ["line 2", "1 columns"]),
        (["a"], Conll(), ["line 1", "valid: 2 or more"]),
        (["a O"], Conll(tag="3"), ["line 1", "2 columns", "valid: 3 or more"]),
        (["a O"], Conll(tag="1"), ["line 1", "both 1"]),
        (["a O"], Conll(tag="upos"), ["--tag-column upos with --format conll; valid: a number from 1, last"]),
        ([node("1", "a")], Conll("conllu", 2), ["--token-column 2: valid: only with --format conll"]),
        ([node("1", "a")], Conll("conllu", tag="2"), ["--tag-column 2 with --format conllu; valid: upos, xpos"]),
        ([node("1", "a"), "2\tb\tNOUN"], Conll("conllu"), ["line 2", "3 columns", "valid: 10"]),
        ([node("1", "a"), node("3", "b")], Conll("conllu"), ["line 2", "word '3'", "valid: 2"]),
        ([node("1", "a", "_")], Conll("conllu"), ["line 1", "no upos tag for 'a'"]),
        ([node("1", "a", "X", "_")], Conll("conllu", tag="xpos"), ["line 1", "no xpos tag for 'a'"]),
    ],
)
def test_misaligned_words_and_tags(tmp_path, lines, reader, words):
    path = write(tmp_path / "a.txt", *lines)
    refused(["input test.de:", str(path), *words], sentences, reader, path)
