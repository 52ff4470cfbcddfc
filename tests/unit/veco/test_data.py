"""Test VECO's texts and VECODataset: batches by hand, masking, sampling, batches in turn."""

import numpy as np
import pytest
import torch
from fairseq.data import data_utils

from fairseq_plugins.veco.data import VECODataset
from tests import builders, veco_builders
from tests.veco_builders import BOS, EOS, MASK, PAD, plain, stream_rows, unmasked

A, B, C, D, E = range(builders.FIRST_PIECE, builders.FIRST_PIECE + 5)


def restore(tokens, target):
    """The original tokens of a batch."""
    return torch.where(target.eq(PAD), tokens, target).tolist()


def positions(mask):
    return mask.nonzero().unbind(dim=1)


def test_a_parallel_batch_by_hand():
    pairs = veco_builders.pairs([[A, B], [C]], [[D], [E, E, E]])
    data = veco_builders.dataset([pairs], mask_prob=1.0)
    batch = data.collater([data[0], data[1]])
    assert batch["id"].tolist() == [0, 1] and data.sizes.tolist() == [8, 10]
    assert (batch["nsentences"], batch["ntokens"]) == (2, 4 + 3 + 3 + 5)
    inputs, target, joint_target = batch["net_input"], batch["target"], batch["joint_target"]
    rows, joint_rows = inputs["src_tokens"], inputs["joint_tokens"]
    assert inputs["src_lengths"].tolist() == [4, 3, 3, 5]
    assert restore(rows, target) == [
        [BOS, A, B, EOS, PAD],
        [BOS, C, EOS, PAD, PAD],
        [BOS, D, EOS, PAD, PAD],
        [BOS, E, E, E, EOS],
    ]
    assert restore(joint_rows, joint_target) == [
        [BOS, A, B, EOS, EOS, D, EOS, PAD],
        [BOS, C, EOS, EOS, E, E, E, EOS],
    ]
    pieces = torch.tensor([A, B, C, D, E])
    for tokens, labels in ((rows, target), (joint_rows, joint_target)):
        original = torch.tensor(restore(tokens, labels))
        assert torch.equal(labels.ne(PAD), torch.isin(original, pieces))  # all pieces, no symbols
    assert torch.equal(torch.stack(inputs["masked"]), torch.stack(positions(target.ne(PAD))))
    joint_positions = positions(joint_target.ne(PAD))
    assert torch.equal(torch.stack(inputs["joint_masked"]), torch.stack(joint_positions))
    # The joint rows have the noise of the rows.
    for row, (x, y) in enumerate(((2, 1), (1, 3))):
        assert torch.equal(rows[row, 1 : x + 1], joint_rows[row, 1 : x + 1])
        assert torch.equal(rows[row + 2, 1 : y + 1], joint_rows[row, x + 3 : x + y + 3])


def test_a_monolingual_batch_has_no_joint_rows():
    segments = veco_builders.segments([[A, B], [C], [D], [E, E, E], []], 6)
    data = veco_builders.dataset([segments], mask_prob=1.0)
    batch = data.collater([data[0]])
    inputs = batch["net_input"]
    rows = [[BOS, A, B, EOS, C, EOS], [BOS, D, EOS, PAD, PAD, PAD]]
    assert restore(inputs["src_tokens"], batch["target"]) == rows
    assert batch["target"].tolist() == [[PAD, A, B, PAD, C, PAD], [PAD, D, PAD, PAD, PAD, PAD]]
    assert inputs["joint_tokens"] is inputs["joint_masked"] is batch["joint_target"] is None
    assert (batch["nsentences"], batch["ntokens"]) == (1, 9) and data.collater([]) == {}


def test_each_segment_has_targets_which_are_its_original_pieces():
    data = veco_builders.dataset(veco_builders.streams(), mask_prob=0.5)
    for epoch in (1, 2):
        data.set_epoch(epoch)
        for index, item in enumerate(data):
            number, text = data.place_of(index)
            stream = data.streams[number]
            assert unmasked(item) == stream_rows(stream, text)
            lengths, tokens, target = plain(item)
            assert lengths == stream.lengths[text].tolist()
            assert sum(lengths) == len(tokens) == len(target)
            assert data.sizes[index] == 2 * max(lengths)
            for token, label in zip(tokens, target):
                assert label not in (BOS, EOS, MASK)
                assert label == PAD or builders.FIRST_PIECE <= token <= MASK
            assert any(label != PAD for label in target[: lengths[0]])
            assert any(label != PAD for label in target[lengths[0] :])
    with pytest.raises(AssertionError, match="monolingual or parallel"):
        data.collater([data[0], data[data.first_pair]])


def test_symbols_after_mask_never_replace_a_token():
    dictionary = builders.dictionary()
    for number in range(50):
        dictionary.add_symbol(f"[{number}]")
    data = VECODataset(veco_builders.streams(), dictionary, 1.0, 7)
    tokens = np.concatenate([item["tokens"] for item in data])
    pieces = tokens[(tokens != MASK) & (tokens >= dictionary.nspecial)]
    assert tokens.max() == MASK and len(set(pieces)) > 5


def test_streams_and_repetitions_have_noise_of_their_own():
    pair = veco_builders.streams()[1]
    # All texts from the first stream, or the same texts in the same places from the second.
    first_stream, second_stream = (
        veco_builders.dataset([pair, pair], shares) for shares in ([1.0, 0.0], [0.0, 1.0])
    )
    data = veco_builders.dataset(veco_builders.streams())
    total = len(data)
    rounds = [[data[index + times * total] for index in range(total)] for times in range(3)]
    for before, after in ((first_stream, second_stream), rounds[:2], rounds[1:]):
        assert [*map(unmasked, before)] == [*map(unmasked, after)]
        differences = [plain(item) != plain(twin) for item, twin in zip(before, after)]
        assert sum(differences) > total // 2
    assert data[total + 3]["id"] == total + 3


def test_shares_hold_within_each_kind_and_epochs_differ():
    languages = [
        veco_builders.segments(veco_builders.documents([4] * count, seed))
        for count, seed in ((5, 1), (20, 2))
    ]
    pairs = [veco_builders.pairs([[A, B]] * count, [[C]] * count) for count in (10, 30)]
    data = veco_builders.dataset([*languages, *pairs], [0.5, 0.5, 0.75, 0.25])
    texts, epochs = data.first_pair, []
    assert len(data) == sum(map(len, languages)) + 40
    for epoch in (1, 2, 1):
        data.set_epoch(epoch)
        streams = [data.place_of(index)[0] for index in range(len(data))]
        assert abs(np.bincount(streams[:texts]) - texts / 2).max() < 1
        assert np.bincount(streams[texts:]).tolist() == [0, 0, 30, 10]
        epochs.append([*map(unmasked, data)])
    assert epochs[0] == epochs[2] != epochs[1]


def batches(data, epoch=1, **limits):
    data.set_epoch(epoch)
    with data_utils.numpy_seed(1 + epoch):
        order = data.ordered_indices()
    return [batch.tolist() for batch in data.batch_by_size(order, **limits)]


def test_sampled_kinds_take_turns_and_the_smaller_one_is_repeated():
    data = veco_builders.dataset(veco_builders.streams(20, 90), [1.0, 1.0])
    total, first_pair = len(data), data.first_pair
    order = batches(data, max_sentences=4)
    assert data.kinds == 2 and len(order) == 2 * 23
    for number, batch in enumerate(order):
        assert {index % total >= first_pair for index in batch} == {number % 2 == 1}
    texts, pairs = (np.concatenate(order[kind::2]) for kind in (0, 1))
    assert len({*texts, *pairs}) == len(texts) + len(pairs), "repetitions have noise of their own"
    assert sorted(pairs) == list(range(first_pair, total)), "the larger kind is used once"
    repetitions = np.bincount(texts % total)
    assert repetitions.max() - repetitions.min() == 1
    again = veco_builders.dataset(veco_builders.streams(20, 90), [1.0, 1.0])
    assert batches(again, max_sentences=4) == order != batches(data, 2, max_sentences=4)


def test_max_tokens_counts_padding():
    data = veco_builders.dataset(veco_builders.streams(), [1.0, 1.0])
    large = 0
    for batch in batches(data, max_tokens=60):
        inputs = data.collater([data[index] for index in batch])["net_input"]
        assert inputs["src_tokens"].numel() <= 60
        assert inputs["joint_tokens"] is None or inputs["joint_tokens"].numel() <= 60
        large += inputs["src_tokens"].numel() > 40
    assert large > 5


# ---- Texts of two segments. ----


def segments_of(lengths, room=8):
    """Segments of sentences with these lengths, </s> counted; 1 is an empty line."""
    rows = [[100 * number] + [0] * (length - 2) for number, length in enumerate(lengths, 1)]
    rows = [row if length > 1 else [] for row, length in zip(rows, lengths)]
    return veco_builders.segments(rows, room)


def sentence_numbers(stream, room=8):
    """Numbers (from 1) of the sentences in both segments of each text."""
    texts = []
    for index, sizes in enumerate(stream.lengths.tolist()):
        segments = stream.read(index)
        assert [len(segment) + 1 for segment in segments] == sizes and max(sizes) <= room
        assert all(segment[-1] == EOS for segment in segments)
        texts.append(tuple((segment[segment >= 100] // 100).tolist() for segment in segments))
    return texts


@pytest.mark.cases(
    "lengths expected",
    ([3, 3, 3, 4, 1], [([1, 2], [3, 4])]),  # 3 + 3 + 3 does not fit into 7, 3 + 4 does
    ([4, 4, 3, 1], [([1], [2, 3])]),  # 4 + 4 would need room for <s>
    ([3, 3, 3, 4, 2, 3, 1], [([1, 2], [3, 4]), ([5], [6])]),  # a third segment, cut in two
    ([3, 4, 1], [([1], [2])]),  # one segment, cut in two
    ([2, 2, 2, 1], [([1], [2, 3])]),  # 2 + 4 and 4 + 2 are equally good
    ([1, 3, 4, 1, 1, 3, 4, 1, 1], [([2], [3]), ([6], [7])]),  # two documents
    ([3, 4], [([1], [2])]),  # no empty line after the last
    ([2, 9, 2, 2, 1], [([3], [4])]),  # nothing is adjacent across a sentence that is too long
    ([], []),
)
def test_adjacent_segments_by_hand(lengths, expected):
    assert sentence_numbers(segments_of(lengths)) == expected


def test_every_sentence_is_used_once_or_counted():
    generator = np.random.default_rng(3)
    for _ in range(200):
        lengths = generator.integers(2, 14, 40)
        lengths[generator.random(40) < 0.2] = 1
        room = int(generator.integers(6, 30))
        stream, used = segments_of(lengths.tolist(), room), []
        for x, y in sentence_numbers(stream, room):
            text = [*x, *y]
            assert text == list(range(x[0], y[-1] + 1))
            assert all(lengths[number - 1] > 1 for number in text)
            used += text
        assert used == sorted(set(used))
        sentences = {number for number, length in enumerate(lengths, 1) if length > 1}
        long = {number for number in sentences if lengths[number - 1] > room - 1}
        single = sentences - long - set(used)
        assert stream.left_out == {
            f"longer than {room} tokens with <s>": len(long),
            "without a neighbour": len(single),
        }
        for number in single:  # the last sentence of a document
            assert number == 40 or lengths[number] == 1 or lengths[number] > room - 1


def test_pairs_with_a_long_or_an_empty_side_are_left_out():
    source = [[5, 6], [7], [8], [], [9, 9, 9, 9]]
    target = [[8], [9, 10, 11], [1, 2, 3, 4], [5], [6]]
    stream = veco_builders.pairs(source, target, room=5)
    assert stream_rows(stream, 0) == [[BOS, 5, 6, EOS], [BOS, 8, EOS]]
    assert stream_rows(stream, 1) == [[BOS, 7, EOS], [BOS, 9, 10, 11, EOS]]
    assert stream.lengths.tolist() == [[4, 3], [3, 5]] and stream.parallel
    assert stream.left_out == {
        "with an empty side": 1,
        "with a side longer than 5 tokens with <s>": 2,
    }
