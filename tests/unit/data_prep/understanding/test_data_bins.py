"""Test data-bins of understanding tasks as stock fairseq reads them."""

import numpy as np
import pytest
from fairseq.data import Dictionary
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from data_prep.pieces import manifest
from data_prep.pieces.segmenters import SentencePiece
from tests.nlu_bins import squad, train_model, write
from tests.unit.data_prep.files import assert_refused, read_tree

PASSAGE = "Der Hund, ﬁnal 12 ½\u2028saw the cat and\nnaïve e\u0301tude."


def write_pairs(folder):
    """Write premise, hypothesis and class in two languages; return the sources."""
    rows = ["the cat\ta dog\tyes", "a\tb\tno", "saw\ta cat\tyes", " \ta\tno"]
    train = write(folder / "train.tsv", *rows)
    test = write(folder / "test.tsv", "der Hund\tdie Katze\tno", "\tb\tyes", "a\tb\tmaybe")
    return [f"test.de={test}", f"train.en={train}", f"valid.en={train}"]


def test_stock_sentence_prediction_reads_pairs(run, tmp_path, capsys):
    counts = run("sentences", *write_pairs(tmp_path))
    assert "warning: test.de: 1 labels that train has not" in capsys.readouterr().err
    train, valid, test = (counts[name] for name in ("train.en", "valid.en", "test.de"))
    assert (train["read"], train["kept"], train["dropped"]) == (4, 3, {"empty text": 1})
    assert (valid["kept"], valid["notes"]) == (4, {"empty text": 1})
    assert test["unknown_labels"] == {"maybe": 1}
    labels = [["no", "</s>"], ["yes", "</s>"], ["<unk>", "</s>"]]
    assert run.rows("label", "test.de") == labels
    assert run.rows("input0", "test.de")[1] == ["</s>"]
    config = SentencePredictionConfig(data=str(run.out), num_classes=2, no_shuffle=True, seed=1)
    config.init_token, config.separator_token, config.max_positions = 0, 2, 512
    config.regression_target = False
    task = SentencePredictionTask.setup_task(config)
    for name, classes in (("train.en", [1, 0, 1]), ("valid.en", [1, 0, 1, 0])):
        dataset = task.load_dataset(name)
        batch = dataset.collater([dataset[index] for index in range(len(dataset))])
        assert batch["target"].view(-1).tolist() == classes
        tokens = batch["net_input"]["src_tokens"][0]
        text = task.source_dictionary.string(tokens, extra_symbols_to_ignore={1})
        assert text.replace(" ", "").replace("\u2581", " ") == " the cat a dog"


def test_symbols_of_fairseq_in_the_text_are_unknown_pieces(run, tmp_path):
    symbols = ["<mask>", "<pad>"]
    model = train_model(tmp_path / "m.model", user_defined_symbols=symbols)
    run.options[1] = str(model)
    text = write(tmp_path / "a.tsv", "the<mask>cat<pad>a\tx")
    run("sentences", f"train.en={text}", "--text", "1")
    (row,) = run.rows("input0", "train.en")
    assert row.count("<unk>") == 2
    assert not {*symbols} & set(row)


def test_labels_of_another_data_bin_and_files_without_labels(run, tmp_path):
    run("sentences", *write_pairs(tmp_path))
    labels = (run.out / "label/dict.txt").rename(tmp_path / "labels.txt")
    labelled = write(tmp_path / "more.tsv", "a\tb\tyes", "a\tb\tother")
    bare = write(tmp_path / "bare.tsv", "a\tb", "c\td")
    sources = [f"test.fr={labelled}", f"test.es={bare}"]
    counts = run("sentences", *sources, "--labels", labels)
    assert run.numbers("label", "test.fr") == [[5, 2], [3, 2]]
    assert counts["test.es"]["notes"] == {"rows without labels": 2}
    assert not (run.out / "label/test.es.idx").exists()
    assert_refused("no label in train", run, "sentences", sources[0])


def test_ranking_groups_the_rows_of_a_query(run, tmp_path):
    rows = ["cat\tthe cat\tshort\t3", "dog\ta\tb\t0", "cat\tsaw\ta\t1", "dog\t\t\t1"]
    train = write(tmp_path / "train.tsv", *rows)
    rows = ["Katze\tdie\tx\t2", "Katze\tx\ty\t9", "Hund\tder Hund\tx\t0"]
    test = write(tmp_path / "test.tsv", *rows)
    columns = ["--text", "1,2+3", "--query", "1"]
    counts = run("ranking", f"train.en={train}", f"test.de={test}", *columns)
    assert (run.out / "group/train.en.txt").read_text() == "cat\ncat\ndog\n"
    assert (run.out / "group/test.de.txt").read_text() == "Katze\nKatze\nHund\n", "unsorted"
    assert (run.out / "label/dict.txt").read_text() == "0 1\n1 2\n2 0\n3 1\n"
    assert run.numbers("label", "train.en") == [[7, 2], [5, 2], [4, 2]]
    assert run.numbers("label", "test.de") == [[6, 2], [3, 2], [4, 2]]
    assert "".join(run.rows("input1", "train.en")[1]) == "\u2581saw\u2581a</s>"
    notes = {"queries": 2, "rows moved to their query": 2}
    assert counts["train.en"]["notes"] == notes
    assert counts["train.en"]["dropped"] == {"empty text": 1}
    assert counts["test.de"]["unknown_labels"] == {"9": 1}


@pytest.mark.parametrize("grade", ["Good", "-1", "1.5", "٣"])
def test_grades_are_whole_numbers(run, tmp_path, grade):
    bad = write(tmp_path / "bad.tsv", "a\tb\t0", f"a\tb\t{grade}")
    words = [f"bad.tsv, line 2: the grade {grade!r}"]
    assert_refused(words, run, "ranking", f"train.en={bad}")
    run("ranking", f"train.en={bad}", f"--label-map={grade}=2")
    assert run.numbers("label", "train.en") == [[4, 2], [6, 2]]


def test_tags_stand_at_the_first_piece_of_each_word(run, nlu_model, tmp_path):
    words, tags = ["the", "naïve", "\u200b", "New York", "cafés"], ["O", "B-X", "I-X", "O", "B-Y"]
    lines = [f"{word}\t{tag}" for word, tag in zip(words, tags)]
    train = write(tmp_path / "train.tsv", *lines)
    test = write(tmp_path / "test.tsv", "Hund\tB-Z", "x\tB-Z", "a\tO", "", "Katze\tO")
    counts = run("tags", f"train.en={train}", f"test.de={test}")
    dictionary = Dictionary.load(str(nlu_model[1]))
    pieces_of_words = list(SentencePiece(nlu_model[0]).encode(words))
    assert pieces_of_words[2] == []
    expected_pieces, expected_tags = [], []
    for pieces, tag in zip(pieces_of_words, tags):
        pieces = [piece if piece in dictionary else "<unk>" for piece in pieces] or ["<unk>"]
        expected_pieces += pieces
        expected_tags += [tag] + ["<pad>"] * (len(pieces) - 1)
    assert run.rows("input0", "train.en") == [[*expected_pieces, "</s>"]]
    assert run.rows("label", "train.en") == [[*expected_tags, "</s>"]]
    assert counts["train.en"]["notes"] == {"words without a piece": 1}
    assert (run.out / "label/dict.txt").read_text() == "B-X 1\nB-Y 1\nI-X 1\nO 2\n"
    assert [row[0] for row in run.rows("label", "test.de")] == ["<unk>", "O"]
    assert counts["test.de"]["unknown_labels"] == {"B-Z": 2}


def start(text):
    return PASSAGE.index(text)


def test_questions_share_passages_and_answers_are_found_by_offsets(run, tmp_path):
    answers = ["ﬁnal 12", "½", "the cat", "e\u0301tude", "Der Hund"]
    questions = [(str(n), f"what {n}?", [(text, start(text))]) for n, text in enumerate(answers)]
    dog = ("a dog", [("x", "who?", [("a dog", 0), ("dog", 2)])])
    again = (PASSAGE, [("y", "again and again?", [("the", start("the"))])])
    path = squad(tmp_path / "a.json", (PASSAGE, questions), dog, again)
    counts = run("questions", f"train.en={path}")["train.en"]
    rows, passages = run.lines("qa/train.en.jsonl"), run.lines("passages/train.en.jsonl")
    assert passages == [PASSAGE, "a dog"]
    assert [row["passage"] for row in rows] == [0, 0, 0, 0, 0, 1, 0]
    expected = [{"text": "a dog", "start": 0}, {"text": "dog", "start": 2}]
    assert rows[5] == {"id": "x", "passage": 1, "answers": expected}
    questions, pieces = (run.rows(folder, "train.en") for folder in ("input0", "input1"))
    numbers = run.numbers("offsets", "train.en")
    offsets = [np.array(row).reshape(-1, 2) for row in numbers]
    assert [len(spans) for spans in offsets] == [len(row) - 1 for row in pieces]
    for row in rows:
        passage, spans = passages[row["passage"]], offsets[row["passage"]]
        for answer in row["answers"]:
            end = answer["start"] + len(answer["text"])
            overlap = [span for span in spans if span[1] > answer["start"] and span[0] < end]
            assert passage[overlap[0][0] : overlap[-1][1]].strip(",.?") == answer["text"]
    assert len(questions) == 7 and questions[-1][-1] == "</s>"
    lengths = [len(text) + len(pieces[row["passage"]]) for text, row in zip(questions, rows)]
    words = 7 * 2 + len(PASSAGE.split()) + 2
    expected = {"notes": {"passages": 2}, "words": words, "longest": max(lengths)}
    assert expected.items() <= counts.items()


def test_answers_that_are_not_at_their_offset(run, tmp_path):
    cat = ("cat", start("cat"))
    answers = {
        "right": [cat],
        "off by one": [("cat", start("cat") + 1)],
        "nowhere": [("bird", 3)],
        "one of two": [("bird", 3), cat],
        "negative": [("tude.", start("tude.") - len(PASSAGE))],
        "no offset": [("cat", None)],
        "empty answer": [("", 0)],
        "no answer": [],
        "no question": [cat],
    }
    questions = [
        (name, " " if name == "no question" else "q?", rows) for name, rows in answers.items()
    ]
    path = squad(tmp_path / "a.json", (PASSAGE, questions))
    counts = run("questions", f"train.en={path}", f"test.de={path}")
    train, test = (
        {row["id"]: row["answers"] for row in run.lines(f"qa/{name}.jsonl")}
        for name in ("train.en", "test.de")
    )
    right = {"text": "cat", "start": start("cat")}
    assert train == {"right": [right], "one of two": [right]}
    reasons = {"answer not at its offset": 4, "no answer": 2, "empty text": 1}
    assert counts["train.en"]["dropped"] == reasons
    assert list(test) == list(answers)
    assert test["off by one"] == [{"text": "cat", "start": -1}]
    assert test["one of two"] == [{"text": "bird", "start": -1}, right]
    assert test["empty answer"] == test["no answer"] == []
    assert counts["test.de"]["notes"] == {
        "answers not at their offset": 5,
        "answers nowhere in their passage": 2,
        "no answer": 2,
        "empty text": 1,
        "passages": 1,
    }
    assert counts["test.de"]["dropped"] == {} and counts["test.de"]["kept"] == 9


def test_impossible_questions_are_dropped_and_repeated_ids_numbered(run, tmp_path):
    impossible = ("the cat", [("1", "q?", [])])
    path = squad(tmp_path / "v2.json", impossible, is_impossible=True)
    # XTREME's scripts repeat ids in TyDiQA's files.
    questions = [(name, "q?", [("a", 0)]) for name in ("1", "2", "1", "1", "1#2")]
    last = ("the cat", [("3", "q?", [("cat", 4)])])
    good = squad(tmp_path / "good.json", ("a b", questions), last)
    message = "no row is left of 1 (dropped: impossible questions"
    assert_refused(message, run, "questions", f"train.en={good}", f"test.en={path}")
    assert not run.out.exists()
    run("questions", f"train.en={good}", "--limit", "5")
    assert run.lines("passages/train.en.jsonl") == ["a b"]
    names = [line["id"] for line in run.lines("qa/train.en.jsonl")]
    assert names == ["1", "2", "1#2", "1#3", "1#2#2"]


def test_a_second_run_gives_the_same_bytes_and_replaces_the_first(run, tmp_path):
    sources = write_pairs(tmp_path)
    bad_rows = write(tmp_path / "bad.tsv", "a\tb\tyes", "a")
    bad = [*sources, f"test.fr={bad_rows}"]
    assert_refused("bad.tsv, line 2: 1 columns", run, "sentences", *bad)
    assert not run.out.exists()
    run("sentences", *sources)
    first = read_tree(run.out)
    assert_refused("bad.tsv, line 2", run, "sentences", *bad)
    assert read_tree(run.out) == first
    run("sentences", *sources)
    assert read_tree(run.out) == first
    assert {"manifest.json", "README.md", "sentencepiece.bpe.model", "dict.txt"} <= set(first)
    manifest.main(["--check", str(run.out)])
    run("sentences", *sources[1:])
    assert not [name for name in read_tree(run.out) if "test.de" in name]
    names = {"out", "train.tsv", "test.tsv", "bad.tsv"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_folders_with_files_of_the_user_are_refused(run, tmp_path):
    sources = write_pairs(tmp_path)
    run.out.mkdir()
    run("sentences", *sources)
    inside = write(run.out / "more.tsv", "a\tb\tyes")
    words = ["holds the input ", "more.tsv"]
    assert_refused(words, run, "sentences", *sources, f"test.fr={inside}")
    assert_refused("as more.tsv", run, "sentences", *sources)
    assert inside.exists()


def test_bad_options_and_questions_are_refused(run, tmp_path):
    sources = write_pairs(tmp_path)
    for options, message in (
        (["--codes", "x"], "--sentencepiece and --codes"),
        (["--layout", "xglue-ner"], "--layout xglue-ner (it is for tags): valid with sentences"),
        (["--text", "2", "--label", "1"], "train.tsv, line 1: the label 'the cat'"),
    ):
        assert_refused(message, run, "sentences", *sources, *options)
    for questions, words in (
        ([("1", "q?", []), ("2", "r?", [("", 0)])], ["none of its 2 questions"]),
        ([(None, "q?", [("a", 0)])], ["qas[0]", "no id"]),
        ([("1", "\ud800?", [("a", 0)])], ["qas[0]", "U+D800"]),
        ([("1", "q?", [("a", "0")])], ["qas[0].answers[0]", "answer_start is '0'"]),
    ):
        path = squad(tmp_path / "a.json", ("a b", questions))
        words = ["input valid.en:", str(path), *words]
        assert_refused(words, run, "questions", f"valid.en={path}")
    assert not run.out.exists()
