"""Where answers are in pieces, and which files are refused."""

import json

import numpy as np
import pytest

from fairseq_plugins.data.question_files import Answer, QuestionEntry, place_answers, read_passages, read_questions

#          0123456789012345678901234
PASSAGE = "The cat sat. It slept on."
#         The   cat   s    at    .      It      (nothing) slept   on      .
OFFSETS = [0, 3, 3, 7, 7, 9, 9, 11, 11, 12, 12, 15, 15, 15, 15, 21, 21, 24, 24, 25]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "start", "span"),
    [
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
    ],
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


def test_reading(tmp_path):
    line = {"id": "q1", "passage": 1, "answers": [{"text": "ö", "start": 3}, {"text": "b", "start": 0}]}
    found = read_questions(_write(tmp_path / "qa", [json.dumps(line)]), passages=2)
    assert found == [QuestionEntry("q1", 1, (Answer("ö", 3), Answer("b", 0)))]
    assert read_passages(_write(tmp_path / "p", ['"a\\nb"', '"ö"'])) == ["a\nb", "ö"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "qa:2: no JSON"),
        ("[]", "qa:2: TypeError"),
        ('{"id": "q", "passage": 0}', "qa:2: KeyError.*answers"),
        ('{"id": "q", "passage": 0, "answers": [{"text": "a", "start": "x"}]}', "qa:2: ValueError.*valid: id, passage"),
        ('{"id": "q", "passage": 2, "answers": []}', "question q has passage 2; valid: 0 to 1"),
    ],
)
def test_bad_questions_are_refused_by_line(line, message, tmp_path):
    good = '{"id": "good", "passage": 1, "answers": [{"text": "a", "start": 0}]}'
    with pytest.raises(ValueError, match=message):
        read_questions(_write(tmp_path / "qa", [good, line]), passages=2)
    with pytest.raises(ValueError, match="p:2: found dict; valid: one JSON string a line"):
        read_passages(_write(tmp_path / "p", ['"a"', "{}"]))
    with pytest.raises(ValueError, match="no file .*missing: it belongs to a data-bin for question answering"):
        read_passages(str(tmp_path / "missing"))
