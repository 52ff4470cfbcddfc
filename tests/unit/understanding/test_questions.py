"""Windows: every piece in one, sizes known before, answers where they are, several languages in one batch."""

import numpy as np
import pytest
from fairseq.data import data_utils

from fairseq_plugins.understanding.inputs import INPUT_FORMATS, InputFormat, InputOptions
from fairseq_plugins.understanding.questions import (
    Answer,
    QuestionDataset,
    QuestionEntry,
    QuestionSet,
    place_answers,
    read_passages,
    read_questions,
)
from tests import nlu_bins as builders
from tests.reference.question_loops import windows

NAME, LANGUAGE = "valid.en", 40
LIMITS = dict(max_question=4, max_positions=18)
FORMATS = list(INPUT_FORMATS)


def load(folder, kind="xlmr", stride=3, max_positions=18):
    """The dataset of a subset on disk."""
    texts = [data_utils.load_indexed_dataset(str(folder / part / NAME)) for part in ("input0", "input1")]
    offsets = data_utils.load_indexed_dataset(str(folder / "offsets" / NAME))
    passages = read_passages(str(folder / "passages" / f"{NAME}.jsonl"))
    entries = read_questions(str(folder / "qa" / f"{NAME}.jsonl"), len(passages))
    gold, _ = place_answers(entries, passages, offsets)
    input_format = InputFormat(kind, builders.BOS, builders.EOS)
    language = LANGUAGE if input_format.needs_language else None
    return QuestionDataset(
        texts,
        InputOptions(input_format, max_positions, builders.PAD, 1, language),
        QuestionSet(entries, passages, offsets, gold, "en"),
        LIMITS["max_question"],
        stride,
    )


@pytest.fixture(scope="module")
def folder(path):
    builders.write_questions(path, NAME, *builders.random_questions(12, 1))
    return path


def _words(tokens):
    return builders.dictionary().string(tokens).split()


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("stride", [1, 3, 500])
def test_windows_are_the_loops_and_cover_the_passage(folder, kind, stride):
    """Questions of more than four pieces are cut; targets are the answer, or twice the first token where it is not whole."""
    dataset, counted = load(folder, kind=kind, stride=stride), {"several": 0, "without": 0, "beyond": 0}
    added = {"xlmr": 4, "bert": 3, "mbart": 3, "mbart50": 3}[kind]
    lengths = [len(dataset.texts[0][index]) - 1 for index in range(len(dataset))]
    for index, length in enumerate(lengths):
        item, entry = dataset[index], dataset.questions.entries[index]
        words, question = dataset.questions.passages[entry.passage].split(), dataset.texts[0][index][:-1][:4].tolist()
        asked, (first, last) = len(question), dataset.questions.gold[index]
        assert asked == min(length, LIMITS["max_question"])
        found, held = [], 0
        for row in item["rows"]:
            begin, length, start = row["window"]
            window = row["tokens"][begin : begin + length]
            assert _words(window) == words[start : start + length]
            assert len(row["tokens"]) == added + asked + length <= LIMITS["max_positions"]
            if kind == "mbart":
                assert row["tokens"].tolist() == [*question, builders.EOS, *window.tolist(), builders.EOS, LANGUAGE]
            found.append((start, start + length))
            whole = start <= first and last < start + length
            left, right = row["target"]
            assert not whole or begin <= left <= right < begin + length
            answer = _words(row["tokens"][left : right + 1])
            assert answer == entry.answers[0].text.split() if whole else left == right == 0
            held += whole
        assert found == windows(len(words), LIMITS["max_positions"] - added - asked, stride)
        assert set().union(*(range(*window) for window in found)) == set(range(len(words)))
        assert dataset.sizes[index] == len(found) * max(len(row["tokens"]) for row in item["rows"])
        counted["several"] += len(found) > 1
        counted["without"] += len(found) - held
        counted["beyond"] += held == 0
    assert counted["several"] > 3 and counted["without"] > 5 and dataset.uncovered == counted["beyond"]
    assert dataset.longest == max(len(row["tokens"]) for index in range(12) for row in dataset[index]["rows"])
    assert dataset.cut_questions == sum(length > 4 for length in lengths) > 0


@pytest.mark.cases(
    "part rows message",
    (None, None, "--max-positions 8 .* --max-question 4 pieces and 4 symbols; valid: at least 9"),
    ("input0", [[4, 5]] * 3, "qa has 4 rows, input0 has 3 rows; valid: equal numbers"),
    ("input1", [[4, 5]] * 3, "passages has 2 rows, input1 has 3 rows; valid: equal numbers"),
    ("input1", [[4, 5]] * 2, r"row 1 of offsets has \d+ numbers for 2 pieces of input1; valid: two per piece"),
)
def test_files_that_do_not_fit_are_refused(tmp_path, part, rows, message):
    builders.write_questions(tmp_path, NAME, *builders.random_questions(4, 1))
    if part:
        builders.write_question_rows(tmp_path / part / NAME, rows)
    with pytest.raises(ValueError, match=message):
        load(tmp_path, max_positions=18 if part else 8)


def test_an_empty_passage_has_one_window_and_an_empty_answer(tmp_path):
    builders.write_questions(tmp_path, NAME, ["w1", "w2"], [builders.Asked("q", "w3", 1, [("w2", 0)])])
    builders.write_question_rows(tmp_path / "input1" / NAME, [builders.pieces("w1"), []])
    builders.write_question_rows(tmp_path / "offsets" / NAME, [[0, 2], []], eos=False)
    item = load(tmp_path)[0]
    assert [(row["window"], row["target"]) for row in item["rows"]] == [((4, 0, 0), [0, 0])]
    assert item["question"].text(-4, -4) == ""


#          0123456789012345678901234
PASSAGE = "The cat sat. It slept on."
#         The   cat   s    at    .      It      (nothing) slept   on      .
OFFSETS = [0, 3, 3, 7, 7, 9, 9, 11, 11, 12, 12, 15, 15, 15, 15, 21, 21, 24, 24, 25]  # fmt: skip


@pytest.mark.cases(
    "text start span",
    ("The", 0, (0, 0)),
    ("cat", 4, (1, 1)),
    (" cat", 3, (1, 1)),
    ("cat ", 4, (1, 1)),  # the space after it belongs to the next piece
    ("a", 9, (3, 3)),  # part of a piece: the whole piece
    ("sat.", 8, (2, 4)),
    ("It slept", 13, (5, 7)),  # a piece without characters in between
    (PASSAGE, 0, (0, 9)),
    ("cat", 5, None),
    ("on.!", 22, None),
    ("", 4, None),
    ("The", -25, None),
    (" The", -1, None),  # no place told
)
def test_place(text, start, span):
    gold, lost = place_answers([QuestionEntry("a", 0, (Answer(text, start),))], [PASSAGE], [np.array(OFFSETS)])
    assert gold.tolist() == [list(span or (-1, -1))] and lost == ([] if span else ["a"])


def test_the_first_answer_is_placed_and_lost_ones_are_named():
    entries = [
        QuestionEntry("x", 0, (Answer("sat", 8), Answer("The", 0))),
        QuestionEntry("y", 1, (Answer("sat", 9), Answer("sat", 0))),
        QuestionEntry("z", 1, (Answer("sat", 0),)),
        QuestionEntry("without", 1, ()),
        QuestionEntry("dropped", 2, (Answer("b", 1),)),  # the piece model dropped the characters
    ]
    offsets = [np.array(OFFSETS), np.array([0, 3]), np.array([0, 1, 2, 3])]
    gold, lost = place_answers(entries, [PASSAGE, "sat", "abc"], offsets)
    assert gold.tolist() == [[2, 3], [-1, -1], [0, 0], [-1, -1], [-1, -1]]
    assert lost == ["y", "dropped"]


def _write(path, lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_bad_files_are_refused_by_line(tmp_path):
    good = '{"id": "good", "passage": 1, "answers": [{"text": "a", "start": 0}]}'
    for line, message in (
        ("{", "qa:2: no JSON"),
        ("[]", "qa:2: TypeError"),
        ('{"id": "q", "passage": 0}', "qa:2: KeyError.*answers"),
        (good.replace("0}", '"x"}'), "qa:2: ValueError.*valid: id, passage"),
        ('{"id": "q", "passage": 2, "answers": []}', "question q has passage 2; valid: 0 to 1"),
    ):
        with pytest.raises(ValueError, match=message):
            read_questions(_write(tmp_path / "qa", [good, line]), passages=2)
    with pytest.raises(ValueError, match="p:2: found dict; valid: one JSON string per line"):
        read_passages(_write(tmp_path / "p", ['"a"', "{}"]))
    with pytest.raises(ValueError, match="no file .*missing: it belongs to a data-bin for question answering"):
        read_passages(str(tmp_path / "missing"))
