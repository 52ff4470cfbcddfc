"""CodeSwitchingDataset: what items hold, the share over a corpus, lengths, batches. The noise is compared in tests/reference."""

import numpy as np
import pytest
from torch.utils.data import DataLoader

from fairseq_plugins.data import csr_text
from fairseq_plugins.data.csr_dataset import COUNTS
from fairseq_plugins.data.csr_stages import Stages
from tests import csr_builders as csr
from tests.csr_builders import dictionary, sentences, texts_of

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


def test_chunks_are_seams_nowhere(monkeypatch):
    rows = {"en": sentences(SYMBOLS, "en", 15, 1), "de": sentences(SYMBOLS, "de", 15, 2)}
    whole, found = csr.build(rows, SYMBOLS, words=10)
    for size in (1, 150):
        monkeypatch.setattr(csr_text, "CHUNK", size)
        parts, again = csr.build(rows, SYMBOLS, words=10)
        assert again == found
        items = [[csr.plain(data[index]) for index in range(30)] for data in (whole, parts)]
        assert items[0] == items[1]
    for coverage, (language, text) in zip(found, rows.items()):
        words = [word for row in text for word in texts_of(row, SYMBOLS)]
        entries = csr.lexicon(language, "de" if language == "en" else "en", 10)
        assert (coverage.sentences, coverage.words) == (15, len(words))
        assert coverage.covered == sum(word in entries for word in words)
        assert coverage.counts == {word: words.count(word) for word in words}


def updates_of(batches, freq, skips, shards):
    """What fairseq's iterators make of an epoch: deal out, leave out the last, group."""
    each = -(-batches // shards) - int(skips)
    return each // freq if skips else -(-each // freq)


STAGES = [([1], 1, False), ([2], 1, False), ([3, 1, 2], 2, False), ([2], 3, True), ([1], 1, True)]


@pytest.mark.parametrize(("freq", "shards", "skips"), STAGES)
def test_the_first_stage_has_exactly_its_updates(freq, shards, skips):
    sizes = {epoch: (13, 22, 17)[epoch % 3] for epoch in range(1, 60)}
    for wanted in range(1, 60):
        stages = Stages(wanted, freq, shards, skips)
        done, epoch = 0, 1
        while True:
            batches = stages.batches(epoch, sizes.__getitem__)
            if batches is None:
                break
            assert 0 < batches <= sizes[epoch] and batches % shards == 0
            done += updates_of(batches, freq[min(epoch, len(freq)) - 1], skips, shards)
            epoch += 1
        assert done == wanted, wanted
        assert stages.batches(epoch + 5, sizes.__getitem__) is None
        assert stages.batches(max(epoch - 1, 1), sizes.__getitem__) is not None, "asked again, as after a resume"

    with pytest.raises(ValueError, match="--restore-updates 5: an epoch has 0 batches for each of 4"):
        Stages(5, [1], shards=4).batches(1, lambda epoch: 3)
