"""Question generation, summaries and data to text: lines by hand, splits by article, references, limits, errors."""

import json

import pytest

from data_prep.corpora import question_generation, summaries, triples
from data_prep.io import read_json
from data_prep.text.split import shares_from_ratios, split_of
from tests.nlu_bins import write
from tests.unit.data_prep.files import assert_refused, read_lines


def squad(articles):
    """SQuAD's layout of title -> [(passage, [(question, answers)])]."""

    def paragraph(passage, questions):
        answers = [[{"text": text, "answer_start": 0} for text in found] for _, found in questions]
        qas = [{"question": one, "answers": found} for (one, _), found in zip(questions, answers)]
        return {"context": passage, "qas": qas}

    data = [{"title": title, "paragraphs": [paragraph(*each) for each in rows]} for title, rows in articles.items()]
    return json.dumps({"data": data}, indent=1)


@pytest.fixture
def articles(tmp_path):
    """Twenty articles of two paragraphs with two questions each."""

    def paragraph(a, p):
        return f"passage  {a} {p}\nwith words", [(f"what {a} {p} {q}?", [f"{a} {p}", "other"]) for q in "xy"]

    return write(tmp_path / "squad.json", squad({f"Title_{a}": [paragraph(a, p) for p in "ab"] for a in range(20)}))


def ask(path, out, *more):
    """Run the verb without other splits than train, unless they are given; returns the counts of the manifest."""
    options = ["--valid-ratio", "0", "--test-ratio", "0", *more]
    question_generation.main(["--inputs", str(path), "--output-dir", str(out), *options])
    return read_json(out / "question_generation.json")["counts"]


def test_passage_answer_and_question(articles, tmp_path):
    counts = ask(articles, tmp_path / "out")
    b = "passage 0 b with words [S] 0 b"
    assert read_lines(tmp_path / "out/train.passage")[1:4] == ["passage 0 a with words [S] 0 a", b, b]
    assert read_lines(tmp_path / "out/train.question")[:3] == ["what 0 a x?", "what 0 a y?", "what 0 b x?"]
    assert counts == {"train": 80, "articles": {"train": 20}, "dropped or cut": {}}


def test_no_article_is_in_two_splits(articles, tmp_path):
    counts = ask(articles, tmp_path / "out", "--valid-ratio", "0.3", "--test-ratio", "0.3", "--langs", "p", "q")
    found = {}
    for split in ("train", "valid", "test"):
        for source in read_lines(tmp_path / f"out/{split}.p"):
            found.setdefault(source.split()[1], set()).add(split)
    shares = shares_from_ratios(0.3, 0.3)
    assert found == {str(a): {split_of([f"Title_{a}"], shares)} for a in range(20)}
    assert sum(counts["articles"].values()) == 20
    assert all(counts[split] == 4 * number for split, number in counts["articles"].items())


def test_questions_without_an_answer_and_long_passages(tmp_path):
    questions = [("one?", ["b"]), ("two?", ["f g"]), ("none?", []), (" ", ["b"]), ("q " * 81, ["b"])]
    path = write(tmp_path / "squad.json", squad({"T": [("a b c d e f g", questions)]}))
    counts = ask(path, tmp_path / "out", "--max-source", "6")
    assert read_lines(tmp_path / "out/train.passage") == ["a b c d [S] b"]
    dropped = dict.fromkeys(("answer beyond the cut", "empty", "no answer", "target too long"), 1)
    assert counts["dropped or cut"] == {f"train: {why}": n for why, n in {**dropped, "source cut": 2}.items()}


def test_bad_question_files_are_named(tmp_path):
    path = tmp_path / "squad.json"
    renamed = squad({"T": [("c", [("q", ["c"])])]}).replace('"question"', '"frage"')
    for text, words in (
        ('{"data": [\n{"title": "T",,}]}', ["line 2", "not JSON"]),
        ('{"data":\n "\udce9"}', ["line 2: not UTF-8"]),
        ('{"version": 1}', ["no list under 'data'", "found: version"]),
        ('{"data": [{"paragraphs": [{"qas": []}]}]}', ["data[0].paragraphs[0]", "'context'"]),
        (renamed, ["paragraphs[0].qas[0]", "'question'"]),
        (squad({"T": [("a [S] b", [("q", ["b"])])]}), ["data[0].paragraphs[0].qas[0]", "--separator"]),
    ):
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        assert_refused([str(path), *words], ask, path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_dialogues_and_a_file_a_reference(tmp_path):
    dialogue = "#A#: hello\n#B#: you\u2028\n"
    dev = str(write(tmp_path / "dev.jsonl", json.dumps({"dialogue": dialogue, "summary": "they  greet"})))
    many = [{"dialogue": f"d{i}", "summary1": f"one {i}", "summary2": f"two {i}", "topic1": "t"} for i in range(2)]
    test = str(write(tmp_path / "test.jsonl", *map(json.dumps, many)))
    summaries.main(["--inputs", dev, test, "--splits", "train", "test", "--output-dir", str(tmp_path / "out")])
    found = {path.name: read_lines(path) for path in (tmp_path / "out").iterdir() if path.suffix != ".json"}
    first, second = ["one 0", "one 1"], ["two 0", "two 1"]
    references = {"test.summary": first, "test.summary.ref1": first, "test.summary.ref2": second}
    train = {"train.dialogue": ["#A#: hello #B#: you"], "train.summary": ["they greet"]}
    assert found == {**train, "test.dialogue": ["d0", "d1"], **references}


def test_targets_of_train_can_be_cut(tmp_path):
    """Chinese counts by character, and text keeps its blanks; references of other splits stay whole."""
    rows = [("a  b c d", "one two, three"), ("我 喜欢 ab 猫", "我喜欢猫"), ("a", "x y")]
    file = write(tmp_path / "a.jsonl", *(json.dumps({"dialogue": d, "summary": s}) for d, s in rows))
    other = write(tmp_path / "b.jsonl", json.dumps({"dialogue": "a", "summary": "one two three"}))
    options = ["--output-dir", str(tmp_path / "out"), "--max-target", "2", "--max-source", "3", "--cut-target"]
    summaries.main(["--inputs", str(file), str(other), "--splits", "train", "valid", *options])
    assert read_lines(tmp_path / "out/train.summary") == ["one two,", "我喜", "x y"]
    assert read_lines(tmp_path / "out/train.dialogue") == ["a b c", "我 喜欢", "a"]
    assert read_lines(tmp_path / "out/valid.summary") == ["one two three"]
    counts = read_json(tmp_path / "out/summaries.json")["counts"]["dropped or cut"]
    assert counts == {"train: source cut": 2, "train: target cut": 2}


def test_bad_records_and_options_are_named(tmp_path):
    good = '{"dialogue": "d", "summary": "s"}'
    for row, options, words in (
        ("{", [], ["line 2", "not JSON"]),
        ('{"dialogue": "d"}', [], ["line 2", "no text under 'summary'", "found: dialogue"]),
        ('{"dialogue": "d", "summary1": "s", "summary2": "t"}', [], ["line 2", "2 references", "valid: 1"]),
        (good, ["--splits", "a", "b"], ["--splits a b", "2 names for 1"]),
        (good, ["--unit", "pieces"], ["--unit pieces without --model"]),
    ):
        file = write(tmp_path / "dev.jsonl", good, row)
        line = ["--inputs", str(file), "--splits", "dev", "--output-dir", str(tmp_path / "out"), *options]
        assert_refused(words, summaries.main, line)
    assert not (tmp_path / "out").exists()


def test_triples_by_hand(tmp_path):
    """Grouped references leave empty texts out: the first one counts in training and scores."""
    rows = ['Aarhus_Airport | runwayLength | "2702.0" <SEP> Aarhus | ICAOLocationIdentifier | EKAH']
    rows += ["A (b) | elevationAboveTheSeaLevel (in metres) | 25.0", *rows, *rows]
    texts = ["First text.", "Second.", " ", "Third."]
    one, two = str(write(tmp_path / "t", *rows)), str(write(tmp_path / "x", *texts))
    files = ["--triples", one, one, "--texts", two, two, "--splits", "train", "valid"]
    triples.main([*files, "--grouped", "valid", "--output-dir", str(tmp_path / "out")])
    found = {path.name: read_lines(path) for path in (tmp_path / "out").iterdir() if path.suffix != ".json"}
    first = "Aarhus Airport | runway length | 2702.0 [S] Aarhus | ICAO location identifier | EKAH"
    second = "A (b) | elevation above the sea level (in metres) | 25.0"
    train = {"train.triples": [first, second, first], "train.text": ["First text.", "Second.", "Third."]}
    valid = dict.fromkeys(("valid.text", "valid.text.ref1"), ["First text.", "Second."])
    assert found == {**train, "valid.triples": [first, second], **valid, "valid.text.ref2": ["Third.", ""]}


def test_bad_triples_and_options_are_named(tmp_path):
    fields = ["/t, line 2: ", " fields; valid: 'subject | predicate | object"]
    for row, options, words in (
        *((row, [], fields) for row in ("a | b", "a | b | c | d", "a | b | c <SEP> d | e", "a |  | c")),
        ("a | b | c", ["--splits", "train", "--grouped", "train"], ["--grouped train"]),
        ("a | b | c", ["--splits", "dev", "test"], ["--splits dev test"]),
    ):
        one, two = str(write(tmp_path / "t", "a | b | c", row)), str(write(tmp_path / "x", "x", "y"))
        line = ["--triples", one, "--texts", two, "--splits", "dev", "--output-dir", str(tmp_path / "out"), *options]
        assert_refused(words, triples.main, line)
