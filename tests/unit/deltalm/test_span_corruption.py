"""Span corruption: what items and batches hold, lengths, the texts that are read, sentinels."""

import numpy as np
import pytest

from fairseq_plugins.deltalm.spans import Demand, check_sentinels, find_sentinels
from tests import builders
from tests import deltalm_builders as corruption
from tests.deltalm_builders import EOS, FIRST_SENTINEL, PAD, TEMPLATE, plain


def mixed(**changes):
    rows = builders.sentences(40, 3, 2, 9)
    return corruption.dataset([corruption.pairs(*corruption.pair_rows(30)), corruption.blocks(rows)], **changes)


def items(data):
    return [plain(data[index]) for index in range(len(data))]


@pytest.mark.parametrize("mode", ["none", "complete", "eos"])
def test_source_and_target_make_up_the_text(mode):
    stream = corruption.blocks(builders.sentences(60, 5, 1, 9), block=30, mode=mode, ratio=0.4)
    data = corruption.dataset([stream])
    for epoch in (1, 2, 3):
        data.set_epoch(epoch)
        for index in range(len(data)):
            source, target = plain(data[index])
            text = stream.read(index, np.random.default_rng(0))[0].tolist()
            assert source[-1] == target[-1] == EOS
            assert corruption.restored(source, target) == text
            parts = corruption.spans(target)
            assert all(parts) and EOS not in [token for part in parts for token in part], "never corrupted"
            assert sum(token == EOS for token in source) == sum(token == EOS for token in text)


def test_pairs_keep_the_separator_and_no_span_crosses_it():
    left, right = corruption.pair_rows(80, 3, 12)
    data = corruption.dataset([corruption.pairs(left, right)])
    cut = 0
    for (source, target), x, y in zip(items(data), left, right):
        assert corruption.restored(source, target) in ([*x, EOS, *y, EOS], [*y, EOS, *x, EOS])
        total = len(x) + len(y)
        assert sum(len(part) for part in corruption.spans(target)) == max(1, min(round(total / 2), total - 1))
        middle = source.index(EOS)
        cut += source[middle - 1] >= FIRST_SENTINEL and source[middle + 1] >= FIRST_SENTINEL
    assert cut > 5, "a span that meets the separator goes on behind it"


def test_streams_and_repeated_items_have_noise_of_their_own():
    rows = corruption.pair_rows(30)
    twice = items(corruption.dataset([corruption.pairs(*rows), corruption.pairs(*rows)]))
    assert sum(one != two for one, two in zip(twice[:30], twice[30:])) > 15
    data = mixed()
    total = len(data)
    rounds = [[plain(data.repeated(index, times)) for index in range(total)] for times in range(3)]
    assert rounds[0] == items(data)
    without = [(source, [token for token in target if token < FIRST_SENTINEL]) for source, target in rounds[0]]
    assert items(mixed(target_sentinels=False)) == without
    sides = [[sorted(corruption.restored(*item)) for item in found] for found in rounds]
    assert sides[0] == sides[1] == sides[2]
    for first, second in ((0, 1), (1, 2)):
        assert sum(a != b for a, b in zip(rounds[first], rounds[second])) > total // 2
    for index in (-1, total):
        with pytest.raises(IndexError, match=f"index {index} of {total}"):
            data[index]


@pytest.mark.parametrize("changes", [{}, {"mean_span": 1.0}, {"target_sentinels": False}])
@pytest.mark.parametrize("ratio", [0.15, 0.5, 0.9])
def test_lengths_are_bounds_and_are_reached(ratio, changes):
    rows = builders.sentences(60, 5, 1, 9)
    streams = [corruption.blocks(rows, 30, "none", ratio), corruption.blocks(rows, 20, "eos", ratio)]
    data = corruption.dataset([*streams, corruption.pairs(*corruption.pair_rows(40), ratio=ratio)], **changes)
    reached = 0
    for epoch in range(1, 9):
        data.set_epoch(epoch)
        for index in range(len(data)):
            source, target = plain(data[index])
            whole, longest = data.size(index)
            assert len(source) <= whole and len(target) <= longest <= whole + 1
            assert max(len(source), len(target)) <= data.num_tokens(index) <= max(whole, longest)
            exact = max(len(source), len(target)) == data.num_tokens(index)
            assert exact or data.place_of(index)[0] != 1
            reached += exact
    assert reached > len(data) / 2


def test_batches_are_those_of_a_translation_task():
    data = mixed()
    batch = data.collater([data[index] for index in (4, 0, 33)])
    inputs = batch["net_input"]
    assert sorted(batch["id"].tolist()) == [0, 4, 33] and data.collater([]) == {}
    for row, index in enumerate(batch["id"].tolist()):
        source, target = plain(data[index])
        padding = [PAD] * (batch["target"].size(1) - len(target))
        assert inputs["src_tokens"][row].tolist() == source + [PAD] * (inputs["src_tokens"].size(1) - len(source))
        assert batch["target"][row].tolist() == target + padding
        assert inputs["prev_output_tokens"][row].tolist() == [EOS, *target[:-1]] + padding


ROWS = [[4, 5], [6, 7, 8], [9], [], [10, 11, 12, 13, 14, 15, 16]]


def texts(stream, seed=1):
    found = []
    for index in range(len(stream)):
        tokens, ends = stream.read(index, np.random.default_rng(seed))
        assert ends.tolist() == [place for place, token in enumerate(tokens) if token == EOS]
        assert len(tokens) - len(ends) == stream.tokens[index] >= 2
        assert len(ends) - 1 == stream.separators[index]
        found.append(tokens.tolist())
    return found


@pytest.mark.cases(
    "mode expected left_out",
    (  # whole sentences up to 7 tokens; the last one is longer than a block
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
    stream = corruption.blocks(ROWS, block=7, mode=mode)
    assert texts(stream) == expected
    assert stream.left_out == left_out


def test_sentences_longer_than_16_bits_have_their_real_length():
    rows = [[5] * 70000, [6, 7]]
    stream = corruption.blocks(rows, block=100)
    assert stream.tokens.tolist() == [70000, 2]


def test_pairs_without_two_tokens_are_left_out_and_the_others_keep_their_lines():
    stream = corruption.pairs([[4], [], [5], []], [[], [6, 7], [8], []])
    assert stream.left_out == 2
    assert [sorted(text) for text in texts(stream)] == [[EOS, EOS, 6, 7], [EOS, EOS, 5, 8]]


def symbols(*names):
    found = builders.dictionary()
    for name in names:
        found.add_symbol(name)
    return found


def test_sentinels_are_counted_from_0_until_one_is_missing_or_added_at_the_end():
    found = symbols("<extra_id_1>", "x", "<extra_id_0>", "<extra_id_3>")
    assert find_sentinels(found, TEMPLATE) == [builders.VOCAB + 2, builders.VOCAB]
    assert find_sentinels(found, "[S{}]") == []
    assert find_sentinels(found, "[S{}]", 2) == [len(found) - 2, len(found) - 1]
    assert found.symbols[-2:] == ["[S0]", "[S1]"]


def test_wrong_options_are_named():
    for template, add, message in (
        ("<extra>", 5, "--sentinels must have a {} .*'<extra>'"),
        (TEMPLATE, -1, "--add-sentinels must be 0 or more; got -1"),
        ("p{}", 5, "--add-sentinels must be 0 where the dictionary already holds p0; got 5"),
    ):
        with pytest.raises(ValueError, match=message):
            find_sentinels(symbols(), template, add)


BLOCKS = Demand("--mask-prob", 0.15, 512, 0)
PAIRS = Demand("--pair-mask-prob", 0.5, 512, 1)


@pytest.mark.parametrize(("need", "demands"), [(26, [BLOCKS]), (86, [BLOCKS, PAIRS])])
def test_as_many_as_the_worst_text_needs_are_enough(need, demands):
    check_sentinels(range(need), TEMPLATE, 3.0, demands)
    for count, have in ((need - 1, f"has {need - 1}"), (0, "lacks <extra_id_0>")):
        words = f"{have}, .*--tokens-per-sample 512, {demands[-1].option} {demands[-1].ratio}.*--add-sentinels {need}"
        with pytest.raises(ValueError, match=words):
            check_sentinels(range(count), TEMPLATE, 3.0, demands)
