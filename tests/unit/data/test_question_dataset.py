"""Windows: every piece in one, sizes known before, answers where they are, several languages in one batch."""

import pytest
import torch
from fairseq.data import data_utils

from fairseq_plugins.data.nlu_inputs import INPUT_FORMATS, InputFormat
from fairseq_plugins.data.question_dataset import QuestionDataset, QuestionSet
from fairseq_plugins.data.question_files import place_answers, read_passages, read_questions
from tests import nlu_bins as builders
from tests.reference.question_loops import windows

NAME, LANGUAGE = "valid.en", 40
LIMITS = dict(max_question=4, stride=3, max_positions=18)
FORMATS = list(INPUT_FORMATS)


def load(folder, name=NAME, kind="xlmr", language="en", lost=0, **changes):
    """The dataset of a subset on disk; the answers of the first ``lost`` questions have no place."""
    limits = {**LIMITS, **changes}
    texts = [data_utils.load_indexed_dataset(str(folder / part / name)) for part in ("input0", "input1")]
    offsets = data_utils.load_indexed_dataset(str(folder / "offsets" / name))
    passages = read_passages(str(folder / "passages" / f"{name}.jsonl"))
    entries = read_questions(str(folder / "qa" / f"{name}.jsonl"), len(passages))
    gold, _ = place_answers(entries, passages, offsets)
    gold[:lost] = -1
    input_format = InputFormat(kind, builders.BOS, builders.EOS)
    return QuestionDataset(
        texts,
        [text.sizes for text in texts],
        QuestionSet(entries, passages, offsets, gold, language),
        input_format=input_format,
        pad=builders.PAD,
        seed=1,
        language=LANGUAGE if input_format.needs_language else None,
        **limits,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Twelve random questions with passages of 4 to 40 words, in two languages."""
    result = tmp_path_factory.mktemp("qa")
    for seed, name in enumerate((NAME, "valid.de"), start=1):
        builders.write_questions(result, name, *builders.random_questions(12, seed))
    return result


def _words(tokens):
    return builders.dictionary().string(tokens).split()


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("stride", [1, 3, 500])
def test_windows_are_the_loops_and_cover_the_passage(folder, kind, stride):
    dataset = load(folder, kind=kind, stride=stride)
    added = {"xlmr": 4, "bert": 3, "mbart": 3, "mbart50": 3}[kind]
    several = 0
    for index in range(len(dataset)):
        item, entry = dataset[index], dataset.questions.entries[index]
        words = dataset.questions.passages[entry.passage].split()
        asked = min(len(dataset.texts[0][index]) - 1, LIMITS["max_question"])
        expected = windows(len(words), LIMITS["max_positions"] - added - asked, stride)
        found = []
        for row in item["rows"]:
            begin, length, start = row["passage"]
            assert _words(row["tokens"][begin : begin + length]) == words[start : start + length]
            assert len(row["tokens"]) == added + asked + length <= LIMITS["max_positions"]
            found.append((start, start + length))
        assert found == expected
        assert set().union(*(range(*window) for window in found)) == set(range(len(words)))
        assert dataset.sizes[index] == len(found) * max(len(row["tokens"]) for row in item["rows"])
        several += len(found) > 1
    assert several > 3
    assert dataset.longest == max(len(row["tokens"]) for index in range(12) for row in dataset[index]["rows"])


def test_the_input_is_question_and_window_in_the_format(folder):
    dataset = load(folder, kind="mbart")
    row = dataset[0]["rows"][0]
    question = dataset.texts[0][0][:-1][:4].tolist()
    begin, length, _ = row["passage"]
    window = dataset.passages[int(dataset.rows[0])][:length].tolist()
    assert row["tokens"].tolist() == [*question, builders.EOS, *window, builders.EOS, LANGUAGE]
    assert begin == len(question) + 1


def test_long_questions_are_cut_and_counted(folder):
    dataset = load(folder)
    lengths = [len(dataset.texts[0][index]) - 1 for index in range(12)]
    assert dataset.cut_questions == sum(length > 4 for length in lengths) > 0
    assert load(folder, max_question=7, max_positions=30).cut_questions == 0
    for index in range(12):
        assert dataset[index]["rows"][0]["passage"][0] == 1 + min(lengths[index], 4) + 2


@pytest.mark.parametrize("kind", FORMATS)
def test_targets_are_the_answer_or_the_first_token(folder, kind):
    dataset = load(folder, kind=kind)
    without, beyond = 0, 0
    for index in range(len(dataset)):
        answer = dataset.questions.entries[index].answers[0]
        first, last = dataset.questions.gold[index]
        held = 0
        for row in dataset[index]["rows"]:
            begin, length, start = row["passage"]
            whole = start <= first and last < start + length
            if whole:
                left, right = row["target"]
                assert _words(row["tokens"][left : right + 1]) == answer.text.split()
                assert begin <= left <= right < begin + length
            else:
                assert row["target"] == [0, 0]
            held += whole
            without += not whole
        beyond += held == 0
    assert without > 5
    assert dataset.beyond == beyond


def test_answers_that_no_window_holds_are_counted(folder):
    """Windows of one or two pieces."""
    dataset = load(folder, max_positions=9, stride=1)
    lengths = dataset.questions.gold[:, 1] - dataset.questions.gold[:, 0] + 1
    held = [any(row["target"] != [0, 0] for row in dataset[index]["rows"]) for index in range(12)]
    assert dataset.beyond == held.count(False) > 0
    assert all(length > 1 for length, whole in zip(lengths, held) if not whole)

    first = held.index(True) + 1
    lost = load(folder, max_positions=9, stride=1, lost=first)
    assert all(row["target"] == [0, 0] for index in range(first) for row in lost[index]["rows"])
    assert lost.beyond == held[first:].count(False), "answers without a place are another matter"


def test_batches_hold_all_windows_of_their_questions(folder):
    dataset = load(folder)
    chosen = [3, 0, 7]
    samples = [dataset[index] for index in chosen]
    batch = dataset.collater(samples)
    counts = dataset.windows[chosen].tolist()
    assert batch["group"].tolist() == [number for number, count in enumerate(counts) for _ in range(count)]
    assert batch["id"].tolist() == chosen
    assert batch["nsentences"] == 3
    rows = [row for sample in samples for row in sample["rows"]]
    tokens, lengths = batch["net_input"]["src_tokens"], batch["net_input"]["src_lengths"]
    assert tokens.shape == (sum(counts), lengths.max())
    assert batch["ntokens"] == lengths.sum() == sum(len(row["tokens"]) for row in rows)
    for number, row in enumerate(rows):
        assert tokens[number, : lengths[number]].tolist() == row["tokens"].tolist()
        assert tokens[number, lengths[number] :].eq(builders.PAD).all()
        places = [batch[name][number].item() for name in ("passage_start", "passage_length", "first_piece")]
        assert places == row["passage"]
        assert batch["target"][number].tolist() == row["target"]
    assert [question.name for question in batch["questions"]] == [dataset.questions.entries[i].name for i in chosen]
    assert dataset.collater([]) == {}


def test_files_that_do_not_fit_are_refused(folder, tmp_path):
    passages, asked = builders.random_questions(4, 1)
    with pytest.raises(
        ValueError, match="--max-positions 8 .* --max-question 4 pieces and 4 symbols; valid: at least 9"
    ):
        load(folder, max_positions=8)
    builders.write_questions(tmp_path, NAME, passages, asked)
    builders.write_question_rows(tmp_path / "input0" / NAME, [[4, 5]] * 3)
    with pytest.raises(ValueError, match="qa has 4 questions, input0 3 rows; valid: as many"):
        load(tmp_path)
    builders.write_questions(tmp_path, NAME, passages, asked)
    builders.write_question_rows(tmp_path / "input1" / NAME, [[4, 5]] * 3)
    with pytest.raises(ValueError, match="passages has 2 texts, offsets 2 rows, input1 3; valid: as many"):
        load(tmp_path)
    builders.write_questions(tmp_path, NAME, passages, asked)
    builders.write_question_rows(tmp_path / "input1" / NAME, [builders.pieces(passages[0]), [4, 5]])
    with pytest.raises(
        ValueError, match=r"row 2 of offsets has \d+ numbers for 2 pieces of input1; valid: two per piece"
    ):
        load(tmp_path)


def test_an_empty_passage_has_one_window_and_an_empty_answer(tmp_path):
    builders.write_questions(tmp_path, NAME, ["w1", "w2"], [builders.Asked("q", "w3", 1, [("w2", 0)])])
    builders.write_question_rows(tmp_path / "input1" / NAME, [builders.pieces("w1"), []])
    builders.write_question_rows(tmp_path / "offsets" / NAME, [[0, 2], []], eos=False)
    item = load(tmp_path)[0]
    assert [(row["passage"], row["target"]) for row in item["rows"]] == [([4, 0, 0], [0, 0])]
    assert item["question"].text(-4, -4) == ""


def test_items_survive_being_sent(folder):
    """Questions stay themselves where fairseq walks over a batch, as for moving it to a GPU."""
    from fairseq import utils

    dataset = load(folder)
    sample = utils.apply_to_sample(lambda tensor: tensor.clone(), dataset.collater([dataset[0], dataset[1]]))
    assert sample["questions"][1].text(0, 0) == dataset[1]["question"].text(0, 0)
    assert torch.equal(sample["target"], dataset.collater([dataset[0], dataset[1]])["target"])
