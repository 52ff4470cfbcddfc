"""Whole data-bins of understanding tasks, read back with stock fairseq: rows, labels, tags, grades, answers, tables, errors."""

import numpy as np
import pytest
from fairseq.data import Dictionary
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from data_prep.pieces import manifest
from data_prep.pieces.segmenters import SentencePiece
from tests.nlu_bins import squad, train_model, write
from tests.unit.data_prep.files import refused, tree

PASSAGE = "Der Hund, ﬁnal 12 ½\u2028saw the cat and\nnaïve e\u0301tude."


def pairs(folder):
    """Premise, hypothesis and class in two languages; returns the arguments."""
    train = write(folder / "train.tsv", "the cat\ta dog\tyes", "a\tb\tno", "saw\ta cat\tyes", " \ta\tno")
    test = write(folder / "test.tsv", "der Hund\tdie Katze\tno", "\tb\tyes", "a\tb\tmaybe")
    return [f"test.de={test}", f"train.en={train}", f"valid.en={train}"]


def test_pairs_are_what_stock_sentence_prediction_reads(run, tmp_path, capsys):
    counts = run("sentences", *pairs(tmp_path))
    assert "warning: test.de: 1 labels that train has not, kept as <unk>: maybe 1" in capsys.readouterr().err
    train, valid, test = (counts[name] for name in ("train.en", "valid.en", "test.de"))
    assert (train["read"], train["kept"], train["dropped"]) == (4, 3, {"empty text": 1})
    assert (valid["kept"], valid["notes"], test["unknown_labels"]) == (4, {"empty text": 1}, {"maybe": 1})
    assert run.rows("label", "test.de") == [["no", "</s>"], ["yes", "</s>"], ["<unk>", "</s>"]]
    assert run.rows("input0", "test.de")[1] == ["</s>"]
    ids = {"init_token": 0, "separator_token": 2, "max_positions": 512, "seed": 1}
    config = SentencePredictionConfig(data=str(run.out), num_classes=2, regression_target=False, no_shuffle=True, **ids)
    task = SentencePredictionTask.setup_task(config)
    for name, classes in (("train.en", [1, 0, 1]), ("valid.en", [1, 0, 1, 0])):
        dataset = task.load_dataset(name)
        batch = dataset.collater([dataset[index] for index in range(len(dataset))])
        assert batch["target"].view(-1).tolist() == classes
        first = task.source_dictionary.string(batch["net_input"]["src_tokens"][0], extra_symbols_to_ignore={1})
        assert first.replace(" ", "").replace("\u2581", " ") == " the cat a dog"


def test_symbols_of_fairseq_in_the_text_are_unknown_pieces(run, tmp_path):
    run.options[1] = str(train_model(tmp_path / "m.model", user_defined_symbols=["<mask>", "<pad>"]))
    run("sentences", f"train.en={write(tmp_path / 'a.tsv', 'the<mask>cat<pad>a' + chr(9) + 'x')}", "--text", "1")
    (row,) = run.rows("input0", "train.en")
    assert row.count("<unk>") == 2
    assert not {"<mask>", "<pad>"} & set(row)


def test_labels_of_another_data_bin_and_files_without_any(run, tmp_path):
    run("sentences", *pairs(tmp_path))
    labels = (run.out / "label/dict.txt").rename(tmp_path / "labels.txt")
    more = write(tmp_path / "more.tsv", "a\tb\tyes", "a\tb\tother")
    bare = write(tmp_path / "bare.tsv", "a\tb", "c\td")
    counts = run("sentences", f"test.fr={more}", f"test.es={bare}", "--labels", labels)
    assert run.numbers("label", "test.fr") == [[5, 2], [3, 2]]
    assert counts["test.es"]["notes"] == {"rows without labels": 2}
    assert not (run.out / "label/test.es.idx").exists()
    refused("no label in train; valid: ", run, "sentences", f"test.fr={more}")


def test_ranking_brings_the_rows_of_a_query_together(run, tmp_path):
    train = write(tmp_path / "train.tsv", "cat\tthe cat\tshort\t3", "dog\ta\tb\t0", "cat\tsaw\ta\t1", "dog\t\t\t1")
    test = write(tmp_path / "test.tsv", "Katze\tdie\tx\t2", "Katze\tx\ty\t9", "Hund\tder Hund\tx\t0")
    counts = run("ranking", f"train.en={train}", f"test.de={test}", "--text", "1,2+3", "--query", "1")
    assert (run.out / "group/train.en.txt").read_text() == "cat\ncat\ndog\n"
    assert (run.out / "group/test.de.txt").read_text() == "Katze\nKatze\nHund\n", "in the order of the file"
    assert (run.out / "label/dict.txt").read_text() == "0 1\n1 2\n2 0\n3 1\n"
    assert run.numbers("label", "train.en") == [[7, 2], [5, 2], [4, 2]]
    assert run.numbers("label", "test.de") == [[6, 2], [3, 2], [4, 2]]
    assert "".join(run.rows("input1", "train.en")[1]) == "\u2581saw\u2581a</s>"
    assert counts["train.en"]["notes"] == {"queries": 2, "rows moved to their query": 2}
    assert counts["train.en"]["dropped"] == {"empty text": 1}
    assert counts["test.de"]["unknown_labels"] == {"9": 1}


@pytest.mark.parametrize("grade", ["Good", "-1", "1.5", "٣"])
def test_grades_are_whole_numbers(run, tmp_path, grade):
    bad = write(tmp_path / "bad.tsv", "a\tb\t0", f"a\tb\t{grade}")
    refused(f"bad.tsv, line 2: the grade {grade!r}; valid: 0, 1, 2", run, "ranking", f"train.en={bad}")
    run("ranking", f"train.en={bad}", f"--label-map={grade}=2")
    assert run.numbers("label", "train.en") == [[4, 2], [6, 2]]


def test_tags_stand_at_the_first_piece_of_each_word(run, nlu_model, tmp_path):
    rows = [("the", "O"), ("naïve", "B-X"), ("\u200b", "I-X"), ("New York", "O"), ("cafés", "B-Y")]
    train = write(tmp_path / "train.tsv", *(f"{word}\t{tag}" for word, tag in rows))
    test = write(tmp_path / "test.tsv", "Hund\tB-Z", "x\tB-Z", "a\tO", "", "Katze\tO")
    counts = run("tags", f"train.en={train}", f"test.de={test}")
    encode = list(SentencePiece(nlu_model[0]).encode([word for word, _ in rows]))
    assert encode[2] == []
    dictionary = Dictionary.load(str(nlu_model[1]))
    expected_pieces, expected_tags = [], []
    for pieces, (_, tag) in zip(encode, rows):
        known = [piece if piece in dictionary else "<unk>" for piece in pieces] or ["<unk>"]
        expected_pieces += known
        expected_tags += [tag] + ["<pad>"] * (len(known) - 1)
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
    first = (PASSAGE, [(str(n), f"what {n}?", [(text, start(text))]) for n, text in enumerate(answers)])
    other = ("a dog", [("x", "who?", [("a dog", 0), ("dog", 2)])])
    path = squad(tmp_path / "a.json", first, other, (PASSAGE, [("y", "again and again?", [("the", start("the"))])]))
    counts = run("questions", f"train.en={path}")["train.en"]
    rows, passages = run.lines("qa/train.en.jsonl"), run.lines("passages/train.en.jsonl")
    assert passages == [PASSAGE, "a dog"] and [row["passage"] for row in rows] == [0, 0, 0, 0, 0, 1, 0]
    assert rows[5] == {"id": "x", "passage": 1, "answers": [{"text": "a dog", "start": 0}, {"text": "dog", "start": 2}]}
    questions, pieces = (run.rows(folder, "train.en") for folder in ("input0", "input1"))
    offsets = [np.array(places).reshape(-1, 2) for places in run.numbers("offsets", "train.en")]
    assert [len(spans) for spans in offsets] == [len(row) - 1 for row in pieces]
    for row in rows:
        for answer in row["answers"]:
            end = answer["start"] + len(answer["text"])
            touched = [span for span in offsets[row["passage"]] if span[1] > answer["start"] and span[0] < end]
            assert passages[row["passage"]][touched[0][0] : touched[-1][1]].strip(",.?") == answer["text"]
    assert len(questions) == 7 and questions[-1][-1] == "</s>"
    longest = max(len(question) + len(pieces[row["passage"]]) for question, row in zip(questions, rows))
    expected = {"notes": {"passages": 2}, "words": 7 * 2 + len(PASSAGE.split()) + 2, "longest": longest}
    assert expected.items() <= counts.items()


def test_answers_that_do_not_stand_where_they_should(run, tmp_path):
    cat = {"text": "cat", "start": start("cat")}
    answers = {
        "right": [("cat", start("cat"))],
        "off by one": [("cat", start("cat") + 1)],
        "nowhere": [("bird", 3)],
        "one of two": [("bird", 3), ("cat", start("cat"))],
        "negative": [("tude.", start("tude.") - len(PASSAGE))],
        "untold": [("cat", None)],
        "blind": [("", 0)],
        "none": [],
        "no question": [("cat", start("cat"))],
    }
    questions = [(name, " " if name == "no question" else "q?", found) for name, found in answers.items()]
    path = squad(tmp_path / "a.json", (PASSAGE, questions))
    counts = run("questions", f"train.en={path}", f"test.de={path}")
    kept = {row["id"]: row["answers"] for row in run.lines("qa/train.en.jsonl")}
    assert kept == {"right": [cat], "one of two": [cat]}
    assert counts["train.en"]["dropped"] == {"answer not at its offset": 4, "no answer": 2, "empty text": 1}
    tested = {row["id"]: row["answers"] for row in run.lines("qa/test.de.jsonl")}
    assert list(tested) == list(answers)
    assert tested["off by one"] == [{"text": "cat", "start": -1}]
    assert tested["one of two"] == [{"text": "bird", "start": -1}, cat]
    assert tested["blind"] == tested["none"] == []
    notes = {"answers not at their offset": 5, "answers nowhere in their passage": 2, "no answer": 2, "empty text": 1}
    assert counts["test.de"]["notes"] == {**notes, "passages": 1}
    assert counts["test.de"]["dropped"] == {} and counts["test.de"]["kept"] == 9


def test_impossible_questions_are_dropped_and_ids_that_came_before_are_numbered(run, tmp_path):
    path = squad(tmp_path / "v2.json", ("the cat", [("1", "q?", [])]), is_impossible=True)
    asked = [
        (name, "q?", [("a", 0)]) for name in ("1", "2", "1", "1", "1#2")
    ]  # as in TyDiQA's files after XTREME's scripts
    good = squad(tmp_path / "good.json", ("a b", asked), ("the cat", [("3", "q?", [("cat", 4)])]))
    words = "no row is left of 1 (dropped: impossible questions (SQuAD 2) 1)"
    refused(words, run, "questions", f"train.en={good}", f"test.en={path}")
    assert not run.out.exists()
    run("questions", f"train.en={good}", "--limit", "5")
    assert run.lines("passages/train.en.jsonl") == ["a b"]
    assert [line["id"] for line in run.lines("qa/train.en.jsonl")] == ["1", "2", "1#2", "1#3", "1#2#2"]


def test_a_second_run_gives_the_same_bytes_and_replaces_the_first(run, tmp_path):
    bad = [*pairs(tmp_path), f"test.fr={write(tmp_path / 'bad.tsv', 'a' + chr(9) + 'b' + chr(9) + 'yes', 'a')}"]
    refused("bad.tsv, line 2: 1 columns", run, "sentences", *bad)
    assert not run.out.exists()
    run("sentences", *pairs(tmp_path))
    first = tree(run.out)
    refused("bad.tsv, line 2", run, "sentences", *bad)
    assert tree(run.out) == first
    run("sentences", *pairs(tmp_path))
    assert tree(run.out) == first
    assert {"manifest.json", "README.md", "sentencepiece.bpe.model", "dict.txt"} <= set(first)
    manifest.main(["--check", str(run.out)])
    run("sentences", *pairs(tmp_path)[1:])
    assert not {name for name in tree(run.out) if "test.de" in name}
    assert {path.name for path in tmp_path.iterdir()} == {"out", "train.tsv", "test.tsv", "bad.tsv"}


def test_folders_that_are_not_a_runs_own(run, tmp_path):
    items = pairs(tmp_path)
    run.out.mkdir()
    run("sentences", *items)
    inside = write(run.out / "more.tsv", "a\tb\tyes")
    refused(["holds the input ", "more.tsv"], run, "sentences", *items, f"test.fr={inside}")
    refused("holds files that nlu did not make, as more.tsv", run, "sentences", *items)
    assert inside.exists()


def test_wrong_options_are_named(run, tmp_path):
    for arguments, message in (
        (["--codes", "x"], "--sentencepiece and --codes given; valid: one of"),
        (["--layout", "xglue-ner"], "--layout xglue-ner (it is for tags): valid with sentences: xglue-nc"),
        (["--text", "2", "--label", "1"], "train.tsv, line 1: the label 'the cat'; valid: one without white space"),
    ):
        refused(message, run, "sentences", *pairs(tmp_path), *arguments)
    for questions, words in (
        ([("1", "q?", []), ("2", "r?", [("", 0)])], ["none of its 2 questions has an answer"]),
        ([(None, "q?", [("a", 0)])], ["qas[0]", "no id"]),
        ([("1", "\ud800?", [("a", 0)])], ["qas[0]", "half a character, U+D800"]),
        ([("1", "q?", [("a", "0")])], ["qas[0].answers[0]", "answer_start is '0'"]),
    ):
        path = squad(tmp_path / "a.json", ("a b", questions))
        refused(["input valid.en:", str(path), *words], run, "questions", f"valid.en={path}")
    assert not run.out.exists()
