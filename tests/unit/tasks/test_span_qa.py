"""span_qa: what a subset on disk becomes, what is refused, and the batches that fairseq makes."""

import logging

import pytest

from tests import nlu_bins as builders
from tests.unit.tasks.making import maker

setup = maker("span_qa", max_positions=20, max_question=4, window_stride=3)


@pytest.fixture(scope="module")
def folder(path):
    """Subsets with ten and six questions, and one whose second answer is not in its passage."""
    for seed, (name, count) in enumerate((("train.en", 10), ("train.de", 6), ("test.zh_CN", 6), ("test", 4)), start=1):
        builders.write_questions(path, name, *builders.random_questions(count, seed))
    passages, asked = builders.random_questions(8, seed=9)
    wrong = [question._replace(answers=[("w1", 10_000)]) if n else question for n, question in enumerate(asked)]
    builders.write_questions(path, "train.xx", passages, wrong)
    return path


def batches(task, split, max_positions=20, **more):
    iterator = task.get_batch_iterator(task.dataset(split), max_tokens=400, max_positions=max_positions, **more)
    return list(iterator.next_epoch_itr(shuffle=False))


def test_all_questions_arrive_in_some_batch(folder):
    """A question with all its windows is longer than any input may be; it is kept."""
    task = setup(folder)
    task.load_dataset("train.en", combine=True)
    assert task.dataset("train.en").sizes.max() > 20
    found = [name for batch in batches(task, "train.en") for name in (q.name for q in batch["questions"])]
    assert sorted(found) == sorted(f"q1-{number}" for number in range(10))


@pytest.mark.parametrize("split", ["train.en", "train.en,train.de"])
def test_what_is_too_large_is_named_and_not_left_out(folder, split):
    task = setup(folder)
    task.load_dataset(split, combine=True)
    with pytest.raises(ValueError, match="--max-positions 20: an input has 20 tokens, .* take 19; valid: at most that"):
        batches(task, split, max_positions=19)
    largest = int(task.dataset(split).sizes.max())
    with pytest.raises(ValueError, match=f"{largest - 1}: the largest item, .* has {largest} tokens"):
        task.get_batch_iterator(task.dataset(split), max_tokens=largest - 1)


def test_the_language_of_the_comparison(folder):
    for more, name, language in (
        ({}, "test.zh_CN", "zh"),
        ({}, "train.de", "de"),
        ({"answer_normalisation": "squad"}, "test", None),
        ({"answer_normalisation": "squad"}, "train.de", None),
    ):
        task = setup(folder, **more)
        task.load_dataset(name)
        assert task.dataset(name)[0]["question"].language == language
    with pytest.raises(ValueError, match="test names no language for --answer-normalisation language"):
        setup(folder).load_dataset("test")
    setup(folder).load_dataset("test", combine=True)  # training compares no answers


def test_answers_without_a_place_or_without_text(folder, tmp_path, caplog):
    passages, asked = builders.random_questions(3, seed=9)
    builders.write_questions(tmp_path, "test.en", passages, [asked[0], asked[1]._replace(answers=[])])
    for data, name, message in (
        (folder, "train.xx", "7 questions is not at its place in the passage: q9-1, q9-2, q9-3, q9-4, q9-5, …"),
        (tmp_path, "test.en", "1 questions is missing: q9-1"),
    ):
        caplog.clear()
        task = setup(data)
        task.load_dataset(name)
        (warning,) = (record.message for record in caplog.records if record.levelno == logging.WARNING)
        assert warning.startswith(f"{name}: the first answer of {message}; ")
        gold = task.dataset(name).questions.gold
        assert (gold[1:] == -1).all() and (gold[0] >= 0).all()
        with pytest.raises(ValueError, match=f"{message}; valid: training data without them"):
            task.load_dataset(name, combine=True)
    assert [len(task.dataset("test.en")[number]["question"].answers) for number in range(2)] == [1, 0]


def test_missing_files_are_named(folder, tmp_path):
    with pytest.raises(ValueError, match="subset test.fr: .*input0/test.fr.bin is missing; subsets there: test,"):
        setup(folder).load_dataset("test.fr")
    builders.write_questions(tmp_path, "test.fr", *builders.random_questions(6, 1))
    builders.write_question_rows(tmp_path / "offsets" / "test.fr", [[0, 1]], eos=False)
    with pytest.raises(ValueError, match="subset test.fr: offsets has 1 rows, passages 3; valid: as many"):
        setup(tmp_path).load_dataset("test.fr")
    (tmp_path / "qa" / "test.fr.jsonl").unlink()
    with pytest.raises(ValueError, match=r"no file .*qa/test.fr.jsonl"):
        setup(tmp_path).load_dataset("test.fr")
