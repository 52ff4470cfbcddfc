"""span_qa: what a subset on disk becomes, what is refused, and the batches that fairseq makes."""

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
from tests import nlu_bins as builders
from tests.reference.question_loops import best_answer
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
    with pytest.raises(
        ValueError, match="offsets/test.fr has 1 rows, passages/test.fr has 3 rows; valid: equal numbers"
    ):
        setup(tmp_path).load_dataset("test.fr")
    (tmp_path / "qa" / "test.fr.jsonl").unlink()
    with pytest.raises(ValueError, match=r"no file .*qa/test.fr.jsonl"):
        setup(tmp_path).load_dataset("test.fr")


# ---- Losses and best spans, against loops. ----


STARTS, LENGTHS = [3, 4, 1, 2], [5, 1, 7, 6]
WIDTH, TARGETS = 10, torch.tensor([[4, 6], [0, 0], [1, 7], [7, 7]])


def _rows(device):
    """Random logits (4, 10, 2), far higher outside of the passage; and the mask."""
    logits = torch.randn(len(STARTS), WIDTH, 2, dtype=torch.float64).to(device)
    outside = outside_passage(WIDTH, torch.tensor(STARTS, device=device), torch.tensor(LENGTHS, device=device))
    return logits + 9.0 * outside[:, :, None], outside


def _inside(row):
    return list(range(STARTS[row], STARTS[row] + LENGTHS[row]))


def test_losses_are_those_over_the_passage_and_the_first_token(device):
    """Logits of question and separators, which are far higher, get no gradient."""
    logits, outside = _rows(device)
    losses = span_losses(logits.requires_grad_(), outside, TARGETS.to(device))
    losses.sum().backward()
    for row, ends in enumerate(TARGETS.tolist()):
        assert (~outside[row]).nonzero()[:, 0].tolist() == _inside(row)
        inside = logits[row, [0, *_inside(row)]]
        expected = (inside.logsumexp(0).sum() - sum(logits[row, target, side] for side, target in enumerate(ends))) / 2
        assert losses[row].item() == pytest.approx(expected.item(), rel=1e-12)
        assert logits.grad[row].abs().sum(1).nonzero()[:, 0].tolist() == [0, *_inside(row)]


def test_padding_changes_nothing(device):
    logits, outside = _rows(device)
    wide = torch.cat([logits, 9 * torch.ones_like(logits)], dim=1)
    more = torch.cat([outside, torch.ones_like(outside)], dim=1)
    targets = TARGETS.to(device)
    assert torch.equal(span_losses(logits, outside, targets), span_losses(wide, more, targets))
    for short, long in zip(best_spans(logits, outside, 3), best_spans(wide, more, 3)):
        assert torch.equal(short, long)


@pytest.mark.parametrize("longest", [1, 2, 4, 30])
def test_best_spans_are_the_loops(longest, device):
    for _ in range(20):
        logits, outside = _rows(device)
        scores, first, last = best_spans(logits, outside, longest)
        for row in range(len(STARTS)):
            expected = best_answer([(logits[row].tolist(), STARTS[row], LENGTHS[row], STARTS[row])], longest)
            assert (first[row].item(), last[row].item()) == expected[1:]
            assert scores[row].item() == pytest.approx(expected[0], rel=1e-12)


def test_best_rows_take_the_first_of_equal_ones(device):
    scores = torch.tensor([1.0, 3.0, 3.0, -2.0, -5.0, -1.0], device=device)
    group = torch.tensor([0, 0, 0, 1, 2, 2], device=device)
    assert best_rows(scores, group, 3).tolist() == [1, 3, 5]


# ---- F1 and exact match: edge cases of the official definitions, worked out by hand. ----


@pytest.mark.cases(
    "text language words",
    ("The Cat, a dog AND an Owl!", None, ["cat", "dog", "and", "owl"]),
    ("a-b", None, ["ab"]),  # punctuation goes before articles, so "a" is no word here
    ("U.S.A.", None, ["usa"]),
    ("«the» cat", None, ["«", "»", "cat"]),  # an ASCII definition: the quotes stay, the article between them goes
    ("«the» cat", "en", ["cat"]),
    ("Der Hund des Königs, ein Ort", "de", ["hund", "königs", "ort"]),
    ("La casa y los perros; una", "es", ["casa", "y", "perros"]),
    ("những con mèo của tôi", "vi", ["con", "mèo", "tôi"]),
    ("القط، في البيت", "ar", ["قط", "في", "بيت"]),
    ("خالد", "ar", ["خ", "د"]),  # the official pattern takes it out of the middle of a word too
    ("一个 the 动物。", "hi", ["一个", "the", "动物"]),
    ("北京2008年奥运会, the games", "zh", ["北", "京", "2008", "年", "奥", "运", "会", "the", "games"]),
    ("the $5 + 3", "en", ["5", "3"]),  # ASCII symbols go in every language
    ("€5 + 3", "de", ["€5", "3"]),  # other symbols are no punctuation
)
def test_words(text, language, words):
    assert answer_words(text, language) == words


def test_f1_counts_words_as_often_as_both_have_them_against_the_best_answer():
    assert answer_f1("to to to be", ["to be or not to be"]) == pytest.approx(2 * 3 / (6 + 4))
    answers = ["cat", "black cat", "dog"]
    assert answer_f1("the black cat!", answers) == answer_f1("cat black", answers) == 1.0
    assert exact_match("the black cat!", answers) and not exact_match("cat black", answers)


def test_answers_without_words():
    assert answer_f1("the", ["a"]) == 0.0
    assert exact_match("the", ["a"])
    assert answer_f1("", ["cat"]) == 0.0
    assert not exact_match("", ["cat"])


def test_chinese_is_compared_by_character():
    assert answer_f1("北京", ["北京市"]) == 0.0
    assert answer_f1("北京", ["北京市"], "zh") == pytest.approx(2 * 2 / (2 + 3))
    assert exact_match("北京。", ["北 京"], "zh")
