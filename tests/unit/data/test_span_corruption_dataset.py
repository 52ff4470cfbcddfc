"""SpanCorruptionDataset: noise from (seed, stream, epoch, index) alone, what items hold, lengths, sampling, batches."""

from typing import List, Tuple

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from tests import corruption_builders as corruption
from tests import data_bins
from tests.corruption_builders import EOS, FIRST_SENTINEL, PAD, plain

Plain = List[Tuple[List[int], List[int]]]


def mixed(probabilities=None, **changes):
    """30 pairs, and 10 blocks or so of sentences."""
    rows = data_bins.sentences(40, 3, 2, 9)
    return corruption.dataset(
        [corruption.pairs(*corruption.pair_rows(30)), corruption.blocks(rows)], probabilities, **changes
    )


def items(data):
    """Source and target of every item."""
    return [plain(data[index]) for index in range(len(data))]


# ---- The same item always. ----


def test_an_item_depends_on_seed_epoch_and_index_only():
    data, again = mixed(), mixed()
    forward = items(data)
    np.random.seed(99)
    torch.manual_seed(99)
    assert [plain(again[index]) for index in reversed(range(len(again)))][::-1] == forward
    assert plain(data[3]) == forward[3], "drawn twice"


def test_workers_draw_the_same_noise():
    """0 workers, 2 workers and another order of the batches: the same items, in other processes."""
    data = mixed(np.array([0.4, 0.6]))
    data.set_epoch(3)
    found = {}
    for workers, shuffle in ((0, False), (2, True)):
        loader = DataLoader(data, batch_size=5, shuffle=shuffle, num_workers=workers, collate_fn=list)
        found[workers] = {item["id"]: plain(item) for batch in loader for item in batch}
    assert len(found[0]) == len(data)
    assert found[0] == found[2]


def test_a_new_process_that_starts_in_a_later_epoch_draws_what_the_first_one_does():
    first, resumed = mixed(np.array([0.4, 0.6])), mixed(np.array([0.4, 0.6]))
    for epoch in (1, 2, 3):
        first.set_epoch(epoch)
    resumed.set_epoch(3)
    assert items(first) == items(resumed)
    assert first.ordered_indices().tolist() == resumed.ordered_indices().tolist()


def test_epoch_seed_and_stream_change_the_noise():
    data = mixed()
    base = items(data)
    data.set_epoch(2)
    rows = corruption.pair_rows(30)
    streams = [corruption.pairs(*rows), corruption.pairs(*rows)]
    twice = items(corruption.dataset(streams))
    changed = {"epoch": (base, items(data)), "seed": (base, items(mixed(seed=8))), "stream": (twice[:30], twice[30:])}
    for name, (before, after) in changed.items():
        assert sum(a != b for a, b in zip(before, after)) > len(before) // 2, name
    data.set_epoch(1)
    assert items(data) == base


# ---- What an item holds. ----


@pytest.mark.parametrize("mode", ["none", "complete", "eos"])
def test_source_and_target_make_up_the_text(mode):
    stream = corruption.blocks(data_bins.sentences(60, 5, 1, 9), block=30, mode=mode, ratio=0.4)
    data = corruption.dataset([stream])
    for epoch in (1, 2, 3):
        data.set_epoch(epoch)
        for index in range(len(data)):
            source, target = plain(data[index])
            text = stream.read(index, np.random.default_rng(0))[0].tolist()
            assert source[-1] == target[-1] == EOS
            assert corruption.restored(source, target) == text
            parts = corruption.spans(target)
            assert all(parts)
            assert EOS not in [token for part in parts for token in part], "never corrupted"
            assert sum(token == EOS for token in source) == sum(token == EOS for token in text)


def test_pairs_keep_the_separator_and_no_span_crosses_it():
    left, right = corruption.pair_rows(80, 3, 12)
    data = corruption.dataset([corruption.pairs(left, right)])
    cut = 0
    for index in range(len(data)):
        source, target = plain(data[index])
        text = corruption.restored(source, target)
        x, y = left[index], right[index]
        assert text in ([*x, EOS, *y, EOS], [*y, EOS, *x, EOS])
        noise = sum(len(part) for part in corruption.spans(target))
        total = len(x) + len(y)
        assert noise == max(1, min(round(total / 2), total - 1))
        middle = source.index(EOS)
        cut += source[middle - 1] >= FIRST_SENTINEL and source[middle + 1] >= FIRST_SENTINEL
    assert cut > 5, "a span that meets the separator goes on behind it"


def test_a_text_of_two_tokens_by_hand():
    data = corruption.dataset([corruption.blocks([[8, 9]])])
    kinds = set()
    for epoch in range(1, 30):
        data.set_epoch(epoch)
        source, target = plain(data[0])
        kinds.add((tuple(source), tuple(target)))
    zero = FIRST_SENTINEL
    assert kinds == {((zero, 9, EOS), (zero, 8, EOS)), ((8, zero, EOS), (zero, 9, EOS))}


def test_targets_without_sentinels():
    whole, bare = mixed(), mixed(target_sentinels=False)
    for (source, target), (same, without) in zip(items(whole), items(bare)):
        assert source == same
        assert without == [token for token in target if token < FIRST_SENTINEL]


def test_shares_and_mean_span():
    """Blocks of 199 tokens and a </s>: 30 of them are noise, in 10 spans; pairs of 50 + 50: 50 in 17, or 18 where one is cut."""
    text = corruption.blocks(data_bins.sentences(40, 3, 199, 199), block=200)
    both = corruption.pairs(*corruption.pair_rows(40, 50, 50))
    data = corruption.dataset([text, both])
    for index, (_, target) in enumerate(items(data)):
        parts = corruption.spans(target)
        noise, spans = (30, {10}) if index < 40 else (50, {17, 18})
        assert sum(len(part) for part in parts) == noise
        assert len(parts) in spans


# ---- Which texts. ----


def test_without_probabilities_every_text_once_in_order():
    data = mixed()
    assert len(data) == 30 + len(data.streams[1])
    assert [data.place_of(index)[0] for index in range(len(data))] == [0] * 30 + [1] * len(data.streams[1])
    assert data.can_reuse_epoch_itr_across_epochs


def test_sampling_is_new_in_every_epoch_and_has_the_shares():
    data = mixed(np.array([0.25, 0.75]))
    total = len(data)
    drawn = []
    for epoch in (1, 2, 1):
        data.set_epoch(epoch)
        assert len(data) == total
        streams = np.array([data.place_of(index)[0] for index in range(total)])
        assert abs((streams == 0).sum() - 0.25 * total) < 1
        # Sorted, because the order of the sides of a pair is part of the noise.
        drawn.append(sorted(sorted(corruption.restored(*plain(data[index]))) for index in range(total)))
    assert drawn[0] == drawn[2] != drawn[1]
    assert not data.can_reuse_epoch_itr_across_epochs


def test_a_text_that_is_drawn_again_has_other_noise():
    data = corruption.dataset(
        [corruption.blocks([[*range(4, 20)]]), corruption.blocks([[5, 6]] * 40, 3)], np.array([1.0, 0.0])
    )
    assert len(data) == 41
    found = items(data)
    assert {tuple(corruption.restored(*item)) for item in found} == {(*range(4, 20), EOS)}
    assert len({tuple(source) for source, _ in found}) > 10


def test_repeated_items_are_the_same_texts_with_other_noise():
    data = mixed()
    total = len(data)
    rounds = [[plain(data.repeated(index, times)) for index in range(total)] for times in range(3)]
    assert rounds[0] == items(data)
    sides = [[sorted(corruption.restored(*item)) for item in found] for found in rounds]
    assert sides[0] == sides[1] == sides[2]
    for first, second in ((0, 1), (1, 2)):
        assert sum(a != b for a, b in zip(rounds[first], rounds[second])) > total // 2
    assert len(list(data)) == total
    for index in (-1, total):
        with pytest.raises(IndexError, match=f"index {index} of {total}"):
            data[index]


# ---- Lengths and batches. ----


@pytest.mark.parametrize("changes", [{}, {"mean_span": 1.0}, {"target_sentinels": False}])
@pytest.mark.parametrize("ratio", [0.15, 0.5, 0.9])
def test_lengths_are_bounds_and_are_reached(ratio, changes):
    rows = data_bins.sentences(60, 5, 1, 9)
    streams = [corruption.blocks(rows, 30, "none", ratio), corruption.pairs(*corruption.pair_rows(40), ratio=ratio)]
    data = corruption.dataset(streams, **changes)
    reached = 0
    for epoch in range(1, 9):
        data.set_epoch(epoch)
        for index in range(len(data)):
            source, target = plain(data[index])
            whole, longest = data.size(index)
            assert len(source) <= whole
            assert len(target) <= longest <= whole + 1
            assert max(len(source), len(target)) <= data.num_tokens(index) <= max(whole, longest)
            reached += max(len(source), len(target)) == data.num_tokens(index)
    assert reached > len(data) / 2
    assert data.sizes.tolist() == [list(data.size(index)) for index in range(len(data))]
    assert data.num_tokens_vec(np.arange(len(data))).tolist() == [data.num_tokens(i) for i in range(len(data))]


def test_texts_of_one_sentence_have_exact_lengths():
    data = corruption.dataset([corruption.blocks(data_bins.sentences(60, 5, 2, 19), 20, "eos", 0.4)])
    for index, (source, target) in enumerate(items(data)):
        assert max(len(source), len(target)) == data.num_tokens(index)
        assert len(target) == data.size(index)[1]


def test_order_is_by_length_and_shuffled_within():
    data = mixed(np.array([0.5, 0.5]))
    orders = []
    for epoch in (1, 2, 1):
        data.set_epoch(epoch)
        order = data.ordered_indices()
        assert sorted(order.tolist()) == list(range(len(data)))
        assert (np.diff(data.num_tokens_vec(order)) >= 0).all()
        orders.append(order.tolist())
    assert orders[0] == orders[2]
    single = corruption.dataset([corruption.blocks([[5, 6]] * 30, 3)])
    first = single.ordered_indices().tolist()
    single.set_epoch(2)
    assert first != single.ordered_indices().tolist()


def test_what_is_too_long_is_left_out():
    data = mixed()
    everything = np.arange(len(data))
    for limits in (12, (12, 13), (1000, 8), (1000, 1000)):
        source, target = limits if isinstance(limits, tuple) else (limits, limits)
        kept, ignored = data.filter_indices_by_size(everything, limits)
        expected = [index for index in everything if data.size(index)[0] <= source and data.size(index)[1] <= target]
        assert kept.tolist() == expected
        assert sorted([*kept, *ignored]) == everything.tolist()


def test_batches_are_those_of_a_translation_task():
    data = mixed()
    batch = data.collater([data[index] for index in (4, 0, 33)])
    lengths = batch["net_input"]["src_lengths"].tolist()
    assert lengths == sorted(lengths, reverse=True)
    assert sorted(batch["id"].tolist()) == [0, 4, 33]
    assert batch["nsentences"] == 3
    for row, index in enumerate(batch["id"].tolist()):
        source, target = plain(data[index])
        padding = [PAD] * (batch["net_input"]["src_tokens"].size(1) - len(source))
        assert batch["net_input"]["src_tokens"][row].tolist() == source + padding
        padding = [PAD] * (batch["target"].size(1) - len(target))
        assert batch["target"][row].tolist() == target + padding
        assert batch["net_input"]["prev_output_tokens"][row].tolist() == [EOS, *target[:-1]] + padding
    assert batch["ntokens"] == int(batch["target"].ne(PAD).sum())
    assert data.collater([]) == {}
