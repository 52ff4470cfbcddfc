"""Test datasets of understanding tasks: sizes, cut texts, padding and input formats."""

import numpy as np
import pytest
import torch

from fairseq_plugins.understanding.inputs import (
    InputFormat,
    InputOptions,
    NLUDataset,
    cut_lengths,
)
from fairseq_plugins.understanding.sentences import LabelledDataset
from tests.builders import BOS, EOS, PAD
from tests.nlu_bins import Rows

FIRST = [[11, 12, 13], [14], [], [15, 16]]
SECOND = [[21], [22, 23], [24, 25, 26, 27, 28], [29]]


def dataset(*sides, max_positions=50, labels=None):
    """A dataset of one or two sides; with ``labels`` it has classes."""
    texts = [Rows([*row, EOS] for row in side) for side in sides]
    options = InputOptions(InputFormat("xlmr", BOS, EOS), max_positions, PAD, seed=1)
    return LabelledDataset(texts, options, labels) if labels else NLUDataset(texts, options)


@pytest.mark.cases(
    "sides max_positions cut_rows cut_tokens",
    ((FIRST, SECOND), 9, 0, 0),
    ((FIRST, SECOND), 8, 1, 1),
    ((FIRST, SECOND), 6, 4, 7),
    ((FIRST,), 4, 1, 1),
)
def test_sizes_are_those_of_the_items_and_cuts_are_counted(
    sides, max_positions, cut_rows, cut_tokens
):
    data = dataset(*sides, max_positions=max_positions)
    lengths = [len(data[index]["tokens"]) for index in range(len(data))]
    assert data.sizes.tolist() == lengths
    assert [data.size(index) for index in range(len(data))] == lengths
    assert [data.num_tokens(index) for index in range(len(data))] == lengths
    assert data.num_tokens_vec(np.array([3, 0])).tolist() == [lengths[3], lengths[0]]
    assert (data.cut_rows, data.cut_tokens) == (cut_rows, cut_tokens)


def test_a_text_is_cut_at_its_end():
    item = dataset(FIRST, max_positions=4)[0]
    assert item["tokens"].tolist() == [BOS, 11, 12, EOS]


def test_a_batch_is_padded_on_the_right():
    data = dataset(FIRST)
    batch = data.collater([data[0], data[1], data[2]])
    assert batch["net_input"]["src_tokens"].tolist() == [
        [BOS, 11, 12, 13, EOS],
        [BOS, 14, EOS, PAD, PAD],
        [BOS, EOS, PAD, PAD, PAD],
    ]
    assert batch["net_input"]["src_lengths"].tolist() == [5, 3, 2]
    assert batch["id"].tolist() == [0, 1, 2]
    assert (batch["nsentences"], batch["ntokens"]) == (3, 10)
    assert data.collater([]) == {}


@pytest.mark.cases(
    "second options message",
    (SECOND, {"max_positions": 5}, "--max-positions leaves room for 1 pieces of 2 texts"),
    (SECOND[:3], {}, "input0 has 4 rows, input1 has 3 rows"),
    (SECOND, {"labels": [0, 1]}, "label has 2 rows, input0 has 4 rows"),
)
def test_unequal_files_and_too_few_positions_are_refused(second, options, message):
    with pytest.raises(ValueError, match=message):
        dataset(FIRST, second, **options)


A, B = [11, 12, 13], [21, 22]
LANG = 99


def assemble(name, texts, room=50):
    """The tokens, with the symbol of the language where the format has one."""
    input_format = InputFormat(name, BOS, EOS)
    language = LANG if input_format.needs_language else None
    rows = [torch.tensor(text, dtype=torch.int32) for text in texts]
    return input_format.assemble(rows, room, language).tokens.tolist()


@pytest.mark.cases(
    "name single pair",
    ("xlmr", [BOS, *A, EOS], [BOS, *A, EOS, EOS, *B, EOS]),
    ("bert", [BOS, *A, EOS], [BOS, *A, EOS, *B, EOS]),
    ("mbart", [*A, EOS, LANG], [*A, EOS, *B, EOS, LANG]),
    ("mbart50", [LANG, *A, EOS], [LANG, *A, EOS, *B, EOS]),
)
def test_input_formats_by_hand(name, single, pair):
    assert assemble(name, [A]) == single
    assert assemble(name, [A, B]) == pair
    input_format = InputFormat(name, BOS, EOS)
    assert input_format.added(1) == len(single) - len(A)
    assert input_format.added(2) == len(pair) - len(A) - len(B)
    assert input_format.needs_language == (LANG in single)


def test_the_longer_of_two_texts_is_cut():
    """Piece by piece; of two texts of one length either may be cut."""
    for first in range(8):
        assert cut_lengths([first], 4) == [min(first, 4)]
        for second in range(8):
            for room in range(2, 12):
                lengths = cut_lengths([first, second], room)
                expected = [first, second]
                while sum(expected) > room:
                    expected[expected.index(max(expected))] -= 1
                assert sorted(lengths) == sorted(expected)
                assert lengths[0] <= first and lengths[1] <= second


def test_each_text_needs_room_for_a_piece():
    for texts, room in (([[1]], 2), ([[1], [2]], 5)):
        with pytest.raises(ValueError, match="--max-positions"):
            assemble("xlmr", texts, room)
    with pytest.raises(ValueError, match="--input-format must be one of .*; got 'gpt'"):
        InputFormat("gpt", BOS, EOS)
