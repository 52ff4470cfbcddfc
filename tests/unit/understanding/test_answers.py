"""Test span_qa: subsets on disk, batches, losses, best spans, F1 and exact match."""

import logging

import pytest
import torch

from fairseq_plugins.understanding.answers import (
    answer_f1,
    answer_words,
    best_rows,
    best_spans,
    exact_match,
    outside_passage,
    span_losses,
)
from tests import nlu_bins
from tests.reference.question_loops import best_answer
from tests.unit.common.making import maker

make_task = maker("span_qa", max_positions=20, max_question=4, window_stride=3)


@pytest.fixture(scope="module")
def folder(path):
    """Random questions; in train.xx only the first question has its answer in the passage."""
    subsets = {"train.en": 10, "train.de": 6, "test.zh_CN": 6, "test": 4}
    for seed, (name, count) in enumerate(subsets.items(), start=1):
        nlu_bins.write_questions(path, name, *nlu_bins.random_questions(count, seed))
    passages, (first, *questions) = nlu_bins.random_questions(8, seed=9)
    misplaced = [question._replace(answers=[("w1", 10_000)]) for question in questions]
    nlu_bins.write_questions(path, "train.xx", passages, [first, *misplaced])
    return path


def batch_iterator(task, split, max_tokens=400, max_positions=20):
    data = task.dataset(split)
    iterator = task.get_batch_iterator(data, max_tokens=max_tokens, max_positions=max_positions)
    return iterator.next_epoch_itr(shuffle=False)


@pytest.mark.parametrize("split", ["train.en", "train.en,train.de"])
def test_every_question_is_in_a_batch_or_the_limit_is_refused(folder, split):
    """A question with all its windows may be longer than --max-positions."""
    task = make_task(folder)
    task.load_dataset(split, combine=True)
    largest = int(task.dataset(split).sizes.max())
    assert largest > 20
    names = {
        question.name for batch in batch_iterator(task, split) for question in batch["questions"]
    }
    assert names >= {f"q1-{number}" for number in range(10)}
    with pytest.raises(ValueError, match="--max-positions 20: an input has 20 tokens, .* 19"):
        batch_iterator(task, split, max_positions=19)
    with pytest.raises(ValueError, match=f"{largest - 1}: the largest item, .* {largest} tokens"):
        batch_iterator(task, split, max_tokens=largest - 1)


def test_answers_are_compared_in_the_language_of_the_subset(folder):
    for options, name, language in (
        ({}, "test.zh_CN", "zh"),
        ({}, "train.de", "de"),
        ({"answer_normalisation": "squad"}, "test", None),
        ({"answer_normalisation": "squad"}, "train.de", None),
    ):
        task = make_task(folder, **options)
        task.load_dataset(name)
        assert task.dataset(name)[0]["question"].language == language
    with pytest.raises(ValueError, match="test names no language for --answer-normalisation"):
        make_task(folder).load_dataset("test")
    make_task(folder).load_dataset("test", combine=True)  # training compares no answers


def test_missing_and_misplaced_answers_are_warned_of_and_refused_in_training(
    folder, tmp_path, caplog
):
    passages, (first, second, _) = nlu_bins.random_questions(3, seed=9)
    questions = [first, second._replace(answers=[])]
    nlu_bins.write_questions(tmp_path, "test.en", passages, questions)
    for data, name, message in (
        (folder, "train.xx", "7 questions is not .*: q9-1, q9-2, q9-3, q9-4, q9-5, …"),
        (tmp_path, "test.en", "1 questions is missing: q9-1"),
    ):
        caplog.clear()
        task = make_task(data)
        task.load_dataset(name)
        (warning,) = (
            record.message for record in caplog.records if record.levelno == logging.WARNING
        )
        assert warning.startswith(f"{name}: ")
        gold = task.dataset(name).questions.gold
        assert (gold[1:] == -1).all() and (gold[0] >= 0).all()
        with pytest.raises(ValueError, match=message):
            task.load_dataset(name, combine=True)
    answers = [
        item["question"].answers for item in map(task.dataset("test.en").__getitem__, (0, 1))
    ]
    assert [len(texts) for texts in answers] == [1, 0]


def test_offsets_are_needed_for_each_passage(tmp_path):
    nlu_bins.write_questions(tmp_path, "test.en", *nlu_bins.random_questions(6, 1))
    nlu_bins.write_question_rows(tmp_path / "offsets" / "test.en", [[0, 1]], eos=False)
    with pytest.raises(ValueError, match="offsets/test.en has 1 rows, passages/test.en has 3 rows"):
        make_task(tmp_path).load_dataset("test.en")


# ---- Losses and best spans, against loops. ----


STARTS, LENGTHS = [3, 4, 1, 2], [5, 1, 7, 6]
WIDTH, TARGETS = 10, torch.tensor([[4, 6], [0, 0], [1, 7], [7, 7]])


def random_logits(device):
    """Random logits (4, 10, 2), far higher outside of the passage; and the mask of the outside."""
    logits = torch.randn(len(STARTS), WIDTH, 2, dtype=torch.float64).to(device)
    starts, lengths = (torch.tensor(values, device=device) for values in (STARTS, LENGTHS))
    outside = outside_passage(WIDTH, starts, lengths)
    return logits + 9.0 * outside[:, :, None], outside


def test_losses_and_gradients_are_of_the_passage_and_the_first_token(device):
    logits, outside = random_logits(device)
    losses = span_losses(logits.requires_grad_(), outside, TARGETS.to(device))
    losses.sum().backward()
    for row, ends in enumerate(TARGETS.tolist()):
        passage = list(range(STARTS[row], STARTS[row] + LENGTHS[row]))
        assert (~outside[row]).nonzero()[:, 0].tolist() == passage
        normaliser = logits[row, [0, *passage]].logsumexp(0).sum()
        expected = (normaliser - logits[row, ends[0], 0] - logits[row, ends[1], 1]) / 2
        assert losses[row].item() == pytest.approx(expected.item(), rel=1e-12)
        assert logits.grad[row].abs().sum(1).nonzero()[:, 0].tolist() == [0, *passage]


def test_padding_changes_no_loss_and_no_span(device):
    logits, outside = random_logits(device)
    wide_logits = torch.cat([logits, 9 * torch.ones_like(logits)], dim=1)
    wide_outside = torch.cat([outside, torch.ones_like(outside)], dim=1)
    targets = TARGETS.to(device)
    wide_losses = span_losses(wide_logits, wide_outside, targets)
    assert torch.equal(span_losses(logits, outside, targets), wide_losses)
    spans, wide_spans = best_spans(logits, outside, 3), best_spans(wide_logits, wide_outside, 3)
    assert all(torch.equal(narrow, wide) for narrow, wide in zip(spans, wide_spans))


@pytest.mark.parametrize("longest", [1, 3, 30])
def test_best_spans_equal_the_slow_loop(longest, device):
    for _ in range(20):
        logits, outside = random_logits(device)
        scores, first, last = best_spans(logits, outside, longest)
        for row in range(len(STARTS)):
            window = (logits[row].tolist(), STARTS[row], LENGTHS[row], STARTS[row])
            score, *span = best_answer([window], longest)
            assert [first[row].item(), last[row].item()] == span
            assert scores[row].item() == pytest.approx(score, rel=1e-12)


def test_the_first_of_equally_good_rows_is_best(device):
    scores = torch.tensor([1.0, 3.0, 3.0, -2.0, -5.0, -1.0], device=device)
    group = torch.tensor([0, 0, 0, 1, 2, 2], device=device)
    assert best_rows(scores, group, 3).tolist() == [1, 3, 5]


# ---- F1 and exact match: edge cases of the official definitions, worked out by hand. ----


@pytest.mark.cases(
    "text language words",
    ("The Cat, a dog AND an Owl!", None, ["cat", "dog", "and", "owl"]),
    ("a-b", None, ["ab"]),  # punctuation goes before articles, so "a" is no word here
    ("«the» cat", None, ["«", "»", "cat"]),  # the squad definition knows ASCII punctuation only
    ("«the» cat", "en", ["cat"]),
    ("Der Hund des Königs, ein Ort", "de", ["hund", "königs", "ort"]),
    ("La casa y los perros; una", "es", ["casa", "y", "perros"]),
    ("những con mèo của tôi", "vi", ["con", "mèo", "tôi"]),
    ("القط، في البيت", "ar", ["قط", "في", "بيت"]),
    ("خالد", "ar", ["خ", "د"]),  # the official pattern also matches inside a word
    ("一个 the 动物。", "hi", ["一个", "the", "动物"]),
    (
        "北京2008年奥运会, the games",
        "zh",
        ["北", "京", "2008", "年", "奥", "运", "会", "the", "games"],
    ),
    ("the $5 + 3", "en", ["5", "3"]),  # ASCII symbols go in every language
    ("€5 + 3", "de", ["€5", "3"]),  # other symbols are no punctuation
)
def test_words_of_answers(text, language, words):
    assert answer_words(text, language) == words


def test_f1_and_exact_match_by_hand():
    # Words count as often as both texts have them; the best of several answers counts.
    assert answer_f1("to to to be", ["to be or not to be"]) == pytest.approx(2 * 3 / (6 + 4))
    answers = ["cat", "black cat", "dog"]
    assert answer_f1("the black cat!", answers) == answer_f1("cat black", answers) == 1.0
    assert exact_match("the black cat!", answers) and not exact_match("cat black", answers)
    # Answers without words.
    assert answer_f1("the", ["a"]) == answer_f1("", ["cat"]) == 0.0
    assert exact_match("the", ["a"]) and not exact_match("", ["cat"])
    # Chinese is compared by character.
    assert answer_f1("北京", ["北京市"]) == 0.0
    assert answer_f1("北京", ["北京市"], "zh") == pytest.approx(2 * 2 / (2 + 3))
    assert exact_match("北京。", ["北 京"], "zh")
