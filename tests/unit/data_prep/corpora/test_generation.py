"""Test question generation, summaries and data to text: lines by hand, splits, bad records."""

import json

import pytest

from data_prep.corpora import question_generation, summaries, triples
from data_prep.io import read_json
from data_prep.text.split import shares_from_ratios, split_of
from tests.nlu_bins import write
from tests.unit.data_prep.corpora.builders import squad
from tests.unit.data_prep.files import assert_refused, read_lines


@pytest.fixture
def articles(tmp_path):
    """Write twenty articles of two paragraphs with two questions each."""

    def paragraph(article, name):
        questions = [(f"what {article} {name} {q}?", [f"{article} {name}", "other"]) for q in "xy"]
        return f"passage  {article} {name}\nwith words", questions

    content = {f"Title_{a}": [paragraph(a, name) for name in "ab"] for a in range(20)}
    return write(tmp_path / "squad.json", squad(content))


def make_questions(path, out, *more):
    """Run the verb, with train alone unless ratios are named; return its counts."""
    options = ["--valid-ratio", "0", "--test-ratio", "0", *more]
    question_generation.main(["--inputs", str(path), "--output-dir", str(out), *options])
    return read_json(out / "question_generation.json")["counts"]


def test_source_is_passage_and_answer_target_is_the_question(articles, tmp_path):
    counts = make_questions(articles, tmp_path / "out")
    assert read_lines(tmp_path / "out/train.passage")[1:4] == [
        "passage 0 a with words [S] 0 a",
        "passage 0 b with words [S] 0 b",
        "passage 0 b with words [S] 0 b",
    ]
    questions = read_lines(tmp_path / "out/train.question")
    assert questions[:3] == ["what 0 a x?", "what 0 a y?", "what 0 b x?"]
    assert counts == {"train": 80, "articles": {"train": 20}, "dropped or cut": {}}


def test_no_article_is_in_two_splits(articles, tmp_path):
    options = "--valid-ratio 0.3 --test-ratio 0.3 --langs p q".split()
    counts = make_questions(articles, tmp_path / "out", *options)
    splits = {}
    for split in ("train", "valid", "test"):
        for source in read_lines(tmp_path / f"out/{split}.p"):
            splits.setdefault(source.split()[1], set()).add(split)
    shares = shares_from_ratios(0.3, 0.3)
    assert splits == {str(a): {split_of([f"Title_{a}"], shares)} for a in range(20)}
    assert sum(counts["articles"].values()) == 20
    assert all(counts[split] == 4 * number for split, number in counts["articles"].items())


def test_questions_without_an_answer_and_long_passages(tmp_path):
    questions = [("one?", ["b"]), ("two?", ["f g"]), ("none?", []), (" ", ["b"])]
    questions.append(("q " * 81, ["b"]))
    path = write(tmp_path / "squad.json", squad({"T": [("a b c d e f g", questions)]}))
    counts = make_questions(path, tmp_path / "out", "--max-source", "6")
    assert read_lines(tmp_path / "out/train.passage") == ["a b c d [S] b"]
    assert counts["dropped or cut"] == {
        "train: answer beyond the cut": 1,
        "train: empty": 1,
        "train: no answer": 1,
        "train: target too long": 1,
        "train: source cut": 2,
    }


def test_bad_question_files_are_refused(tmp_path):
    path = tmp_path / "squad.json"
    renamed = squad({"T": [("c", [("q", ["c"])])]}).replace('"question"', '"frage"')
    for text, words in (
        ('{"data": [\n{"title": "T",,}]}', ["line 2", "not JSON"]),
        ('{"data":\n "\udce9"}', ["line 2: not UTF-8"]),
        ('{"version": 1}', ["'data'", "found: version"]),
        ('{"data": [{"paragraphs": [{"qas": []}]}]}', ["data[0].paragraphs[0]", "'context'"]),
        (renamed, ["paragraphs[0].qas[0]", "'question'"]),
        (squad({"T": [("a [S] b", [("q", ["b"])])]}), ["data[0].paragraphs[0].qas[0]", "[S]"]),
    ):
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        assert_refused([str(path), *words], make_questions, path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def write_records(path, *records):
    return str(write(path, *map(json.dumps, records)))


def read_texts(folder):
    return {path.name: read_lines(path) for path in folder.iterdir() if path.suffix != ".json"}


def test_dialogues_and_a_file_per_reference(tmp_path):
    dialogue = {"dialogue": "#A#: hello\n#B#: you\u2028\n", "summary": "they  greet"}
    records = [
        {"dialogue": f"d{i}", "summary1": f"one {i}", "summary2": f"two {i}", "topic1": "t"}
        for i in range(2)
    ]
    train = write_records(tmp_path / "dev.jsonl", dialogue)
    test = write_records(tmp_path / "test.jsonl", *records)
    options = ["--splits", "train", "test", "--output-dir", str(tmp_path / "out")]
    summaries.main(["--inputs", train, test, *options])
    assert read_texts(tmp_path / "out") == {
        "train.dialogue": ["#A#: hello #B#: you"],
        "train.summary": ["they greet"],
        "test.dialogue": ["d0", "d1"],
        "test.summary": ["one 0", "one 1"],
        "test.summary.ref1": ["one 0", "one 1"],
        "test.summary.ref2": ["two 0", "two 1"],
    }


def test_targets_of_train_are_cut_on_request(tmp_path):
    """Cut Chinese by character, keep blanks, and leave references of other splits as they are."""
    rows = [("a  b c d", "one two, three"), ("我 喜欢 ab 猫", "我喜欢猫"), ("a", "x y")]
    records = [{"dialogue": dialogue, "summary": summary} for dialogue, summary in rows]
    train = write_records(tmp_path / "a.jsonl", *records)
    valid = write_records(tmp_path / "b.jsonl", {"dialogue": "a", "summary": "one two three"})
    limits = "--max-target 2 --max-source 3 --cut-target --splits train valid".split()
    summaries.main(["--inputs", train, valid, *limits, "--output-dir", str(tmp_path / "out")])
    assert read_texts(tmp_path / "out") == {
        "train.summary": ["one two,", "我喜", "x y"],
        "train.dialogue": ["a b c", "我 喜欢", "a"],
        "valid.summary": ["one two three"],
        "valid.dialogue": ["a"],
    }
    counts = read_json(tmp_path / "out/summaries.json")["counts"]["dropped or cut"]
    assert counts == {"train: source cut": 2, "train: target cut": 2}


def test_bad_records_and_options_are_refused(tmp_path):
    good = '{"dialogue": "d", "summary": "s"}'
    two_references = '{"dialogue": "d", "summary1": "s", "summary2": "t"}'
    for row, options, words in (
        ("{", "", ["line 2", "not JSON"]),
        ('{"dialogue": "d"}', "", ["line 2", "'summary'", "found: dialogue"]),
        (two_references, "", ["line 2", "2 references", "valid: 1"]),
        (good, "--splits a b", ["--splits a b", "2 names for 1"]),
        (good, "--unit pieces", ["--unit pieces without --model"]),
    ):
        file = write(tmp_path / "dev.jsonl", good, row)
        files = ["--inputs", str(file), "--output-dir", str(tmp_path / "out")]
        assert_refused(words, summaries.main, [*files, "--splits", "dev", *options.split()])
    assert not (tmp_path / "out").exists()


def test_triples_by_hand(tmp_path):
    """Group the references of equal triples, and leave empty texts out."""
    airport = (
        'Aarhus_Airport | runwayLength | "2702.0" <SEP> Aarhus | ICAOLocationIdentifier | EKAH'
    )
    town = "A (b) | elevationAboveTheSeaLevel (in metres) | 25.0"
    source = str(write(tmp_path / "t", airport, town, airport, airport))
    target = str(write(tmp_path / "x", "First text.", "Second.", " ", "Third."))
    files = ["--triples", source, source, "--texts", target, target, "--splits", "train", "valid"]
    triples.main([*files, "--grouped", "valid", "--output-dir", str(tmp_path / "out")])
    airport = "Aarhus Airport | runway length | 2702.0 [S] Aarhus | ICAO location identifier | EKAH"
    town = "A (b) | elevation above the sea level (in metres) | 25.0"
    assert read_texts(tmp_path / "out") == {
        "train.triples": [airport, town, airport],
        "train.text": ["First text.", "Second.", "Third."],
        "valid.triples": [airport, town],
        "valid.text": ["First text.", "Second."],
        "valid.text.ref1": ["First text.", "Second."],
        "valid.text.ref2": ["Third.", ""],
    }


def test_bad_triples_and_options_are_refused(tmp_path):
    for row, options, message in (
        ("a | b", "", "/t, line 2: "),
        ("a | b | c | d", "", "/t, line 2: "),
        ("a | b | c <SEP> d | e", "", "/t, line 2: "),
        ("a |  | c", "", "/t, line 2: "),
        ("a | b | c", "--splits train --grouped train", "--grouped train"),
        ("a | b | c", "--splits dev test", "--splits dev test"),
    ):
        source, target = write(tmp_path / "t", "a | b | c", row), write(tmp_path / "x", "x", "y")
        files = f"--triples {source} --texts {target} --output-dir {tmp_path}/out --splits dev"
        assert_refused(message, triples.main, f"{files} {options}".split())
