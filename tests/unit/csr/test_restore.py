"""Test CodeSwitchingDataset: items, batches, lengths. ``tests/reference`` compares the noise."""

import numpy as np
import pytest
from torch.utils.data import DataLoader

from fairseq_plugins.csr.restore import COUNTS
from tests import csr_builders as csr
from tests.csr_builders import dictionary, sentences

SYMBOLS = dictionary()
PAD, EOS = SYMBOLS.pad(), SYMBOLS.eos()


@pytest.mark.parametrize("bos", [None, 0])
def test_the_target_is_the_sentence_with_its_own_language(bos):
    rows = {"en": sentences(SYMBOLS, "en", 5, 1), "de": sentences(SYMBOLS, "de", 3, 2)}
    data, without = csr.build(rows, SYMBOLS, bos=bos), csr.build(rows, SYMBOLS)
    ahead = [] if bos is None else [bos]
    order = ["en 0", "de 0", "en 1", "de 1", "en 2", "de 2", "en 3", "en 4"]
    assert len(data) == 8 and (data.sizes == without.sizes + len(ahead)).all()
    for index, place in enumerate(order):
        language, number = place.split()
        row, tag = rows[language][int(number)], SYMBOLS.index(f"[{language}]")
        item = data[index]
        assert item["id"] == index
        assert item["target"].tolist() == [*ahead, *row, tag]
        assert item["prev_output_tokens"].tolist() == [tag, *ahead, *row]
        assert item["source"].tolist() == [*ahead, *without[index]["source"].tolist()]
        assert item["source"].tolist()[-2:] == [EOS, tag]
    with pytest.raises(IndexError, match="index 8 of 8"):
        data[8]


@pytest.mark.parametrize("left_pad_source", [True, False])
def test_batches_are_padded_and_hold_counts(left_pad_source):
    data = csr.corpus(8)
    data.left_pad_source, data.left_pad_target = left_pad_source, not left_pad_source
    (batch,) = DataLoader(data, batch_sampler=[[0, 1, 2]], collate_fn=data.collater)
    inputs, rows = batch["net_input"], [data[number] for number in batch["id"].tolist()]

    for place, item in enumerate(rows):
        for matrix, side, left_pad in (
            (inputs["src_tokens"], item["source"], left_pad_source),
            (batch["target"], item["target"], not left_pad_source),
            (inputs["prev_output_tokens"], item["target"].roll(1), not left_pad_source),
        ):
            padding = [PAD] * (matrix.size(1) - len(side))
            row = [*padding, *side.tolist()] if left_pad else [*side.tolist(), *padding]
            assert matrix[place].tolist() == row
    assert batch["switching"] == {name: sum(item[name] for item in rows) for name in COUNTS}
    assert data.__getitems__([]) == [] and data.collater([]) == {}


def test_items_are_described_as_text():
    data = csr.corpus(8, ratio=0.8)
    items = data.__getitems__([4, 1])
    lines = data.describe([4, 1]).splitlines()
    for item, (title, source, target, words) in zip(items, (lines[:4], lines[4:])):
        counts = "{switched} of {words} words replaced, {covered} have an entry".format(**item)
        tag = ("[en]", "[de]")[item["id"] % 2]
        assert title == f"{item['id']} {tag}: {counts}"
        for line, side in ((source, "source"), (target, "target")):
            text = SYMBOLS.string(item[side][:-1], "sentencepiece")
            assert line.split() == [side, *text.split()]
        swaps = [swap.split(" -> ") for swap in words.replace("  words   ", "").split(", ")]
        assert len(swaps) == item["switched"] > 0
        for old, new in swaps:
            target = target.replace(old, new, 1)
        assert target.split()[1:] == source.split()[1:]


def test_lengths_are_bounds_and_are_reached():
    data = csr.corpus(60, words=30)
    longest = np.zeros(len(data), dtype=int)
    for epoch in range(1, 60):
        data.set_epoch(epoch)
        items = data.__getitems__(range(len(data)))
        longest = np.maximum(longest, [len(item["source"]) for item in items])
        assert data.lengths.tolist() == [len(item["target"]) for item in items]
    assert (longest <= data.sizes).all() and (data.lengths <= data.sizes).all()
    assert (longest == data.sizes).mean() > 0.1, "and are no larger than they need to be"
    assert data.num_tokens(3) == data.sizes[3] and data.size(3) == (data.sizes[3], data.lengths[3])


def test_every_epoch_has_the_same_number_of_batches_and_a_random_part_of_them():
    data = csr.corpus(100)
    counts = set()
    for epoch in range(1, 8):
        data.set_epoch(epoch)
        batches = data.batch_by_size(data.ordered_indices(), max_tokens=120)
        assert all(len(batch) * data.sizes[batch].max() <= 120 for batch in batches)
        counts.add(len(batches))
    assert len(counts) == 1

    def make_batches():
        batches = data.batch_by_size(data.ordered_indices(), max_sentences=5)
        return [batch.tolist() for batch in batches]

    batches = make_batches()
    for data.most_batches in (15, 40):
        places = [batches.index(batch) for batch in make_batches()]
        assert len(places) == data.most_batches and places == sorted(set(places))
        assert max(places) - min(places) > 20, "short and long ones"
