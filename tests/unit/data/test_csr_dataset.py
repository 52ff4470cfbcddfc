"""CodeSwitchingDataset: what items hold, the share over a corpus, lengths, batches. The noise is compared in tests/reference."""

import numpy as np
import pytest
from torch.utils.data import DataLoader

from fairseq_plugins.data.csr_dataset import COUNTS
from tests import csr_builders as csr
from tests.csr_builders import dictionary, sentences

SYMBOLS = dictionary()
PAD, EOS = SYMBOLS.pad(), SYMBOLS.eos()


@pytest.mark.parametrize("begin", [None, 0])
def test_the_target_is_the_sentence_with_its_own_language(begin):
    rows = {"en": sentences(SYMBOLS, "en", 5, 1), "de": sentences(SYMBOLS, "de", 3, 2)}
    data, without = csr.build(rows, SYMBOLS, begin=begin)[0], csr.build(rows, SYMBOLS)[0]
    ahead = [] if begin is None else [begin]
    order = [("en", 0), ("de", 0), ("en", 1), ("de", 1), ("en", 2), ("de", 2), ("en", 3), ("en", 4)]
    assert len(data) == 8 and (data.sizes == without.sizes + len(ahead)).all()
    for index, (language, row) in enumerate(order):
        item, code = data[index], SYMBOLS.index(f"[{language}]")
        assert item["id"] == index
        assert item["target"].tolist() == [*ahead, *rows[language][row], code]
        assert item["prev_output_tokens"].tolist() == [code, *ahead, *rows[language][row]]
        assert item["source"].tolist() == [*ahead, *without[index]["source"].tolist()]
        assert item["source"].tolist()[-2:] == [EOS, code]
    with pytest.raises(IndexError, match="index 8 of 8"):
        data[8]


@pytest.mark.parametrize("left", [True, False])
def test_batches_are_drawn_at_once_and_hold_counts(left):
    data = csr.corpus(8)
    data.left_pad_source, data.left_pad_target = left, not left
    (batch,) = DataLoader(data, batch_sampler=[[0, 1, 2]], collate_fn=data.collater)
    inputs, rows = batch["net_input"], [data[number] for number in batch["id"].tolist()]

    def padded(side, width, before):
        padding = [PAD] * (width - len(side))
        return padding + side if before else side + padding

    for place, item in enumerate(rows):
        for found, side, before in (
            (inputs["src_tokens"], item["source"], left),
            (batch["target"], item["target"], not left),
            (inputs["prev_output_tokens"], item["target"].roll(1), not left),
        ):
            assert found[place].tolist() == padded(side.tolist(), found.size(1), before)
    assert batch["switching"] == {name: sum(item[name] for item in rows) for name in COUNTS}
    assert data.__getitems__([]) == [] and data.collater([]) == {}


def test_lengths_hold_whatever_is_drawn():
    data = csr.corpus(60, words=30)
    longest = np.zeros(len(data), dtype=int)
    for epoch in range(1, 60):
        data.set_epoch(epoch)
        drawn = data.__getitems__(range(len(data)))
        longest = np.maximum(longest, [len(item["source"]) for item in drawn])
        assert data.lengths.tolist() == [len(item["target"]) for item in drawn]
    assert (longest <= data.sizes).all() and (data.lengths <= data.sizes).all()
    assert (longest == data.sizes).mean() > 0.1, "and are no larger than they need to be"
    assert data.num_tokens(3) == data.sizes[3] and data.size(3) == (data.sizes[3], data.lengths[3])


def test_every_epoch_has_as_many_batches_and_can_be_cut_at_random():
    data = csr.corpus(100)
    counts = set()
    for epoch in range(1, 8):
        data.set_epoch(epoch)
        batches = data.batch_by_size(data.ordered_indices(), max_tokens=120)
        assert all(len(batch) * data.sizes[batch].max() <= 120 for batch in batches)
        counts.add(len(batches))
    assert len(counts) == 1
    every = [batch.tolist() for batch in data.batch_by_size(data.ordered_indices(), max_sentences=5)]
    for data.most_batches in (15, 40):
        cut = [batch.tolist() for batch in data.batch_by_size(data.ordered_indices(), max_sentences=5)]
        places = [every.index(batch) for batch in cut]
        assert len(cut) == data.most_batches and places == sorted(set(places))
        assert max(places) - min(places) > 20, "short and long ones"
