"""VECODataset: batches by hand, masking, repeated texts, sampling within each kind, batches by turns."""

import numpy as np
import pytest
import torch
from fairseq.data import data_utils

from fairseq_plugins.veco.data import VECODataset
from tests import builders
from tests import veco_builders as veco
from tests.veco_builders import BOS, EOS, MASK, PAD, plain, whole

A, B, C, D, E = range(builders.FIRST_PIECE, builders.FIRST_PIECE + 5)


def restored(tokens, target):
    return torch.where(target.eq(PAD), tokens, target).tolist()


def test_a_parallel_batch_by_hand():
    data = veco.dataset([veco.pairs([[A, B], [C]], [[D], [E, E, E]])], mask_prob=1.0)
    batch = data.collater([data[0], data[1]])
    inputs = batch["net_input"]
    assert batch["id"].tolist() == [0, 1] and data.sizes.tolist() == [8, 10]
    assert (batch["nsentences"], batch["ntokens"]) == (2, 4 + 3 + 3 + 5)
    assert inputs["src_lengths"].tolist() == [4, 3, 3, 5]
    rows = [[BOS, A, B, EOS, PAD], [BOS, C, EOS, PAD, PAD], [BOS, D, EOS, PAD, PAD], [BOS, E, E, E, EOS]]
    masked = [[PAD, A, B, PAD, PAD], [PAD, C, PAD, PAD, PAD], [PAD, D, PAD, PAD, PAD], [PAD, E, E, E, PAD]]
    assert restored(inputs["src_tokens"], batch["target"]) == rows and batch["target"].tolist() == masked
    joint = [[BOS, A, B, EOS, EOS, D, EOS, PAD], [BOS, C, EOS, EOS, E, E, E, EOS]]
    assert restored(inputs["joint_tokens"], batch["joint_target"]) == joint
    assert batch["joint_target"].tolist() == [[PAD, A, B, PAD, PAD, D, PAD, PAD], [PAD, C, PAD, PAD, E, E, E, PAD]]
    # The joint rows are masked as the rows are.
    for row, (x, y) in enumerate(((2, 1), (1, 3))):
        parts = [inputs["src_tokens"][row, 1 : x + 1], inputs["src_tokens"][row + 2, 1 : y + 1]]
        actual = [inputs["joint_tokens"][row, 1 : x + 1], inputs["joint_tokens"][row, x + 3 : x + y + 3]]
        assert all(torch.equal(item, twin) for item, twin in zip(parts, actual))
    assert torch.stack(inputs["masked"], dim=1).tolist() == batch["target"].ne(PAD).nonzero().tolist()
    assert torch.stack(inputs["joint_masked"], dim=1).tolist() == batch["joint_target"].ne(PAD).nonzero().tolist()


def test_a_monolingual_batch_has_no_joint_rows():
    data = veco.dataset([veco.segments([[A, B], [C], [D], [E, E, E], []], 6)], mask_prob=1.0)
    batch = data.collater([data[0]])
    inputs = batch["net_input"]
    assert restored(inputs["src_tokens"], batch["target"]) == [[BOS, A, B, EOS, C, EOS], [BOS, D, EOS, PAD, PAD, PAD]]
    assert batch["target"].tolist() == [[PAD, A, B, PAD, C, PAD], [PAD, D, PAD, PAD, PAD, PAD]]
    assert inputs["joint_tokens"] is inputs["joint_masked"] is batch["joint_target"] is None
    assert (batch["nsentences"], batch["ntokens"]) == (1, 9) and data.collater([]) == {}


def test_targets_are_the_original_tokens_and_special_symbols_stay():
    data = veco.dataset(veco.streams(), mask_prob=0.5)
    for epoch in (1, 2):
        data.set_epoch(epoch)
        for index in range(len(data)):
            number, text = data.place_of(index)
            stream = data.streams[number]
            assert whole(data[index]) == veco.rows_of(stream, text)
            (first, second), tokens, target = plain(data[index])
            assert [first, second] == stream.lengths[text].tolist() and first + second == len(tokens) == len(target)
            assert data.sizes[index] == 2 * max(first, second)
            for new, old in zip(tokens, target):
                assert old not in (BOS, EOS, MASK)
                assert old == PAD or builders.FIRST_PIECE <= new <= MASK
            for part in (target[:first], target[first:]):
                assert any(old != PAD for old in part), "something is predicted in every segment"
    with pytest.raises(AssertionError, match="monolingual or parallel"):
        data.collater([data[0], data[data.first_pair]])


def test_symbols_behind_mask_never_replace_a_token():
    dictionary = builders.dictionary()
    for number in range(50):
        dictionary.add_symbol(f"[{number}]")
    tokens = np.concatenate([item["tokens"] for item in VECODataset(veco.streams(), dictionary, 1.0, 7)])
    assert tokens.max() == MASK
    assert len(set(tokens[(tokens != MASK) & (tokens >= dictionary.nspecial)])) > 5  # there are random pieces


def test_streams_and_repetitions_have_noise_of_their_own():
    pair = veco.streams()[1]
    # The same texts in the same places, all of them from the first stream or from the second.
    streams = [veco.dataset([pair, pair], shares) for shares in ([1.0, 0.0], [0.0, 1.0])]
    data = veco.dataset(veco.streams())
    total = len(data)
    rounds = [[data[index + times * total] for index in range(total)] for times in range(3)]
    for before, after in (streams, rounds[:2], rounds[1:]):
        assert [whole(item) for item in before] == [whole(item) for item in after]
        assert sum(plain(item) != plain(twin) for item, twin in zip(before, after)) > total // 2
    assert data[total + 3]["id"] == total + 3


def test_sampling_has_the_shares_within_each_kind_and_is_new_in_every_epoch():
    languages = [veco.segments(veco.documents([4] * count, seed)) for count, seed in ((5, 1), (20, 2))]
    pairs = [veco.pairs([[A, B]] * count, [[C]] * count) for count in (10, 30)]
    data, actual = veco.dataset([*languages, *pairs], [0.5, 0.5, 0.75, 0.25]), []
    texts = data.first_pair
    for epoch in (1, 2, 1):
        data.set_epoch(epoch)
        parts = range(texts), range(texts, len(data))
        counts = [np.bincount([data.place_of(index)[0] for index in part]) for part in parts]
        assert abs(counts[0] - texts / 2).max() < 1 and counts[1].tolist() == [0, 0, 30, 10]
        actual.append([whole(item) for item in data])
    assert len(data) == sum(map(len, languages)) + 40 and actual[0] == actual[2] != actual[1]


def batches(data, epoch=1, **limits):
    data.set_epoch(epoch)
    with data_utils.numpy_seed(1 + epoch):
        order = data.ordered_indices()
    return [list(map(int, batch)) for batch in data.batch_by_size(order, **{"max_sentences": 4, **limits})]


def test_sampled_kinds_take_turns_and_the_smaller_one_is_repeated():
    data = veco.dataset(veco.streams(20, 90), [1.0, 1.0])
    total, first = len(data), data.first_pair
    actual = batches(data)
    assert data.kinds == 2 and len(actual) == 2 * 23
    for place, batch in enumerate(actual):
        assert {index % total >= first for index in batch} == {place % 2 == 1}
    used_indices = [index for batch in actual for index in batch]
    assert len(set(used_indices)) == len(used_indices), "noise of its own for whatever is repeated"
    assert sorted(index for batch in actual[1::2] for index in batch) == list(range(first, total)), "larger kind once"
    times = np.bincount([index % total for batch in actual[::2] for index in batch])
    assert times.max() - times.min() == 1
    assert batches(veco.dataset(veco.streams(20, 90), [1.0, 1.0])) == actual != batches(data, 2)


def test_max_tokens_counts_padding():
    data = veco.dataset(veco.streams(), [1.0, 1.0])
    full = 0
    for batch in batches(data, max_sentences=None, max_tokens=60):
        inputs = data.collater([data[index] for index in batch])["net_input"]
        assert inputs["src_tokens"].numel() <= 60
        assert inputs["joint_tokens"] is None or inputs["joint_tokens"].numel() <= 60
        full += inputs["src_tokens"].numel() > 40
    assert full > 5


def sentences_of(lengths):
    """Sentences of so many tokens, </s> counted; 1 is an empty line. No two sentences are alike."""
    return [[100 * number + place for place in range(length - 1)] for number, length in enumerate(lengths, 1)]


def numbers(tokens):
    return [int(token) // 100 for token, before in zip(tokens, [EOS, *tokens]) if before == EOS]


def texts(lengths, room=8):
    stream = veco.segments(sentences_of(lengths), room)
    actual = [stream.read(index) for index in range(len(stream))]
    for (x, y), sizes in zip(actual, stream.lengths.tolist()):
        assert [len(x) + 1, len(y) + 1] == sizes
        assert x[-1] == y[-1] == EOS
        assert max(sizes) <= room
    return [(numbers(x), numbers(y)) for x, y in actual]


@pytest.mark.cases(
    "lengths expected",
    ([3, 3, 3, 4, 1], [([1, 2], [3, 4])]),  # 3 + 3 + 3 does not fit into 7, 3 + 4 does
    ([4, 4, 3, 1], [([1], [2, 3])]),  # 4 + 4 would need room for <s>
    ([3, 3, 3, 4, 2, 3, 1], [([1, 2], [3, 4]), ([5], [6])]),  # a third segment, cut in two
    ([3, 4, 1], [([1], [2])]),  # one segment, cut in two
    ([2, 2, 2, 1], [([1], [2, 3])]),  # 2 + 4 and 4 + 2 are equally good
    ([1, 3, 4, 1, 1, 3, 4, 1, 1], [([2], [3]), ([6], [7])]),  # two documents
    ([3, 4], [([1], [2])]),  # no empty line behind the last
    ([2, 9, 2, 2, 1], [([3], [4])]),  # nothing is adjacent across a sentence that is too long
    ([], []),
)
def test_by_hand(lengths, expected):
    assert texts(lengths) == expected


def test_every_sentence_is_used_once_or_counted():
    generator = np.random.default_rng(3)
    for _ in range(200):
        lengths = np.where(generator.random(40) < 0.2, 1, generator.integers(2, 14, 40)).tolist()
        room = int(generator.integers(6, 30))
        actual = texts(lengths, room)
        used = [number for x, y in actual for number in (*x, *y)]
        assert used == sorted(set(used))
        for x, y in actual:
            assert [*x, *y] == list(range(x[0], y[-1] + 1))
            assert 1 not in lengths[x[0] - 1 : y[-1]]
        left_out = veco.segments(sentences_of(lengths), room).left_out
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
    assert veco.rows_of(stream, 0) == [[BOS, 5, 6, EOS], [BOS, 8, EOS]]
    assert veco.rows_of(stream, 1) == [[BOS, 7, EOS], [BOS, 9, 10, 11, EOS]]
    assert stream.lengths.tolist() == [[4, 3], [3, 5]] and stream.parallel
    assert stream.left_out == {"with an empty side": 1, "with a side longer than 5 tokens with <s>": 2}
