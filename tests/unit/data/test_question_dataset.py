"""Windows: every piece in one, sizes known before, answers where they are, several languages in one batch."""

import pytest
from fairseq import utils
from fairseq.data import data_utils

from fairseq_plugins.data.nlu_inputs import INPUT_FORMATS, InputFormat
from fairseq_plugins.data.question_dataset import QuestionDataset, QuestionSet
from fairseq_plugins.data.question_files import place_answers, read_passages, read_questions
from tests import nlu_bins as builders
from tests.reference.question_loops import windows

NAME, LANGUAGE = "valid.en", 40
LIMITS = dict(max_question=4, stride=3, max_positions=18)
FORMATS = list(INPUT_FORMATS)


def load(folder, kind="xlmr", lost=0, **changes):
    """The dataset of a subset on disk; the answers of the first ``lost`` questions have no place."""
    limits = {**LIMITS, **changes}
    texts = [data_utils.load_indexed_dataset(str(folder / part / NAME)) for part in ("input0", "input1")]
    offsets = data_utils.load_indexed_dataset(str(folder / "offsets" / NAME))
    passages = read_passages(str(folder / "passages" / f"{NAME}.jsonl"))
    entries = read_questions(str(folder / "qa" / f"{NAME}.jsonl"), len(passages))
    gold, _ = place_answers(entries, passages, offsets)
    gold[:lost] = -1
    input_format = InputFormat(kind, builders.BOS, builders.EOS)
    return QuestionDataset(
        texts,
        [text.sizes for text in texts],
        QuestionSet(entries, passages, offsets, gold, "en"),
        input_format=input_format,
        pad=builders.PAD,
        seed=1,
        language=LANGUAGE if input_format.needs_language else None,
        **limits,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Twelve random questions with passages of 4 to 40 words."""
    result = tmp_path_factory.mktemp("qa")
    builders.write_questions(result, NAME, *builders.random_questions(12, 1))
    return result


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
            begin, length, start = row["passage"]
            window = row["tokens"][begin : begin + length]
            assert _words(window) == words[start : start + length]
            assert len(row["tokens"]) == added + asked + length <= LIMITS["max_positions"]
            if kind == "mbart":
                assert row["tokens"].tolist() == [*question, builders.EOS, *window.tolist(), builders.EOS, LANGUAGE]
            found.append((start, start + length))
            whole = start <= first and last < start + length
            left, right = row["target"]
            assert not whole or begin <= left <= right < begin + length
            assert (
                _words(row["tokens"][left : right + 1]) == entry.answers[0].text.split()
                if whole
                else left == right == 0
            )
            held += whole
        assert found == windows(len(words), LIMITS["max_positions"] - added - asked, stride)
        assert set().union(*(range(*window) for window in found)) == set(range(len(words)))
        assert dataset.sizes[index] == len(found) * max(len(row["tokens"]) for row in item["rows"])
        counted["several"] += len(found) > 1
        counted["without"] += len(found) - held
        counted["beyond"] += held == 0
    assert counted["several"] > 3 and counted["without"] > 5 and dataset.beyond == counted["beyond"]
    assert dataset.longest == max(len(row["tokens"]) for index in range(12) for row in dataset[index]["rows"])
    assert dataset.cut_questions == sum(length > 4 for length in lengths) > 0


def test_answers_that_no_window_holds_are_counted(folder):
    """Windows of one or two pieces; answers without a place are another matter."""
    dataset = load(folder, max_positions=9, stride=1)
    lengths = dataset.questions.gold[:, 1] - dataset.questions.gold[:, 0] + 1
    held = [any(row["target"] != [0, 0] for row in dataset[index]["rows"]) for index in range(12)]
    assert dataset.beyond == held.count(False) > 0
    assert all(length > 1 for length, whole in zip(lengths, held) if not whole)
    first = held.index(True) + 1
    lost = load(folder, max_positions=9, stride=1, lost=first)
    assert all(row["target"] == [0, 0] for index in range(first) for row in lost[index]["rows"])
    assert lost.beyond == held[first:].count(False)


def test_questions_stay_themselves_where_fairseq_walks_over_a_batch(folder):
    """As for moving it to a GPU. What else a batch holds is read by the tests of the criterion."""
    dataset = load(folder)
    sample = utils.apply_to_sample(lambda tensor: tensor.clone(), dataset.collater([dataset[0], dataset[1]]))
    assert sample["questions"][1].text(0, 0) == dataset[1]["question"].text(0, 0) != ""
    assert (sample["nsentences"], sample["id"].tolist()) == (2, [0, 1]) and dataset.collater([]) == {}


@pytest.mark.parametrize(
    ("part", "rows", "message"),
    [
        (None, None, "--max-positions 8 .* --max-question 4 pieces and 4 symbols; valid: at least 9"),
        ("input0", [[4, 5]] * 3, "qa has 4 questions, input0 3 rows; valid: as many"),
        ("input1", [[4, 5]] * 3, "passages has 2 texts, offsets 2 rows, input1 3; valid: as many"),
        ("input1", [[4, 5]] * 2, r"row 1 of offsets has \d+ numbers for 2 pieces of input1; valid: two per piece"),
    ],
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
    assert [(row["passage"], row["target"]) for row in item["rows"]] == [([4, 0, 0], [0, 0])]
    assert item["question"].text(-4, -4) == ""
