"""Test the windows of question answering, the places of answers, and files that do not fit."""

import numpy as np
import pytest
from fairseq.data import data_utils

from fairseq_plugins.understanding.inputs import InputFormat, InputOptions
from fairseq_plugins.understanding.questions import (
    Answer,
    QuestionDataset,
    QuestionEntry,
    QuestionSet,
    place_answers,
    read_passages,
    read_questions,
)
from tests import nlu_bins
from tests.reference.question_loops import windows

NAME, LANGUAGE = "valid.en", 40
MAX_QUESTION, MAX_POSITIONS = 4, 18


def load(folder, kind="xlmr", stride=3, max_positions=MAX_POSITIONS):
    """The dataset of a subset on disk."""
    question_texts, passage_texts, offsets = (
        data_utils.load_indexed_dataset(str(folder / part / NAME))
        for part in ("input0", "input1", "offsets")
    )
    passages = read_passages(str(folder / "passages" / f"{NAME}.jsonl"))
    entries = read_questions(str(folder / "qa" / f"{NAME}.jsonl"), len(passages))
    gold, _ = place_answers(entries, passages, offsets)
    input_format = InputFormat(kind, nlu_bins.BOS, nlu_bins.EOS)
    language = LANGUAGE if input_format.needs_language else None
    return QuestionDataset(
        [question_texts, passage_texts],
        InputOptions(input_format, max_positions, nlu_bins.PAD, 1, language),
        QuestionSet(entries, passages, offsets, gold, "en"),
        MAX_QUESTION,
        stride,
    )


def words_of(tokens):
    return nlu_bins.dictionary().string(tokens).split()


@pytest.mark.cases(
    "kind stride added", ("xlmr", 1, 4), ("bert", 3, 3), ("mbart", 3, 3), ("mbart50", 500, 3)
)
def test_windows_equal_the_slow_loop_and_cover_the_passage(tmp_path, kind, stride, added):
    """A target is the answer, or twice the first token if the window does not hold all of it."""
    nlu_bins.write_questions(tmp_path, NAME, *nlu_bins.random_questions(12, 1))
    dataset, with_windows, unanswered, uncovered = load(tmp_path, kind, stride), 0, 0, 0
    texts = [dataset.texts[0][index][:-1].tolist() for index in range(12)]
    for index, text in enumerate(texts):
        rows, entry = dataset[index]["rows"], dataset.questions.entries[index]
        words = dataset.questions.passages[entry.passage].split()
        question, (first, last) = text[:MAX_QUESTION], dataset.questions.gold[index]
        spans, answers = [], 0
        for row in rows:
            tokens, (begin, length, start) = row["tokens"], row["window"]
            window = tokens[begin : begin + length]
            spans.append((start, start + length))
            assert words_of(window) == words[start : start + length]
            assert len(tokens) == added + len(question) + length <= MAX_POSITIONS
            if kind == "mbart":
                expected = [*question, nlu_bins.EOS, *window, nlu_bins.EOS, LANGUAGE]
                assert tokens.tolist() == expected
            begin_answer, end_answer = row["target"]
            if start <= first and last < start + length:
                answers += 1
                assert begin <= begin_answer <= end_answer < begin + length
                assert (
                    words_of(tokens[begin_answer : end_answer + 1]) == entry.answers[0].text.split()
                )
            else:
                assert begin_answer == end_answer == 0
        assert spans == windows(len(words), MAX_POSITIONS - added - len(question), stride)
        covered = set().union(*(range(*span) for span in spans))
        assert covered == set(range(len(words)))
        assert dataset.sizes[index] == len(rows) * max(len(row["tokens"]) for row in rows)
        with_windows += len(rows) > 1
        unanswered += len(rows) - answers
        uncovered += answers == 0
    assert with_windows > 3 and unanswered > 5 and dataset.uncovered == uncovered
    lengths = [len(row["tokens"]) for index in range(12) for row in dataset[index]["rows"]]
    assert dataset.longest == max(lengths)
    assert dataset.cut_questions == sum(len(text) > MAX_QUESTION for text in texts) > 0


@pytest.mark.cases(
    "part rows message",
    (None, None, "--max-positions 8 .* --max-question 4 .*at least 9"),
    ("input0", [[4, 5]] * 3, "qa has 4 rows, input0 has 3 rows"),
    ("input1", [[4, 5]] * 3, "passages has 2 rows, input1 has 3 rows"),
    ("input1", [[4, 5]] * 2, r"row 1 of offsets has \d+ numbers for 2 pieces of input1"),
)
def test_files_that_do_not_fit_are_refused(tmp_path, part, rows, message):
    nlu_bins.write_questions(tmp_path, NAME, *nlu_bins.random_questions(4, 1))
    if part:
        nlu_bins.write_question_rows(tmp_path / part / NAME, rows)
    with pytest.raises(ValueError, match=message):
        load(tmp_path, max_positions=MAX_POSITIONS if part else 8)


def test_an_empty_passage_has_one_window_and_an_empty_answer(tmp_path):
    question = nlu_bins.Question("q", "w3", 1, [("w2", 0)])
    nlu_bins.write_questions(tmp_path, NAME, ["w1", "w2"], [question])
    nlu_bins.write_question_rows(tmp_path / "input1" / NAME, [nlu_bins.pieces("w1"), []])
    nlu_bins.write_question_rows(tmp_path / "offsets" / NAME, [[0, 2], []], eos=False)
    item = load(tmp_path)[0]
    assert [(row["window"], row["target"]) for row in item["rows"]] == [((4, 0, 0), [0, 0])]
    assert item["question"].text(-4, -4) == ""


#          0123456789012345678901234
PASSAGE = "The cat sat. It slept on."
#         The   cat   s    at    .      It      (empty) slept   on      .
OFFSETS = [0, 3, 3, 7, 7, 9, 9, 11, 11, 12, 12, 15, 15, 15, 15, 21, 21, 24, 24, 25]  # fmt: skip


@pytest.mark.cases(
    "text start span",
    ("The", 0, (0, 0)),
    (" cat", 3, (1, 1)),
    ("cat ", 4, (1, 1)),  # the space after it belongs to the next piece
    ("a", 9, (3, 3)),  # part of a piece: the whole piece
    ("It slept", 13, (5, 7)),  # a piece without characters in between
    (PASSAGE, 0, (0, 9)),
    ("cat", 5, None),
    ("on.!", 22, None),
    ("", 4, None),
    ("The", -25, None),
    (" The", -1, None),  # -1: the data do not tell the place
)
def test_places_of_answers_by_hand(text, start, span):
    entry = QuestionEntry("a", 0, (Answer(text, start),))
    gold, unplaced = place_answers([entry], [PASSAGE], [np.array(OFFSETS)])
    assert gold.tolist() == [list(span or (-1, -1))]
    assert unplaced == ([] if span else ["a"])


def test_only_the_first_answer_is_placed():
    entries = [
        QuestionEntry("x", 0, (Answer("sat", 8), Answer("The", 0))),
        QuestionEntry("y", 1, (Answer("sat", 9), Answer("sat", 0))),
        QuestionEntry("z", 1, (Answer("sat", 0),)),
        QuestionEntry("without", 1, ()),
        QuestionEntry("dropped", 2, (Answer("b", 1),)),  # the piece model dropped the characters
    ]
    offsets = [np.array(OFFSETS), np.array([0, 3]), np.array([0, 1, 2, 3])]
    gold, unplaced = place_answers(entries, [PASSAGE, "sat", "abc"], offsets)
    assert gold.tolist() == [[2, 3], [-1, -1], [0, 0], [-1, -1], [-1, -1]]
    assert unplaced == ["y", "dropped"]


def test_bad_lines_are_refused_by_number(tmp_path):
    good = '{"id": "good", "passage": 1, "answers": [{"text": "a", "start": 0}]}'
    for line, message in (
        ("{", "qa:2: no JSON"),
        ("[]", "qa:2: TypeError"),
        ('{"id": "q", "passage": 0}', "qa:2: KeyError.*answers"),
        (good.replace("0}", '"x"}'), "qa:2: ValueError"),
        ('{"id": "q", "passage": 2, "answers": []}', "question q has passage 2; valid: 0 to 1"),
    ):
        file = nlu_bins.write(tmp_path / "qa", good, line)
        with pytest.raises(ValueError, match=message):
            read_questions(str(file), passages=2)
    with pytest.raises(ValueError, match="passages:2: found dict"):
        read_passages(str(nlu_bins.write(tmp_path / "passages", '"a"', "{}")))
    with pytest.raises(ValueError, match="no file .*missing"):
        read_passages(str(tmp_path / "missing"))
