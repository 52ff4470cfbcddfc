"""VECODataset: batches by hand, masking, noise from (seed, stream, epoch, index) alone, sampling, batches by turns."""

import numpy as np
import pytest
import torch
from fairseq.data import data_utils
from torch.utils.data import DataLoader

from fairseq_plugins.data.veco_dataset import VECODataset
from tests import builders
from tests import veco_data_builders as veco
from tests.veco_data_builders import BOS, EOS, MASK, PAD, plain, whole

A, B, C, D, E = range(builders.FIRST_PIECE, builders.FIRST_PIECE + 5)


# ---- Batches by hand. ----


def restored(tokens, target):
    """A batch before masking."""
    return torch.where(target.eq(PAD), tokens, target).tolist()


def test_a_parallel_batch_by_hand():
    data = veco.dataset([veco.pairs([[A, B], [C]], [[D], [E, E, E]])], mask_prob=1.0)
    batch = data.collater([data[0], data[1]])
    inputs = batch["net_input"]
    assert batch["id"].tolist() == [0, 1]
    assert (batch["nsentences"], batch["ntokens"]) == (2, 4 + 3 + 3 + 5)
    assert inputs["src_lengths"].tolist() == [4, 3, 3, 5]
    assert restored(inputs["src_tokens"], batch["target"]) == [
        [BOS, A, B, EOS, PAD],
        [BOS, C, EOS, PAD, PAD],
        [BOS, D, EOS, PAD, PAD],
        [BOS, E, E, E, EOS],
    ]
    assert batch["target"].tolist() == [
        [PAD, A, B, PAD, PAD],
        [PAD, C, PAD, PAD, PAD],
        [PAD, D, PAD, PAD, PAD],
        [PAD, E, E, E, PAD],
    ]
    assert restored(inputs["joint_tokens"], batch["joint_target"]) == [
        [BOS, A, B, EOS, EOS, D, EOS, PAD],
        [BOS, C, EOS, EOS, E, E, E, EOS],
    ]
    assert batch["joint_target"].tolist() == [[PAD, A, B, PAD, PAD, D, PAD, PAD], [PAD, C, PAD, PAD, E, E, E, PAD]]
    assert inputs["masked"].tolist() == batch["target"].ne(PAD).tolist()
    assert inputs["joint_masked"].tolist() == batch["joint_target"].ne(PAD).tolist()


def test_a_monolingual_batch_has_no_joint_rows():
    data = veco.dataset([veco.segments([[A, B], [C], [D], [E, E, E], []], 6)], mask_prob=1.0)
    batch = data.collater([data[0]])
    inputs = batch["net_input"]
    assert restored(inputs["src_tokens"], batch["target"]) == [[BOS, A, B, EOS, C, EOS], [BOS, D, EOS, PAD, PAD, PAD]]
    assert batch["target"].tolist() == [[PAD, A, B, PAD, C, PAD], [PAD, D, PAD, PAD, PAD, PAD]]
    assert inputs["joint_tokens"] is inputs["joint_masked"] is batch["joint_target"] is None
    assert (batch["nsentences"], batch["ntokens"]) == (1, 9)


def test_types_and_agreement_of_rows_and_joint_rows():
    """The joint rows hold the same tokens, masked in the same places."""
    data = veco.dataset(veco.streams(), mask_prob=0.4)
    samples = [data[index] for index in range(data.first_pair, data.first_pair + 9)]
    batch = data.collater(samples)
    inputs = batch["net_input"]
    for name in ("src_tokens", "src_lengths", "joint_tokens"):
        assert inputs[name].dtype == torch.int64
    assert inputs["masked"].dtype == inputs["joint_masked"].dtype == torch.bool
    for row in range(9):
        x, y = inputs["src_lengths"][row], inputs["src_lengths"][9 + row]
        for rows, joint in ((inputs["src_tokens"], inputs["joint_tokens"]), (batch["target"], batch["joint_target"])):
            first, second = rows[row, :x], rows[9 + row, :y].clone()
            if rows is inputs["src_tokens"]:
                assert second[0] == BOS
                second[0] = EOS
            assert joint[row, : x + y].tolist() == [*first.tolist(), *second.tolist()]
            assert (joint[row, x + y :] == PAD).all()
            assert (rows[row, x:] == PAD).all()
            assert (rows[9 + row, y:] == PAD).all()
    assert data.collater([]) == {}
    with pytest.raises(AssertionError, match="monolingual or parallel"):
        data.collater([data[0], data[data.first_pair]])


# ---- Masking. ----


def test_targets_are_the_original_tokens_and_special_symbols_stay():
    data = veco.dataset(veco.streams(), mask_prob=0.5)
    for epoch in (1, 2):
        data.set_epoch(epoch)
        for index in range(len(data)):
            stream = data.streams[data.place_of(index)[0]]
            text = index - (data.first_pair if stream.parallel else 0)
            assert whole(data[index]) == veco.rows_of(stream, text)
            (first, second), tokens, target = plain(data[index])
            assert first + second == len(tokens) == len(target)
            assert [first, second] == stream.lengths[text].tolist()
            for new, old in zip(tokens, target):
                assert old not in (BOS, EOS, MASK)
                if old != PAD:
                    assert builders.FIRST_PIECE <= new <= MASK
            for part in (target[:first], target[first:]):
                assert any(old != PAD for old in part), "something is predicted in every segment"


def test_shares():
    left, right = ([[A] * 40] * 150 for _ in range(2))
    data = veco.dataset([veco.pairs(left, right)])
    items = [plain(item) for item in data]
    predicted = sum(old != PAD for _, _, target in items for old in target)
    assert predicted == 150 * 2 * 6, "0.15 of 40"
    masked = sum(new == MASK for _, tokens, _ in items for new in tokens)
    assert masked / predicted == pytest.approx(0.8, abs=0.03)


# ---- The same item always. ----


def test_an_item_depends_on_seed_epoch_and_index_only():
    data, again = veco.dataset(veco.streams()), veco.dataset(veco.streams())
    forward = [plain(item) for item in data]
    np.random.seed(99)
    torch.manual_seed(99)
    assert [plain(again[index]) for index in reversed(range(len(again)))][::-1] == forward
    assert plain(data[3]) == forward[3], "drawn twice"


def test_workers_draw_the_same_noise():
    data = veco.dataset(veco.streams(), [1.0, 1.0])
    data.set_epoch(3)
    found = {}
    for workers, shuffle in ((0, False), (2, True)):
        loader = DataLoader(data, batch_size=5, shuffle=shuffle, num_workers=workers, collate_fn=list)
        found[workers] = {item["id"]: plain(item) for batch in loader for item in batch}
    assert len(found[0]) == len(data)
    assert found[0] == found[2]


def test_a_new_process_that_starts_in_a_later_epoch_draws_what_the_first_one_does():
    first, resumed = (veco.dataset(uneven(), [0.3, 0.7, 0.5, 0.5]) for _ in range(2))
    for epoch in (1, 2, 3):
        first.set_epoch(epoch)
    resumed.set_epoch(3)
    assert [plain(item) for item in first] == [plain(item) for item in resumed]
    assert first.ordered_indices().tolist() == resumed.ordered_indices().tolist()


def test_epoch_seed_stream_and_repetition_change_the_noise():
    data = veco.dataset(veco.streams())
    base = [plain(item) for item in data]
    data.set_epoch(2)
    other = [plain(item) for item in data]
    data.set_epoch(1)
    assert [plain(item) for item in data] == base
    pair = veco.streams()[1]
    # The same texts in the same places, all of them from the first stream or from the second.
    streams = [veco.dataset([pair, pair], shares) for shares in ([1.0, 0.0], [0.0, 1.0])]
    assert [whole(item) for item in streams[0]] == [whole(item) for item in streams[1]]
    total = len(data)
    changed = {
        "epoch": (base, other),
        "seed": (base, [plain(item) for item in veco.dataset(veco.streams(), seed=8)]),
        "stream": tuple([plain(item) for item in stream] for stream in streams),
        "repetition": (base, [plain(data[index + total]) for index in range(total)]),
        "second repetition": (
            [plain(data[index + total]) for index in range(total)],
            [plain(data[index + 2 * total]) for index in range(total)],
        ),
    }
    for name, (before, after) in changed.items():
        assert sum(a != b for a, b in zip(before, after)) > len(before) // 2, name
    for index in range(total):
        assert whole(data[index + total]) == whole(data[index])
    assert data[total + 3]["id"] == total + 3


# ---- Which texts. ----


def uneven():
    """A small and a large language, a small and a large pair."""
    languages = [veco.segments(veco.documents([4] * count, seed)) for count, seed in ((5, 1), (20, 2))]
    pairs = [veco.pairs([[A, B]] * count, [[C]] * count) for count in (10, 30)]
    return [*languages, *pairs]


def test_without_probabilities_every_text_once_in_order():
    data = veco.dataset(uneven())
    counts = [len(stream) for stream in data.streams]
    assert [data.place_of(index)[0] for index in range(len(data))] == [n for n in range(4) for _ in range(counts[n])]
    assert data.first_pair == counts[0] + counts[1]
    assert data.can_reuse_epoch_itr_across_epochs
    assert len(list(data)) == len(data)


def test_sampling_has_the_shares_within_each_kind_and_is_new_in_every_epoch():
    data = veco.dataset(uneven(), [0.5, 0.5, 0.75, 0.25])
    counts = [len(stream) for stream in data.streams]
    texts = counts[0] + counts[1]
    found = []
    for epoch in (1, 2, 1):
        data.set_epoch(epoch)
        streams = np.array([data.place_of(index)[0] for index in range(len(data))])
        assert len(data) == sum(counts)
        assert data.first_pair == texts
        assert set(streams[:texts]) == {0, 1} and set(streams[texts:]) == {2, 3}
        assert abs((streams == 0).sum() - 0.5 * texts) < 1
        assert abs((streams == 2).sum() - 0.75 * 40) < 1
        assert [data.size(index) for index in range(len(data))] == data.sizes.tolist()
        assert [2 * max(item["lengths"]) for item in data] == data.sizes.tolist()
        found.append([whole(item) for item in data])
    assert found[0] == found[2] != found[1]
    assert not data.can_reuse_epoch_itr_across_epochs


# ---- Sizes, order, batches. ----


def test_a_text_takes_twice_its_longer_row():
    data = veco.dataset([veco.pairs([[A, B], [C]], [[D], [E, E, E]])])
    assert data.sizes.tolist() == [8, 10]
    assert data.num_tokens_vec(np.array([1, 0])).tolist() == [10, 8]
    assert [data.num_tokens(index) for index in range(2)] == [8, 10]


def test_order_is_by_size_and_shuffled_within():
    data = veco.dataset(veco.streams())
    orders = []
    for epoch in (1, 2, 1):
        data.set_epoch(epoch)
        order = data.ordered_indices()
        assert sorted(order.tolist()) == list(range(len(data)))
        assert (np.diff(data.sizes[order]) >= 0).all()
        orders.append(order.tolist())
    assert orders[0] == orders[2] != orders[1]


def test_what_is_too_long_is_left_out():
    data = veco.dataset(veco.streams())
    everything = np.arange(len(data))
    for limits in (14, (14, 1000), [None, 14], (14.0,)):
        kept, ignored = data.filter_indices_by_size(everything, limits)
        assert kept.tolist() == [index for index in everything if data.size(index) <= 14]
        assert 0 < len(kept) < len(data)
        assert sorted([*kept, *ignored]) == everything.tolist()
    assert data.filter_indices_by_size(everything, None)[0].tolist() == everything.tolist()


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
    assert data.kinds == 2
    assert len(found) == 2 * 23
    for place, batch in enumerate(found):
        assert {index % total >= first for index in batch} == {place % 2 == 1}
    drawn = [index for batch in found for index in batch]
    assert len(set(drawn)) == len(drawn), "noise of its own for whatever is repeated"
    pairs = [index for batch in found[1::2] for index in batch]
    assert sorted(pairs) == list(range(first, total)), "the larger kind once"
    times = np.bincount([index % total for batch in found[::2] for index in batch])
    rounds = 23 / int(np.ceil(first / 4))
    assert set(times) <= {int(rounds), int(rounds) + 1}
    data.set_epoch(1)
    again = batches(veco.dataset(veco.streams(20, 90), [1.0, 1.0]))
    assert again == found != batches(data, 2)
    for batch in found:
        assert data.collater([data[index] for index in batch])["nsentences"] == len(batch)


def test_max_tokens_counts_padding():
    data = veco.dataset(veco.streams(), [1.0, 1.0])
    full = 0
    for batch in batches(data, max_sentences=None, max_tokens=60):
        inputs = data.collater([data[index] for index in batch])["net_input"]
        assert inputs["src_tokens"].numel() <= 60
        assert inputs["joint_tokens"] is None or inputs["joint_tokens"].numel() <= 60
        full += inputs["src_tokens"].numel() > 40
    assert full > 5


def test_validation_has_monolingual_batches_first():
    data = veco.dataset(veco.streams())
    found = batches(data)
    assert data.kinds == 1
    kinds = [batch[0] >= data.first_pair for batch in found]
    assert kinds == sorted(kinds)
    assert sorted(index for batch in found for index in batch) == list(range(len(data)))
    assert {len({index >= data.first_pair for index in batch}) for batch in found} == {1}


@pytest.mark.parametrize("number", [0, 1])
def test_one_kind_alone(number):
    stream = veco.streams()[number]
    for probabilities in (None, [1.0]):
        data = veco.dataset([stream], probabilities)
        assert data.kinds == 1
        found = batches(data)
        assert sorted(index for batch in found for index in batch) == list(range(len(stream)))
        assert veco.is_parallel(data.collater([data[0]])) == stream.parallel


def test_a_kind_whose_texts_are_all_too_long_is_named():
    data = veco.dataset(veco.streams(), [1.0, 1.0])
    order = data.ordered_indices()
    for option, kept in (
        ("--pairs", order[order < data.first_pair]),
        ("--monolingual", order[order >= data.first_pair]),
    ):
        with pytest.raises(ValueError, match=f"{option}: no text fits into --tokens-per-sample"):
            data.batch_by_size(kept, max_sentences=4)


def test_languages_stand_before_pairs():
    with pytest.raises(AssertionError, match="languages first"):
        veco.dataset(veco.streams()[::-1])


def test_symbols_behind_mask_never_replace_a_token():
    dictionary = builders.dictionary()
    for number in range(50):
        dictionary.add_symbol(f"[{number}]")
    data = VECODataset(veco.streams(), dictionary, 1.0, 7)
    tokens = torch.from_numpy(np.concatenate([item["tokens"] for item in data]))
    assert int(tokens.max()) == MASK
    assert len(tokens[(tokens != MASK) & (tokens >= dictionary.nspecial)].unique()) > 5  # there are random pieces
