"""VECODataset: batches by hand, masking, repeated texts, sampling within each kind, batches by turns."""

import numpy as np
import pytest
import torch
from fairseq.data import data_utils

from fairseq_plugins.data.veco_dataset import VECODataset
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
        found = [inputs["joint_tokens"][row, 1 : x + 1], inputs["joint_tokens"][row, x + 3 : x + y + 3]]
        assert all(torch.equal(one, two) for one, two in zip(parts, found))
    assert inputs["masked"].tolist() == batch["target"].ne(PAD).tolist()
    assert inputs["joint_masked"].tolist() == batch["joint_target"].ne(PAD).tolist()


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
        assert sum(plain(one) != plain(two) for one, two in zip(before, after)) > total // 2
    assert data[total + 3]["id"] == total + 3


def test_sampling_has_the_shares_within_each_kind_and_is_new_in_every_epoch():
    languages = [veco.segments(veco.documents([4] * count, seed)) for count, seed in ((5, 1), (20, 2))]
    pairs = [veco.pairs([[A, B]] * count, [[C]] * count) for count in (10, 30)]
    data = veco.dataset([*languages, *pairs], [0.5, 0.5, 0.75, 0.25])
    texts = len(languages[0]) + len(languages[1])
    found = []
    for epoch in (1, 2, 1):
        data.set_epoch(epoch)
        streams = np.array([data.place_of(index)[0] for index in range(len(data))])
        assert len(data) == texts + 40 and data.first_pair == texts
        assert set(streams[:texts]) == {0, 1} and set(streams[texts:]) == {2, 3}
        assert abs((streams == 0).sum() - 0.5 * texts) < 1 and abs((streams == 2).sum() - 0.75 * 40) < 1
        found.append([whole(item) for item in data])
    assert found[0] == found[2] != found[1]


def batches(data, epoch=1, **limits):
    """As the trainer makes them."""
    data.set_epoch(epoch)
    with data_utils.numpy_seed(1 + epoch):
        order = data.ordered_indices()
    return [list(map(int, batch)) for batch in data.batch_by_size(order, **{"max_sentences": 4, **limits})]


def test_sampled_kinds_take_turns_and_the_smaller_one_is_repeated():
    data = veco.dataset(veco.streams(20, 90), [1.0, 1.0])
    total, first = len(data), data.first_pair
    found = batches(data)
    assert data.kinds == 2 and len(found) == 2 * 23
    for place, batch in enumerate(found):
        assert {index % total >= first for index in batch} == {place % 2 == 1}
    drawn = [index for batch in found for index in batch]
    assert len(set(drawn)) == len(drawn), "noise of its own for whatever is repeated"
    assert sorted(index for batch in found[1::2] for index in batch) == list(range(first, total)), "larger kind once"
    times = np.bincount([index % total for batch in found[::2] for index in batch])
    assert times.max() - times.min() == 1
    assert batches(veco.dataset(veco.streams(20, 90), [1.0, 1.0])) == found != batches(data, 2)


def test_max_tokens_counts_padding():
    data = veco.dataset(veco.streams(), [1.0, 1.0])
    full = 0
    for batch in batches(data, max_sentences=None, max_tokens=60):
        inputs = data.collater([data[index] for index in batch])["net_input"]
        assert inputs["src_tokens"].numel() <= 60
        assert inputs["joint_tokens"] is None or inputs["joint_tokens"].numel() <= 60
        full += inputs["src_tokens"].numel() > 40
    assert full > 5


@pytest.mark.parametrize("streams", [veco.streams(), veco.streams()[:1], veco.streams()[1:]])
def test_validation_and_one_kind_alone(streams):
    for probabilities in (None, [1.0])[: 3 - len(streams)]:
        data = veco.dataset(streams, probabilities)
        found = batches(data)
        kinds = [batch[0] >= data.first_pair for batch in found]
        assert data.kinds == 1 and kinds == sorted(kinds), "monolingual batches first"
        assert sorted(index for batch in found for index in batch) == list(range(len(data)))
        assert {len({index >= data.first_pair for index in batch}) for batch in found} == {1}


@pytest.mark.parametrize(("option", "pairs_left"), [("--pairs", False), ("--monolingual", True)])
def test_a_kind_whose_texts_are_all_too_long_is_named(option, pairs_left):
    data = veco.dataset(veco.streams(), [1.0, 1.0])
    order = data.ordered_indices()
    with pytest.raises(ValueError, match=f"{option}: no text fits into --tokens-per-sample"):
        data.batch_by_size(order[(order >= data.first_pair) == pairs_left], max_sentences=4)
