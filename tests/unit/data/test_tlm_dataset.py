"""TLMDataset: noise from (seed, epoch, index) alone, what is masked and how, positions, padding."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from fairseq_plugins.data.tlm_dataset import MaskingConfig, TLMDataset
from tests import builders, data_bins

BOS, PAD, EOS, MASK = builders.BOS, builders.PAD, builders.EOS, builders.MASK


def dataset(count=40, low=2, high=12, pair=True, **masking):
    """A data set and its rows, by side."""
    rows = [data_bins.sentences(count, seed, low, high) for seed in ((1, 2) if pair else (1,))]
    sides = [[torch.tensor([*row, EOS]) for row in side] for side in rows]
    sizes = [np.array([len(row) + 1 for row in side]) for side in rows]
    config = MaskingConfig(**{"mask_prob": 0.15, "one_side_prob": 0.0, "seed": 7, **masking})
    return TLMDataset(sides, sizes, builders.dictionary(), config), rows


def plain(item):
    """Tensors as lists, so that == compares values."""
    return {key: value.tolist() for key, value in item.items() if isinstance(value, torch.Tensor)}


def whole(rows, index):
    """<s> x </s> <s> y </s>."""
    return [token for side in rows for token in (BOS, *side[index], EOS)]


# ---- The same item always. ----


@pytest.mark.parametrize("one_side_prob", [0.0, 0.5])
def test_an_item_depends_on_seed_epoch_and_index_only(one_side_prob):
    data, _ = dataset(one_side_prob=one_side_prob)
    again, _ = dataset(one_side_prob=one_side_prob)
    forward = [plain(data[index]) for index in range(len(data))]
    np.random.seed(99)
    torch.manual_seed(99)
    backward = [plain(again[index]) for index in reversed(range(len(again)))][::-1]
    assert forward == backward
    assert plain(data[3]) == forward[3], "drawn twice"


def test_workers_draw_the_same_noise():
    """0 workers, 2 workers and another order of the batches: the same items, in other processes."""
    data, _ = dataset(one_side_prob=0.5)
    data.set_epoch(3)
    items = {}
    for workers, shuffle in ((0, False), (2, True)):
        loader = DataLoader(data, batch_size=5, shuffle=shuffle, num_workers=workers, collate_fn=list)
        items[workers] = {item["id"]: plain(item) for batch in loader for item in batch}
    assert len(items[0]) == len(data)
    assert items[0] == items[2]


def test_epoch_seed_and_stream_change_the_noise():
    data, _ = dataset()
    base = [plain(data[index]) for index in range(len(data))]
    data.set_epoch(2)
    others = {
        "epoch": [plain(data[index]) for index in range(len(data))],
        "seed": [plain(item) for item in dataset(seed=8)[0]],
        "stream": [plain(item) for item in dataset(stream=1)[0]],
    }
    for name, items in others.items():
        changed = sum(a["target"] != b["target"] for a, b in zip(base, items))
        assert changed > len(base) // 2, name
    data.set_epoch(1)
    assert [plain(data[index]) for index in range(len(data))] == base


# ---- What is masked. ----


@pytest.mark.parametrize("one_side_prob", [0.0, 1.0])
@pytest.mark.parametrize("pair", [True, False])
def test_targets_are_the_original_tokens_and_special_symbols_stay(one_side_prob, pair):
    data, rows = dataset(one_side_prob=one_side_prob, mask_prob=0.5, pair=pair)
    for epoch in range(1, 6):
        data.set_epoch(epoch)
        for index in range(len(data)):
            item, expected = plain(data[index]), whole(rows, index)
            restored = [old if new == PAD else new for old, new in zip(item["tokens"], item["target"])]
            assert restored == expected
            assert len(item["tokens"]) == len(item["target"]) == len(item["positions"]) == len(expected)
            for token, target, original in zip(item["tokens"], item["target"], expected):
                if original in (BOS, EOS):
                    assert token == original
                    assert target == PAD
                if target != PAD and token != MASK:
                    assert builders.FIRST_PIECE <= token < MASK, "replaced by a special symbol"


def test_share_of_predicted_tokens_and_berts_80_10_10():
    data, rows = dataset(count=300, low=40, high=60)
    predicted = masked = kept = candidates = 0
    for index in range(len(data)):
        item, expected = plain(data[index]), whole(rows, index)
        for token, target, original in zip(item["tokens"], item["target"], expected):
            candidates += original not in (BOS, EOS)
            predicted += target != PAD
            masked += target != PAD and token == MASK
            kept += target != PAD and token == original
    assert predicted / candidates == pytest.approx(0.15, abs=0.005)
    assert masked / predicted == pytest.approx(0.8, abs=0.02)
    # A random piece is the original one in 1 of 25 cases.
    assert kept / predicted == pytest.approx(0.1 + 0.1 / builders.PIECES, abs=0.02)


def test_something_is_predicted_in_every_sentence():
    """Short sentences too, where 15 % is less than one token."""
    data, _ = dataset(low=1, high=3)
    for index in range(len(data)):
        item = plain(data[index])
        second = item["tokens"].index(EOS) + 1
        for part in (item["target"][:second], item["target"][second:]):
            assert any(target != PAD for target in part)


def test_random_pieces_cover_all_pieces():
    data, rows = dataset(count=200, low=30, high=40)
    written = set()
    for index in range(len(data)):
        item, expected = plain(data[index]), whole(rows, index)
        written |= {t for t, original in zip(item["tokens"], expected) if t not in (original, MASK)}
    assert written == set(range(builders.FIRST_PIECE, MASK))


def test_mask_is_never_a_random_piece():
    """With one piece in the dictionary, drawing <mask> as a "random piece" would mask 85 % instead of 80 %."""
    rows = [torch.tensor([builders.FIRST_PIECE] * 50 + [EOS])] * 400
    config = MaskingConfig(mask_prob=0.5, one_side_prob=0.0, seed=7)
    data = TLMDataset([rows], [np.full(400, 51)], builders.dictionary(pieces=1), config)
    items = [data[index] for index in range(400)]
    predicted = sum(int((item["target"] != PAD).sum()) for item in items)
    masked = sum(int((item["tokens"] == builders.FIRST_PIECE + 1).sum()) for item in items)
    assert predicted == pytest.approx(400 * 25, rel=0.02)
    assert masked / predicted == pytest.approx(0.8, abs=0.015)


def test_one_side_is_masked_and_the_other_stays_whole():
    data, rows = dataset(count=400, low=20, high=20, one_side_prob=1.0)
    sides, ratios = [0, 0], []
    for index in range(len(data)):
        item, second = plain(data[index]), 22
        parts = [slice(0, second), slice(second, None)]
        hit = [any(target != PAD for target in item["target"][part]) for part in parts]
        assert sum(hit) == 1
        side = hit.index(True)
        sides[side] += 1
        for token, target in zip(item["tokens"][parts[side]], item["target"][parts[side]]):
            assert (token == MASK) == (target != PAD), "always <mask>, never a random piece"
        ratios.append(sum(target != PAD for target in item["target"]) / 20)
        untouched = item["tokens"][parts[1 - side]]
        assert untouched == [BOS, *rows[1 - side][index], EOS]
    assert min(sides) > 150
    # U(0.15, 1): mean 0.575, standard deviation 0.245.
    assert np.mean(ratios) == pytest.approx(0.575, abs=0.04)
    assert np.std(ratios) == pytest.approx(0.245, abs=0.03)
    assert min(ratios) >= 0.1


def test_share_of_pairs_masked_on_one_side():
    data, _ = dataset(count=600, low=12, high=12, one_side_prob=0.3)
    one = 0
    for index in range(len(data)):
        target = data[index]["target"]
        one += bool((target[:14] == PAD).all()) != bool((target[14:] == PAD).all())
    assert one / 600 == pytest.approx(0.3, abs=0.06)


# ---- Positions and batches. ----


def test_positions_restart_at_the_second_sentence():
    data, rows = dataset()
    for index in range(len(data)):
        lengths = [len(side[index]) + 2 for side in rows]
        expected = [PAD + 1 + place for length in lengths for place in range(length)]
        assert data[index]["positions"].tolist() == expected


def test_collater_pads_on_the_right():
    data, _ = dataset()
    items = [data[index] for index in (4, 0, 7)]
    batch = data.collater(items)
    width = max(len(item["tokens"]) for item in items)
    assert batch["id"].tolist() == [4, 0, 7]
    assert batch["nsentences"] == 3
    assert batch["ntokens"] == sum(len(item["tokens"]) for item in items)
    assert batch["net_input"]["src_lengths"].tolist() == [len(item["tokens"]) for item in items]
    for key, found in (
        ("tokens", batch["net_input"]["src_tokens"]),
        ("positions", batch["net_input"]["positions"]),
        ("target", batch["target"]),
    ):
        assert found.shape == (3, width)
        for row, item in zip(found.tolist(), items):
            assert row == item[key].tolist() + [PAD] * (width - len(item[key]))
    assert data.collater([]) == {}


def test_sizes_and_order():
    data, rows = dataset()
    lengths = [len(whole(rows, index)) for index in range(len(data))]
    assert data.sizes.tolist() == lengths
    assert [data.size(index) for index in range(len(data))] == lengths
    assert [data.num_tokens(index) for index in range(len(data))] == lengths
    assert data.num_tokens_vec(np.arange(len(data))).tolist() == lengths
    first = data.ordered_indices()
    assert sorted(first.tolist()) == list(range(len(data)))
    assert all(lengths[a] <= lengths[b] for a, b in zip(first, first[1:]))
    assert data.ordered_indices().tolist() == first.tolist()
    data.set_epoch(2)
    assert data.ordered_indices().tolist() != first.tolist()


