"""Question generation, summaries and data to text: lines by hand, splits by article, references, limits, errors."""

import json
from typing import Dict

import pytest

from data_prep import question_generation, summaries, triples
from data_prep.io import InputError, read_json
from data_prep.pieces import load_model
from data_prep.split import shares_from_ratios, split_of
from data_prep.spm_train import TrainOptions, train


def lines(path):
    """The lines of an output."""
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    return text[:-1].split("\n")


def write_lines(path, rows):
    """A text file; returns its name."""
    path.write_text("".join(row + "\n" for row in rows), encoding="utf-8")
    return str(path)


def squad(articles):
    """SQuAD's layout of title -> [(passage, [(question, answers)])]."""

    def asked(question, answers):
        return {"question": question, "answers": [{"text": text, "answer_start": 0} for text in answers]}

    def paragraph(passage, questions):
        return {"context": passage, "qas": [asked(*each) for each in questions]}

    data = [{"title": title, "paragraphs": [paragraph(*each) for each in rows]} for title, rows in articles.items()]
    return json.dumps({"data": data}, indent=1)


@pytest.fixture
def articles(tmp_path):
    """Twenty articles of two paragraphs with two questions each."""

    def paragraph(a, p):
        return f"passage  {a} {p}\nwith words", [(f"what {a} {p} {q}?", [f"{a} {p}", "other"]) for q in "xy"]

    path = tmp_path / "squad.json"
    path.write_text(squad({f"Title_{a}": [paragraph(a, p) for p in "ab"] for a in range(20)}), encoding="utf-8")
    return path


def refused(words, main, *arguments):
    """The call ends with an error that has these words."""
    with pytest.raises(InputError) as error:
        main(*arguments)
    for word in words:
        assert word in str(error.value)


# ---- Questions. ----


def ask(path, out, *more):
    """Run the verb; returns the counts of the manifest."""
    question_generation.main(["--inputs", str(path), "--output-dir", str(out), *more])
    manifest = read_json(out / "question_generation.json")
    assert manifest is not None
    return manifest["counts"]


def test_passage_answer_and_question(articles, tmp_path):
    counts = ask(articles, tmp_path / "out", "--valid-ratio", "0", "--test-ratio", "0")
    assert lines(tmp_path / "out/train.passage")[1:4] == [
        "passage 0 a with words [S] 0 a",
        "passage 0 b with words [S] 0 b",
        "passage 0 b with words [S] 0 b",
    ]
    assert lines(tmp_path / "out/train.question")[:3] == ["what 0 a x?", "what 0 a y?", "what 0 b x?"]
    assert counts == {"train": 80, "articles": {"train": 20}, "dropped or cut": {}}


def test_no_article_is_in_two_splits(articles, tmp_path):
    """And an article goes where its title goes, whatever the language of its text."""
    counts = ask(articles, tmp_path / "out", "--valid-ratio", "0.3", "--test-ratio", "0.3", "--langs", "p", "q")
    of: Dict[str, set] = {}
    for split in ("train", "valid", "test"):
        for source in lines(tmp_path / f"out/{split}.p"):
            of.setdefault(source.split()[1], set()).add(split)
    assert len(of) == 20
    shares = shares_from_ratios(0.3, 0.3)
    assert of == {str(a): {split_of([f"Title_{a}"], shares)} for a in range(20)}
    assert sum(counts["articles"].values()) == 20
    assert all(counts[split] == 4 * number for split, number in counts["articles"].items())


def test_questions_without_an_answer_and_long_passages(tmp_path):
    path = tmp_path / "squad.json"
    questions = [("one?", ["b"]), ("two?", ["f g"]), ("none?", []), (" ", ["b"]), ("q " * 81, ["b"])]
    path.write_text(squad({"T": [("a b c d e f g", questions)]}), encoding="utf-8")
    counts = ask(path, tmp_path / "out", "--valid-ratio", "0", "--test-ratio", "0", "--max-source", "6")
    assert lines(tmp_path / "out/train.passage") == ["a b c d [S] b"]
    assert counts["dropped or cut"] == {
        "train: answer beyond the cut": 1,
        "train: empty": 1,
        "train: no answer": 1,
        "train: source cut": 2,
        "train: target too long": 1,
    }
    whole = ask(
        path, tmp_path / "whole", "--valid-ratio", "0", "--test-ratio", "0", "--max-source", "0", "--max-target", "0"
    )
    assert lines(tmp_path / "whole/train.passage")[1] == "a b c d e f g [S] f g"
    assert whole["train"] == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"data": [\n{"title": "T",,}]}', ["line 2", "not JSON"]),
        ('{"version": 1}', ["no list under 'data'", "found: version"]),
        ('{"data": [{"title": "T"}]}', ["data[0]", "'paragraphs'"]),
        ('{"data": [{"paragraphs": [{"context": "c"}]}]}', ["data[0].paragraphs[0]", "'qas'"]),
        ('{"data": [{"paragraphs": [{"qas": []}]}]}', ["data[0].paragraphs[0]", "'context'"]),
        (
            squad({"T": [("c", [("q", ["c"])])]}).replace('"question"', '"frage"'),
            ["data[0].paragraphs[0].qas[0]", "'question'"],
        ),
        (squad({"T": [("a [S] b", [("q", ["b"])])]}), ["data[0].paragraphs[0].qas[0]", "--separator"]),
    ],
)
def test_bad_question_files_are_named(tmp_path, text, words):
    path = tmp_path / "squad.json"
    path.write_text(text, encoding="utf-8")
    refused([str(path), *words], ask, path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_split_without_an_article_is_refused(articles, tmp_path):
    with pytest.raises(InputError, match="no example for valid"):
        ask(articles, tmp_path / "out", "--valid-ratio", "0.0001", "--test-ratio", "0")
    path = tmp_path / "latin.json"
    path.write_bytes('{"data":\n "é"}'.encode("latin-1"))
    with pytest.raises(InputError, match=r"latin\.json, line 2: not UTF-8"):
        ask(path, tmp_path / "out")


# ---- Summaries. ----


def test_dialogues_and_a_file_a_reference(tmp_path):
    dialogue = "#A#: hello\n#B#: you\u2028\n"
    dev = write_lines(tmp_path / "dev.jsonl", [json.dumps({"dialogue": dialogue, "summary": "they  greet"})])
    many = [{"dialogue": f"d{i}", "summary1": f"one {i}", "summary2": f"two {i}", "topic1": "t"} for i in range(2)]
    test = write_lines(tmp_path / "test.jsonl", [json.dumps(row) for row in many])
    summaries.main(["--inputs", dev, test, "--splits", "train", "test", "--output-dir", str(tmp_path / "out")])
    found = {path.name: lines(path) for path in (tmp_path / "out").iterdir() if path.suffix != ".json"}
    assert found == {
        "train.dialogue": ["#A#: hello #B#: you"],
        "train.summary": ["they greet"],
        "test.dialogue": ["d0", "d1"],
        "test.summary": ["one 0", "one 1"],
        "test.summary.ref1": ["one 0", "one 1"],
        "test.summary.ref2": ["two 0", "two 1"],
    }
    options = ["--splits", "test", "--output-dir", str(tmp_path / "keys"), "--turn-separator", "|"]
    summaries.main(["--inputs", dev, *options, "--source-key", "summary", "--target-key", "dialogue"])
    assert lines(tmp_path / "keys/test.summary") == ["#A#: hello #B#: you"]
    summaries.main(["--inputs", dev, *options, "--source-key", "dialogue"])
    assert lines(tmp_path / "keys/test.dialogue") == ["#A#: hello | #B#: you"]


def test_targets_of_train_can_be_cut(tmp_path):
    """Chinese counts by character, and text keeps its blanks; references of other splits stay whole."""
    rows = [("a  b c d", "one two, three"), ("我 喜欢 ab 猫", "我喜欢猫"), ("a", "x y")]
    file = write_lines(tmp_path / "a.jsonl", [json.dumps({"dialogue": d, "summary": s}) for d, s in rows])
    other = write_lines(tmp_path / "b.jsonl", [json.dumps({"dialogue": "a", "summary": "one two three"})])
    options = ["--output-dir", str(tmp_path / "out"), "--max-target", "2", "--max-source", "3", "--cut-target"]
    summaries.main(["--inputs", file, other, "--splits", "train", "valid", *options])
    assert lines(tmp_path / "out/train.summary") == ["one two,", "我喜", "x y"]
    assert lines(tmp_path / "out/train.dialogue") == ["a b c", "我 喜欢", "a"]
    assert lines(tmp_path / "out/valid.summary") == ["one two three"]
    counts = json.loads((tmp_path / "out/summaries.json").read_text(encoding="utf-8"))["counts"]["dropped or cut"]
    assert counts == {"train: source cut": 2, "train: target cut": 2}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("{", ["line 2", "not JSON"]),
        ("[1]", ["line 2", "no text under 'dialogue'", "list"]),
        ('{"dialogue": "d"}', ["line 2", "no text under 'summary'", "found: dialogue"]),
        ('{"dialogue": 3, "summary": "s"}', ["line 2", "'dialogue'"]),
        ('{"dialogue": "d", "summary1": "s", "summary2": "t"}', ["line 2", "2 references", "valid: 1"]),
    ],
)
def test_bad_records_are_named(tmp_path, row, words):
    file = write_lines(tmp_path / "dev.jsonl", ['{"dialogue": "d", "summary": "s"}', row])
    refused(
        [file, *words], summaries.main, ["--inputs", file, "--splits", "dev", "--output-dir", str(tmp_path / "out")]
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--splits", "a", "b"], ["--splits a b", "2 names for 1"]),
        (["--splits", "a.b"], ["--splits a.b"]),
        (["--splits", "a", "--langs", "x", "x"], ["--langs x x"]),
        (["--splits", "a", "--max-source", "-1"], ["--max-source -1"]),
        (["--splits", "a", "--unit", "pieces"], ["--unit pieces without --model"]),
        (["--splits", "a", "--unit", "words", "--model", "m"], ["--unit words with --model"]),
        (["--splits", "a", "--model", "nowhere.model"], ["--model nowhere.model"]),
    ],
)
def test_wrong_options_are_named(tmp_path, options, words):
    file = write_lines(tmp_path / "dev.jsonl", ['{"dialogue": "d", "summary": "s"}'])
    refused(words, summaries.main, ["--inputs", file, "--output-dir", str(tmp_path / "out"), *options])


def test_lengths_in_pieces_count_the_end(tmp_path):
    text = write_lines(tmp_path / "text", ["ab cd ef gh ij kl mn"] * 20)
    train([text], tmp_path / "m.model", tmp_path / "dict.txt", TrainOptions(vocab_size=19))
    model = load_model(tmp_path / "m.model")
    full = "ab cd ef gh"
    rows = [{"dialogue": full, "summary": "ab"}, {"dialogue": "a", "summary": full}]
    file = write_lines(tmp_path / "rows.jsonl", [json.dumps(row) for row in rows])
    for more in (0, 1):
        limit = len(model.encode(full)) + more
        options = ["--model", str(tmp_path / "m.model"), "--output-dir", str(tmp_path / "out"), "--splits", "train"]
        summaries.main(["--inputs", file, *options, "--max-source", str(limit)])
        source = lines(tmp_path / "out/train.dialogue")[0]
        assert len(model.encode(source)) + 1 <= limit and (source == full) is bool(more)
        summaries.main(["--inputs", file, *options, "--max-target", str(limit)])
        assert (full in lines(tmp_path / "out/train.summary")) is bool(more)


# ---- Triples. ----


def test_triples_by_hand(tmp_path):
    rows = [
        'Aarhus_Airport | runwayLength | "2702.0" <SEP> Aarhus | ICAOLocationIdentifier | EKAH',
        "A (b) | elevationAboveTheSeaLevel (in metres) | 25.0",
        'Aarhus_Airport | runwayLength | "2702.0" <SEP> Aarhus | ICAOLocationIdentifier | EKAH',
    ]
    one, two = write_lines(tmp_path / "t", rows), write_lines(tmp_path / "x", ["First text.", "Second.", "Third."])
    files = ["--triples", one, one, "--texts", two, two, "--splits", "train", "valid"]
    triples.main([*files, "--grouped", "valid", "--output-dir", str(tmp_path / "out")])
    first = "Aarhus Airport | runway length | 2702.0 [S] Aarhus | ICAO location identifier | EKAH"
    second = "A (b) | elevation above the sea level (in metres) | 25.0"
    assert lines(tmp_path / "out/train.triples") == [first, second, first]
    assert lines(tmp_path / "out/train.text") == ["First text.", "Second.", "Third."]
    assert lines(tmp_path / "out/valid.triples") == [first, second]
    assert lines(tmp_path / "out/valid.text") == lines(tmp_path / "out/valid.text.ref1") == ["First text.", "Second."]
    assert lines(tmp_path / "out/valid.text.ref2") == ["Third.", ""]
    assert not (tmp_path / "out/train.text.ref1").exists()
    form = ["--predicates", "plain", "--triple-separator", ";", "--field-separator", ":"]
    triples.main([*files, *form, "--output-dir", str(tmp_path / "out2")])
    assert lines(tmp_path / "out2/train.triples")[0] == (
        "Aarhus Airport : runwayLength : 2702.0 ; Aarhus : ICAOLocationIdentifier : EKAH"
    )


def test_grouped_references_leave_empty_texts_out(tmp_path):
    """The first one counts in training and scores: it must not be empty. The longest list of references may come last."""
    rows = ["a | b | c", "a | b | c", "d | e | f", "g | h | i", "g | h | i", "g | h | i"]
    one = write_lines(tmp_path / "t", rows)
    two = write_lines(tmp_path / "x", [" ", "said", "once", "one", "", "two"])
    files = ["--triples", one, "--texts", two, "--splits", "dev", "--grouped", "dev"]
    triples.main([*files, "--output-dir", str(tmp_path / "out")])
    assert lines(tmp_path / "out/dev.triples") == ["a | b | c", "d | e | f", "g | h | i"]
    assert lines(tmp_path / "out/dev.text") == lines(tmp_path / "out/dev.text.ref1") == ["said", "once", "one"]
    assert lines(tmp_path / "out/dev.text.ref2") == ["", "", "two"]
    assert not (tmp_path / "out/dev.text.ref3").exists()


@pytest.mark.parametrize("row", ["a | b", "a | b | c | d", "a | b | c <SEP> d | e", "a |  | c"])
def test_bad_triples_are_named(tmp_path, row):
    one, two = write_lines(tmp_path / "t", ["a | b | c", row]), write_lines(tmp_path / "x", ["x", "y"])
    with pytest.raises(InputError, match=r"/t, line 2: .* has \d fields; valid: .subject \| predicate \| object"):
        triples.main(["--triples", one, "--texts", two, "--splits", "dev", "--output-dir", str(tmp_path / "out")])


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--splits", "train", "--grouped", "train"], "--grouped train"),
        (["--splits", "dev", "--grouped", "test"], "--grouped test"),
        (["--splits", "dev", "test"], "--splits dev test"),
    ],
)
def test_wrong_options_of_triples_are_named(tmp_path, options, word):
    one = write_lines(tmp_path / "t", ["a | b | c"])
    with pytest.raises(InputError, match=word):
        triples.main(["--triples", one, "--texts", one, "--output-dir", str(tmp_path / "out"), *options])
