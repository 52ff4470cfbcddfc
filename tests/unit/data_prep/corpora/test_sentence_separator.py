"""Test ``</s>`` between the sentences of a document: ends, limits, readers, the data-bin."""

import json
import os
import subprocess
import sys

import pytest
from fairseq.data import Dictionary, data_utils

from data_prep.corpora import collections as corpora
from data_prep.corpora import question_generation, summaries
from data_prep.corpora.examples import Limits, Ruler
from data_prep.io import read_json
from data_prep.pieces.encode import apply_files, decode_files
from data_prep.pieces.segmenters import SentencePiece
from data_prep.text.sentences import split_sentences
from tests.nlu_bins import write
from tests.unit.data_prep.files import assert_refused, read_lines

END = "</s>"
SEPARATED = ["--sentence-separator", END]


@pytest.mark.cases(
    "text sentences",
    (
        "He came. She left! Was it J. Smith? No. 5.",
        ["He came.", "She left!", "Was it J. Smith?", "No. 5."],
    ),
    ('He said "go." Then (he left.) Why...', ['He said "go."', "Then (he left.)", "Why..."]),
    ("at 3.5 p.m. today, www.a.b", ["at 3.5 p.m. today, www.a.b"]),
    ("he came . she left . fine", ["he came .", "she left .", "fine"]),  # tokenised, lower-cased
    ("他来了。「好！」她说。完", ["他来了。", "「好！」", "她说。", "完"]),
    ("one line\n two.  Three ", ["one line", "two.", "Three"]),
    (" \n", []),
)
def test_where_sentences_end(text, sentences):
    assert split_sentences(text) == sentences


def read(reader, folder, *more):
    """The lines of test.source after a run of a reader, and its manifest."""
    reader.main(
        [
            *map(str, more),
            "--splits",
            "test",
            "--output-dir",
            str(folder / "out"),
            *("--langs", "src", "tgt"),
        ]
    )
    return read_lines(folder / "out" / "test.src"), read_json(next((folder / "out").glob("*.json")))


DOCUMENT = "The cat sat. A dog came! It left"
JOINED = f"The cat sat. {END} A dog came! {END} It left"
LAYOUTS = {
    "xgiga": ("test.x.en", "test.y.en", ()),
    "xglue-ntg": ("NTG/xglue.ntg.en.src.test", "NTG/xglue.ntg.en.tgt.test", ()),
    "wikilingua": ("english/test.src.en", "english/test.tgt.en", ("--to", "en")),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_collections_of_documents(tmp_path, layout):
    source, target, more = LAYOUTS[layout]
    for name, text in ((source, DOCUMENT), (target, "A summary. Of two")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name, text)
    line = ("--layout", layout, "--folder", tmp_path, *more)
    rows, manifest = read(corpora, tmp_path, *line, *SEPARATED)
    assert rows == [JOINED] and read_lines(tmp_path / "out" / "test.tgt") == ["A summary. Of two"]
    assert manifest["options"]["sentence_separator"] == END
    rows, manifest = read(corpora, tmp_path, *line)
    assert rows == [DOCUMENT] and "sentence_separator" not in manifest["options"]


def test_lines_of_files_and_of_ncls(tmp_path):
    write(tmp_path / "a", DOCUMENT)
    write(tmp_path / "b", "x")
    files = ("--layout", "lines", "--sources", tmp_path / "a", "--targets", tmp_path / "b")
    assert read(corpora, tmp_path, *files, *SEPARATED)[0] == [JOINED]
    (tmp_path / "EN2ZHSUM").mkdir()
    article = "<Article>\na line without an end\nThe cat sat. It left.\n</Article>"
    text = f"<doc id=0>\n{article}\n<ZH-REF>\n壹\n</ZH-REF>\n</doc>"
    write(tmp_path / "EN2ZHSUM" / "EN2ZHSUM_test.txt", text)
    ncls = ("--layout", "ncls", "--folder", tmp_path)
    assert read(corpora, tmp_path, *ncls, *SEPARATED)[0] == [
        f"a line without an end {END} The cat sat. {END} It left."
    ]
    assert read(corpora, tmp_path, *ncls)[0] == ["a line without an end The cat sat. It left."]


def test_articles_of_lcsts(tmp_path):
    (tmp_path / "ZH2ENSUM").mkdir()
    write(
        tmp_path / "ZH2ENSUM" / "ZH2ENSUM_test.txt",
        "<doc id=7>\n<en-summary>\na cat\n</en-summary>\n</doc>",
    )
    write(tmp_path / "PART_I.txt", "<doc id=7>\n<short_text>\n猫坐。狗来\n</short_text>\n</doc>")
    line = (
        "--layout",
        "ncls",
        "--from",
        "zh",
        "--folder",
        tmp_path,
        "--articles",
        tmp_path / "PART_I.txt",
    )
    assert read(corpora, tmp_path, *line, *SEPARATED)[0] == [f"猫坐。 {END} 狗来"]


def test_records_of_json_lines(tmp_path):
    write(
        tmp_path / "a.jsonl", json.dumps({"dialogue": "The cat sat. It left.\nBye", "summary": "s"})
    )
    line = ("--inputs", tmp_path / "a.jsonl")
    assert read(summaries, tmp_path, *line, *SEPARATED)[0] == [
        f"The cat sat. {END} It left. {END} Bye"
    ]
    assert read(summaries, tmp_path, *line)[0] == ["The cat sat. It left. Bye"]
    assert_refused(
        "valid: one of them", read, summaries, tmp_path, *line, *SEPARATED, "--turn-separator", "|"
    )


def test_bad_separators_and_other_readers_are_refused(tmp_path):
    write(tmp_path / "a", f"The cat {END} sat.")
    write(tmp_path / "b", "x")
    line = ("--layout", "lines", "--sources", tmp_path / "a", "--targets", tmp_path / "b")
    assert_refused(f"a source of test holds '{END}'", read, corpora, tmp_path, *line, *SEPARATED)
    for text in ("a b", " ", " x"):
        assert_refused(
            "valid: a text without blanks",
            read,
            corpora,
            tmp_path,
            *line,
            "--sentence-separator",
            text,
        )
    with pytest.raises(SystemExit):
        question_generation.main(["--inputs", "x", "--output-dir", "y", *SEPARATED])
    assert not (tmp_path / "out").exists()


def test_limits_count_words_without_and_pieces_with_the_separator(nlu_model):
    ruler = Ruler(Limits(max_source=3), END)
    assert ruler.cut_source(JOINED) == "The cat sat."
    assert Ruler(Limits(max_source=4), END).cut_source(JOINED) == f"The cat sat. {END} A"
    text = f"the cat {END} a dog {END} the cat"
    pieces = len(Ruler(Limits(0, 0, "pieces", str(nlu_model[0])), END).units(text))
    plain = SentencePiece(nlu_model[0])
    assert pieces == 2 + sum(
        len(next(plain.encode([part]))) for part in ("the cat", "a dog", "the cat")
    )
    for limit in (pieces + 1, pieces):  # </s> at the end counts
        ruler = Ruler(Limits(limit, 0, "pieces", str(nlu_model[0])), END)
        short = ruler.cut_source(text)
        assert len(ruler.units(short)) + 1 <= limit and (short == text) == (limit == pieces + 1)


def test_the_symbol_reaches_the_data_bin(nlu_model, repo_root, tmp_path):
    """Segment each sentence by itself; ``</s>`` is text inside a word or without the option."""
    model, dictionary = nlu_model
    rows = {"src": [f"the cat {END} a dog", "the cat"], "tgt": ["a dog", "a cat"]}
    for side, text in rows.items():
        for split in ("train", "valid", "test"):
            write(tmp_path / "text" / f"{split}.{side}", *text)
    line = [
        "--text",
        tmp_path / "text",
        "--model",
        model,
        "--dict",
        dictionary,
        "--pairs",
        "src-tgt",
    ]
    command = [
        "bash",
        repo_root / "data_prep" / "preprocess.sh",
        *line,
        "--out",
        tmp_path / "bin",
        "--keep-sentence-ends",
    ]
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    symbols = Dictionary.load(str(dictionary))
    data = data_utils.load_indexed_dataset(str(tmp_path / "bin" / "train.src-tgt.src"), symbols)
    plain = SentencePiece(model)
    first, second = (next(plain.encode([part])) for part in ("the cat", "a dog"))
    expected = [
        *map(symbols.index, first),
        symbols.eos(),
        *map(symbols.index, second),
        symbols.eos(),
    ]
    assert data[0].tolist() == expected
    assert data[1].tolist() == [*map(symbols.index, first), symbols.eos()]


def test_pieces_come_back_as_text(nlu_model, tmp_path):
    model, dictionary = nlu_model
    source = write(tmp_path / "a", f"the cat {END} a dog", f"the{END} cat", END)
    for keeps_ends in (True, False):
        apply_files(
            "spm", model, [source], [tmp_path / "pieces"], dictionary, 1.0, keeps_ends=keeps_ends
        )
        rows = [line.split() for line in read_lines(tmp_path / "pieces")]
        assert [row.count(END) for row in rows] == ([1, 0, 1] if keeps_ends else [0, 0, 0])
    apply_files("spm", model, [source], [tmp_path / "pieces"], dictionary, 1.0, keeps_ends=True)
    decode_files(SentencePiece(model, keeps_ends=True), [tmp_path / "pieces"], [tmp_path / "back"])
    assert read_lines(tmp_path / "back")[0] == f"the cat {END} a dog"
