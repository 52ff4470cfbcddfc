"""Datasets of understanding tasks: sizes, what is cut and counted, padding, order, classes."""

import numpy as np
import pytest
import torch

from fairseq_plugins.understanding.inputs import InputFormat, InputOptions, NLUDataset, cut_lengths
from fairseq_plugins.understanding.sentences import LabelledDataset
from tests.builders import BOS, EOS, PAD
from tests.nlu_bins import Rows

FIRST = [[11, 12, 13], [14], [], [15, 16]]
SECOND = [[21], [22, 23], [24, 25, 26, 27, 28], [29]]


def dataset(*sides, max_positions=50, labels=None):
    """A dataset of one or two sides; with ``labels`` it has classes."""
    texts = [Rows([*row, EOS] for row in side) for side in sides]
    options = InputOptions(InputFormat("xlmr", BOS, EOS), max_positions, PAD, seed=1)
    return NLUDataset(texts, options) if labels is None else LabelledDataset(texts, options, labels)


@pytest.mark.parametrize("max_positions", [50, 8, 7, 6])
@pytest.mark.parametrize("sides", [(FIRST,), (FIRST, SECOND)])
def test_sizes_are_those_of_the_items(sides, max_positions):
    data = dataset(*sides, max_positions=max_positions)
    made = [len(data[index]["tokens"]) for index in range(len(data))]
    assert data.sizes.tolist() == made
    assert [data.size(index) for index in range(len(data))] == made
    assert [data.num_tokens(index) for index in range(len(data))] == made
    assert data.num_tokens_vec(np.array([3, 0])).tolist() == [made[3], made[0]]


def test_what_is_cut_is_counted():
    assert [dataset(FIRST, SECOND, max_positions=limit).cut_rows for limit in (9, 8, 7, 6)] == [0, 1, 2, 4]
    assert [dataset(FIRST, SECOND, max_positions=limit).cut_tokens for limit in (9, 8, 7, 6)] == [0, 1, 3, 7]
    tagged = dataset(FIRST, max_positions=4)
    assert (tagged.cut_rows, tagged.cut_tokens) == (1, 1)
    assert tagged[0]["tokens"].tolist() == [BOS, 11, 12, EOS]


def test_a_batch_is_padded_on_the_right():
    data = dataset(FIRST)
    batch = data.collater([data[0], data[1], data[2]])
    expected = [[BOS, 11, 12, 13, EOS], [BOS, 14, EOS, PAD, PAD], [BOS, EOS, PAD, PAD, PAD]]
    assert batch["net_input"]["src_tokens"].tolist() == expected
    assert batch["net_input"]["src_lengths"].tolist() == [5, 3, 2]
    assert batch["id"].tolist() == [0, 1, 2]
    assert (batch["nsentences"], batch["ntokens"]) == (3, 10)
    assert data.collater([]) == {}


def test_sides_and_labels_that_do_not_fit_are_refused():
    dataset(FIRST, SECOND, max_positions=6)
    for sides, more, message in (
        ((FIRST, SECOND), {"max_positions": 5}, "--max-positions leaves room for 1 pieces of 2 texts"),
        ((FIRST, SECOND[:3]), {}, "input0 has 4 rows, input1 has 3 rows; valid: equal numbers"),
        ((FIRST, SECOND), {"labels": np.array([0, 1])}, "label has 2 rows, input0 has 4 rows; valid: equal numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            dataset(*sides, **more)


A, B = [11, 12, 13], [21, 22]
LANG = 99


def assemble(name, texts, room=50):
    """The tokens, with the symbol of the language where the format has one."""
    made = InputFormat(name, BOS, EOS)
    language = LANG if made.needs_language else None
    return made.assemble([torch.tensor(text, dtype=torch.int32) for text in texts], room, language).tokens.tolist()


@pytest.mark.cases(
    "name one two",
    ("xlmr", [BOS, *A, EOS], [BOS, *A, EOS, EOS, *B, EOS]),
    ("bert", [BOS, *A, EOS], [BOS, *A, EOS, *B, EOS]),
    ("mbart", [*A, EOS, LANG], [*A, EOS, *B, EOS, LANG]),
    ("mbart50", [LANG, *A, EOS], [LANG, *A, EOS, *B, EOS]),
)
def test_formats_by_hand(name, one, two):
    assert assemble(name, [A]) == one
    assert assemble(name, [A, B]) == two
    made = InputFormat(name, BOS, EOS)
    assert (made.added(1), made.added(2)) == (len(one) - len(A), len(two) - len(A) - len(B))
    assert made.needs_language == (LANG in one)


def test_kept_is_what_taking_from_the_longer_one_leaves():
    """Piece by piece from the longer text; where both are of a length, either may give."""
    for first in range(8):
        for second in range(8):
            for room in range(2, 12):
                kept = cut_lengths([first, second], room)
                left = [first, second]
                while sum(left) > room:
                    left[left.index(max(left))] -= 1
                assert sorted(kept) == sorted(left)
                assert kept[0] <= first and kept[1] <= second
            assert cut_lengths([first], 4) == [min(first, 4)]


@pytest.mark.parametrize(("texts", "room"), [([[1]], 2), ([[1], [2]], 5), ([[1], [2]], 2)])
def test_no_room_for_a_piece_of_each_and_an_unknown_format_are_refused(texts, room):
    with pytest.raises(ValueError, match=r"--max-positions.* texts; valid: one each"):
        assemble("xlmr", texts, room)
    with pytest.raises(ValueError, match="--input-format must be one of xlmr, bert, mbart, mbart50; got 'gpt'"):
        InputFormat("gpt", BOS, EOS)
