"""Blocks and pairs: what a text is, where its </s> are, how long it is, in every way of packing."""

import numpy as np
import pytest

from tests import builders
from tests import deltalm_builders as corruption

EOS = corruption.EOS
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


@pytest.mark.parametrize(
    ("mode", "expected", "left_out"),
    [
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
    ],
)
def test_blocks_by_hand(mode, expected, left_out):
    stream = corruption.blocks(ROWS, block=7, mode=mode)
    assert texts(stream) == expected
    assert stream.left_out == left_out


@pytest.mark.parametrize("mode", ["none", "complete", "complete_doc", "eos"])
@pytest.mark.parametrize("block", [5, 12, 30])
def test_blocks_hold_every_sentence_once_and_keep_to_the_limit(mode, block):
    rows = builders.sentences(60, 3, low=0, high=9)
    stream = corruption.blocks(rows, block=block, mode=mode)
    found = texts(stream)
    if stream.left_out == 0:
        pieces = [token for text in found for token in text if token != EOS]
        assert pieces == [token for row in rows for token in row]
    longest = max(len(row) + 1 for row in rows)
    assert max(len(text) for text in found) <= (longest if mode == "eos" else max(block, longest))
    if mode == "none":
        assert max(len(text) for text in found) <= block


def test_sentences_longer_than_16_bits_have_their_real_length():
    rows = [[5] * 70000, [6, 7]]
    stream = corruption.blocks(rows, block=100)
    assert stream.tokens.tolist() == [70000, 2]


def test_pairs_have_both_sides_in_either_order():
    left, right = corruption.pair_rows(50)
    stream = corruption.pairs(left, right)
    swapped = 0
    for seed in range(20):
        for text, x, y in zip(texts(stream, seed), left, right):
            assert text in ([*x, EOS, *y, EOS], [*y, EOS, *x, EOS])
        swapped += texts(stream, seed)[0] == [*right[0], EOS, *left[0], EOS]
    assert 3 < swapped < 17, "a fair coin: 10 of 20, standard deviation 2.2"


def test_pairs_without_two_tokens_are_left_out_and_the_others_keep_their_lines():
    stream = corruption.pairs([[4], [], [5], []], [[], [6, 7], [8], []])
    assert stream.left_out == 2
    assert [sorted(text) for text in texts(stream)] == [[EOS, EOS, 6, 7], [EOS, EOS, 5, 8]]
