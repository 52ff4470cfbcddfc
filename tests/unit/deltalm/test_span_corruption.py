"""Test task span_corruption: texts, items, batches, lengths; data, sampling, bad input."""

from contextlib import nullcontext

import numpy as np
import pytest

from tests import builders
from tests.deltalm_builders import (
    EOS,
    FIRST_SENTINEL,
    PAD,
    blocks,
    dataset,
    pair_rows,
    pairs,
    plain,
    restored,
    spans,
)
from tests.unit.common.making import load, maker

# ---- Texts. ----

ROWS = [[4, 5], [6, 7, 8], [9], [], [10, 11, 12, 13, 14, 15, 16]]


def read_texts(stream, seed=1):
    texts = []
    for index in range(len(stream)):
        tokens, ends = stream.read(index, np.random.default_rng(seed))
        assert ends.tolist() == [place for place, token in enumerate(tokens) if token == EOS]
        assert len(tokens) - len(ends) == stream.tokens[index] >= 2
        assert len(ends) - 1 == stream.separators[index]
        texts.append(tokens.tolist())
    return texts


@pytest.mark.cases(
    "mode expected left_out",
    (  # sentences up to 7 tokens; the last sentence is longer than a block
        "complete",
        [[4, 5, EOS, 6, 7, 8, EOS], [10, 11, 12, 13, 14, 15, 16, EOS]],
        1,  # 9 </s> </s>
    ),
    ("complete_doc", [[4, 5, EOS, 6, 7, 8, EOS], [10, 11, 12, 13, 14, 15, 16, EOS]], 1),  # 9 </s>
    ("eos", [[4, 5, EOS], [6, 7, 8, EOS], [10, 11, 12, 13, 14, 15, 16, EOS]], 2),
    (  # 6 tokens each, and a </s> where a block ends without
        "none",
        [[4, 5, EOS, 6, 7, 8, EOS], [EOS, 9, EOS, EOS, 10, 11, EOS], [12, 13, 14, 15, 16, EOS]],
        0,
    ),
)
def test_blocks_by_hand(mode, expected, left_out):
    stream = blocks(ROWS, block=7, mode=mode)
    assert read_texts(stream) == expected
    assert stream.left_out == left_out


def test_sentences_longer_than_16_bits_have_their_real_length():
    assert blocks([[5] * 70000, [6, 7]], block=100).tokens.tolist() == [70000, 2]


def test_pairs_of_fewer_than_two_tokens_are_left_out():
    stream = pairs([[4], [], [5], []], [[], [6, 7], [8], []])
    assert stream.left_out == 2
    assert [sorted(text) for text in read_texts(stream)] == [[EOS, EOS, 6, 7], [EOS, EOS, 5, 8]]


# ---- Items and batches. ----


def mixed(**changes):
    """Build a dataset of 30 pairs and some blocks."""
    streams = [pairs(*pair_rows(30)), blocks(builders.sentences(40, 3, 2, 9))]
    return dataset(streams, **changes)


def items(data):
    return [plain(data[index]) for index in range(len(data))]


@pytest.mark.parametrize("mode", ["none", "complete", "eos"])
def test_source_and_target_make_up_the_text(mode):
    stream = blocks(builders.sentences(60, 5, 1, 9), block=30, mode=mode, ratio=0.4)
    data = dataset([stream])
    for epoch in (1, 2, 3):
        data.set_epoch(epoch)
        for index, (source, target) in enumerate(items(data)):
            text = stream.read(index, np.random.default_rng(0))[0].tolist()
            assert source[-1] == target[-1] == EOS
            assert restored(source, target) == text
            assert all(spans(target)), "no span is empty"
            assert EOS not in target[:-1], "a separator is never corrupted"
            assert source.count(EOS) == text.count(EOS)


def test_pairs_keep_the_separator_and_no_span_crosses_it():
    rows = pair_rows(80, 3, 12)
    data = dataset([pairs(*rows)])
    crossings = 0
    for (source, target), x, y in zip(items(data), *rows):
        assert restored(source, target) in ([*x, EOS, *y, EOS], [*y, EOS, *x, EOS])
        total = len(x) + len(y)
        noise = sum(len(span) for span in spans(target))
        assert noise == max(1, min(round(total / 2), total - 1))
        middle = source.index(EOS)
        crossings += source[middle - 1] >= FIRST_SENTINEL and source[middle + 1] >= FIRST_SENTINEL
    assert crossings > 5, "a span that meets the separator goes on behind it"


def test_the_noise_differs_between_streams_and_repetitions():
    rows = pair_rows(30)
    twice = items(dataset([pairs(*rows), pairs(*rows)]))
    assert sum(first != second for first, second in zip(twice[:30], twice[30:])) > 15
    data = mixed()
    total = len(data)
    rounds = [[plain(data.repeated(n, times)) for n in range(total)] for times in range(3)]
    assert rounds[0] == items(data)
    texts = [[sorted(restored(*item)) for item in round_items] for round_items in rounds]
    assert texts[0] == texts[1] == texts[2]
    for first, second in ((0, 1), (1, 2)):
        assert sum(a != b for a, b in zip(rounds[first], rounds[second])) > total // 2
    for index in (-1, total):
        with pytest.raises(IndexError, match=f"index {index} of {total}"):
            data[index]


def test_targets_without_sentinels_are_otherwise_the_same():
    bare = [(s, [token for token in t if token < FIRST_SENTINEL]) for s, t in items(mixed())]
    assert items(mixed(target_sentinels=False)) == bare


@pytest.mark.cases(
    "ratio changes",
    (0.15, {}),
    (0.5, {"target_sentinels": False}),
    (0.9, {"target_sentinels": False}),
    (0.5, {"mean_span": 1.0}),
    (0.9, {}),
)
def test_lengths_are_bounds_and_are_reached(ratio, changes):
    rows = builders.sentences(60, 5, 1, 9)
    streams = [blocks(rows, 30, "none", ratio), blocks(rows, 20, "eos", ratio)]
    data = dataset([*streams, pairs(*pair_rows(40), ratio=ratio)], **changes)
    reached = 0
    for epoch in range(1, 9):
        data.set_epoch(epoch)
        for index, (source, target) in enumerate(items(data)):
            text_size, target_size = data.size(index)
            assert len(source) <= text_size
            assert len(target) <= target_size <= text_size + 1
            longest, bound = max(len(source), len(target)), data.num_tokens(index)
            assert longest <= bound <= max(text_size, target_size)
            assert longest == bound or data.place_of(index)[0] != 1
            reached += longest == bound
    assert reached > len(data) / 2


def test_batches_are_those_of_a_translation_task():
    data = mixed()
    batch = data.collater([data[index] for index in (4, 0, 33)])
    inputs = batch["net_input"]
    assert sorted(batch["id"].tolist()) == [0, 4, 33] and data.collater([]) == {}
    for row, index in enumerate(batch["id"].tolist()):
        source, target = plain(data[index])
        source += [PAD] * (inputs["src_tokens"].size(1) - len(source))
        padding = [PAD] * (batch["target"].size(1) - len(target))
        assert inputs["src_tokens"][row].tolist() == source
        assert batch["target"][row].tolist() == target + padding
        shifted = [EOS, *target[:-1]] + padding
        assert inputs["prev_output_tokens"][row].tolist() == shifted


# ---- Task. ----

COUNT = 12
TEXT = {"pairs": "", "monolingual": "it", "sample_break_mode": "eos"}
TASK = dict(train_subset="train", add_sentinels=40, tokens_per_sample=40)
setup = maker("span_corruption", pairs="en-de,en-fr", **TASK)


@pytest.fixture(scope="module")
def folder(path):
    for split in ("train", "valid"):
        builders.write_pair(path, split, "en", "de")
        builders.write_pair(path, split, "en", "fr")
    builders.write_side(path, "train", "it-None", "it", builders.sentences(COUNT, 201))
    builders.write_side(path, "short", "it-None", "it", [[5], [], [6]])
    builders.write_dictionary(path, "it")
    return path


def restored_texts(data):
    """Undo the corruption. The task's dictionary has no ``<mask>`` before the sentinels."""
    texts = []
    for item in items(data):
        rows = [[token + (token >= builders.MASK) for token in row] for row in item]
        texts.append(restored(*rows))
    return texts


def test_pairs_and_languages_are_streams(folder):
    data = load(setup(folder, monolingual="it,de", sample_break_mode="eos"))
    en, de = builders.sentences(COUNT, 1), builders.sentences(COUNT, 101)
    texts = restored_texts(data)
    assert len(texts) == 4 * COUNT
    for index in range(COUNT):
        pair = ([*en[index], EOS, *de[index], EOS], [*de[index], EOS, *en[index], EOS])
        assert texts[index] in pair
        assert texts[COUNT + index] in pair  # the French side is the German one
    monolingual = [*builders.sentences(COUNT, 201), *de]
    assert texts[2 * COUNT :] == [[*row, EOS] for row in monolingual]


def test_training_samples_by_share_and_validation_does_not(folder):
    options = dict(monolingual="de", sampling_temperature=2.0)
    task = setup(folder, pair_share=0.75, sample_break_mode="eos", **options)
    assert load(task).probabilities == pytest.approx([0.375, 0.375, 0.25])
    assert load(task, "valid").probabilities is None
    assert load(task, "train", task_cfg=task.cfg).probabilities is None, "decoding the training set"
    data = load(setup(folder, pairs="en-de", **{**options, "tokens_per_sample": 30}))
    sizes = np.array([len(stream) for stream in data.streams])
    assert sizes[0] == COUNT and 1 < sizes[1] < COUNT, "sentences are packed"
    assert data.probabilities == pytest.approx(sizes**0.5 / (sizes**0.5).sum())


def test_options_and_data_that_do_not_fit_are_named(folder):
    """Blocks of 40 tokens need 7 sentinels for pairs and 2 for text.

    A pair has 38 tokens: 19 are noise, in 6 spans of which the separator cuts one. Text has 6
    tokens of noise in 2 spans.
    """
    for options, message in (
        ({"pair_share": 0.5}, "--pair-share must be 1 .*--monolingual.* got 0.5"),
        ({"pairs": ""}, "--pairs and --monolingual"),
        ({"pairs": "es-pt"}, "dict.es.txt"),
        ({"add_sentinels": 0}, "<extra_id_0>.*--add-sentinels"),
        ({"add_sentinels": 6}, "has 6, .*--tokens-per-sample 40, --pair-mask-prob 0.5"),
        ({"add_sentinels": 7}, None),
        ({**TEXT, "add_sentinels": 2}, None),
        ({**TEXT, "add_sentinels": 2, "sample_break_mode": "complete"}, "--mask-prob 0.15"),
        ({"split": "test"}, r"--pairs en-de: .*test\.en-de\.en\.bin"),
        ({**TEXT, "split": "short"}, "short it: none of 3 inputs"),
    ):
        split = options.pop("split", "train")
        with pytest.raises(ValueError, match=message) if message else nullcontext():
            load(setup(folder, **options), split)
