"""Segments of documents and translation pairs: by hand, and what holds for every document."""

import numpy as np
import pytest

from fairseq_plugins.data.veco_segments import document_sizes
from tests import veco_builders as veco
from tests.veco_builders import BOS, EOS


def rows(lengths):
    """Sentences of so many tokens, </s> counted; 1 is an empty line. No two sentences are alike."""
    return [[100 * number + place for place in range(length - 1)] for number, length in enumerate(lengths, 1)]


def numbers(tokens):
    return [int(token) // 100 for token, before in zip(tokens, [EOS, *tokens]) if before == EOS]


def texts(lengths, room=8):
    stream = veco.segments(rows(lengths), room)
    found = [stream.read(index) for index in range(len(stream))]
    for (x, y), sizes in zip(found, stream.lengths.tolist()):
        assert [len(x) + 1, len(y) + 1] == sizes
        assert x[-1] == y[-1] == EOS
        assert max(sizes) <= room
    return [(numbers(x), numbers(y)) for x, y in found]


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([3, 3, 3, 4, 1], [([1, 2], [3, 4])]),  # 3 + 3 + 3 does not fit into 7, 3 + 4 does
        ([4, 4, 3, 1], [([1], [2, 3])]),  # 4 + 4 would need room for <s>
        ([3, 3, 3, 4, 2, 1], [([1, 2], [3, 4])]),  # the fifth has no neighbour
        ([3, 3, 3, 4, 2, 3, 1], [([1, 2], [3, 4]), ([5], [6])]),  # a third segment, cut in two
        ([3, 4, 1], [([1], [2])]),  # one segment, cut in two
        ([2, 2, 2, 1], [([1], [2, 3])]),  # 2 + 4 and 4 + 2 are equally good
        ([1, 3, 4, 1, 1, 3, 4, 1, 1], [([2], [3]), ([6], [7])]),  # two documents
        ([3, 1, 3, 1], []),  # documents of one sentence
        ([3, 4], [([1], [2])]),  # no empty line behind the last
        ([2, 9, 2, 2, 1], [([3], [4])]),  # nothing is adjacent across a sentence that is too long
        ([9, 9, 1], []),
        ([], []),
    ],
)
def test_by_hand(lengths, expected):
    assert texts(lengths) == expected


def test_every_sentence_is_used_once_or_counted():
    """Random documents: order, adjacency, limits, and as little as can be is left out."""
    generator = np.random.default_rng(3)
    for _ in range(200):
        lengths = np.where(generator.random(40) < 0.2, 1, generator.integers(2, 14, 40)).tolist()
        room = int(generator.integers(6, 30))
        found = texts(lengths, room)
        used = [number for x, y in found for number in (*x, *y)]
        assert used == sorted(set(used))
        for x, y in found:
            assert [*x, *y] == list(range(x[0], y[-1] + 1))
            assert 1 not in lengths[x[0] - 1 : y[-1]]
        left_out = veco.segments(rows(lengths), room).left_out
        text = [number for number, length in enumerate(lengths, 1) if length > 1]
        long = [number for number in text if lengths[number - 1] > room - 1]
        assert left_out[f"longer than {room} tokens with <s>"] == len(long)
        alone = sorted(set(text) - set(used) - set(long))
        assert left_out["without a neighbour"] == len(alone)
        for number in alone:
            behind = lengths[number] if number < len(lengths) else 1
            assert behind == 1 or behind > room - 1, "only the last sentence of a document has no neighbour"


def test_x_is_the_source_side_and_a_pair_with_a_long_or_an_empty_side_is_left_out():
    left, right = [[5, 6], [7], [8], [], [9, 9, 9, 9]], [[8], [9, 10, 11], [1, 2, 3, 4], [5], [6]]
    stream = veco.pairs(left, right, room=5)
    assert [veco.rows_of(stream, index) for index in range(2)] == [
        [[BOS, 5, 6, EOS], [BOS, 8, EOS]],
        [[BOS, 7, EOS], [BOS, 9, 10, 11, EOS]],
    ]
    assert stream.lengths.tolist() == [[4, 3], [3, 5]] and stream.parallel
    assert stream.left_out == {"with an empty side": 1, "with a side longer than 5 tokens with <s>": 2}


@pytest.mark.parametrize(
    ("sizes", "found"), [([3, 1, 4], [1, 1]), ([1, 1, 2, 2, 1, 1, 5, 1], [2, 1]), ([2, 2], [2]), ([1], []), ([], [])]
)
def test_sentences_of_documents(sizes, found):
    assert document_sizes(np.array(sizes)).tolist() == found
