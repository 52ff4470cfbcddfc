"""CodeSwitchingDataset: what items hold, noise from (seed, epoch, index) alone, the law over a corpus, batches."""

import numpy as np
import pytest
import torch
from fairseq.data.iterators import EpochBatchIterator
from torch.utils.data import DataLoader

from fairseq_plugins.data.csr_dataset import COUNTS, CodeSwitchingDataset
from tests import csr_builders as csr
from tests.csr_builders import dictionary, lexicon, piece_lexicon, plain, sentences, texts_of

SYMBOLS = dictionary()
PAD, EOS = SYMBOLS.pad(), SYMBOLS.eos()


def items(data):
    """Every item."""
    return [plain(data[index]) for index in range(len(data))]


# ---- What items hold. ----


def test_the_target_is_the_sentence_with_its_own_language():
    rows = {"en": sentences(SYMBOLS, "en", 5, 1), "de": sentences(SYMBOLS, "de", 3, 2)}
    data = csr.build(rows, SYMBOLS)[0]
    order = [("en", 0), ("de", 0), ("en", 1), ("de", 1), ("en", 2), ("de", 2), ("en", 3), ("en", 4)]
    assert len(data) == 8
    for index, (language, row) in enumerate(order):
        item, code = data[index], SYMBOLS.index(f"[{language}]")
        assert item["id"] == index
        assert item["target"].tolist() == [*rows[language][row], code]
        assert item["prev_output_tokens"].tolist() == [code, *rows[language][row]]
        assert item["source"].tolist()[-2:] == [EOS, code]
        assert all(item[side].dtype == torch.int64 for side in ("source", "target", "prev_output_tokens"))


def test_a_beginning_is_put_in_front():
    rows = {"en": sentences(SYMBOLS, "en", 20, 1), "de": sentences(SYMBOLS, "de", 20, 2)}
    with_begin, without = csr.build(rows, SYMBOLS, begin=0)[0], csr.build(rows, SYMBOLS)[0]
    for index in range(40):
        first, second = with_begin[index], without[index]
        assert first["source"].tolist() == [0, *second["source"].tolist()]
        assert first["target"].tolist() == [0, *second["target"].tolist()]
        assert first["prev_output_tokens"].tolist() == [second["target"][-1], 0, *second["target"].tolist()[:-1]]
    assert (with_begin.sizes == without.sizes + 1).all()


def test_every_replacement_is_an_entry_and_nothing_else_changes():
    data = csr.corpus(80, words=25)
    entries = {**lexicon("en", "de", 25), **lexicon("de", "en", 25)}
    used = set()
    for index in range(len(data)):
        item = data[index]
        before, after = texts_of(item["target"], SYMBOLS), texts_of(item["source"], SYMBOLS)
        assert len(before) == len(after) == item["words"]
        assert sum(word in entries for word in before) == item["covered"]
        changed = [(old, new) for old, new in zip(before, after) if old != new]
        assert all(new in entries[old] for old, new in changed)
        assert len(changed) == item["switched"]
        used.update(changed)
        # Punctuation, marks and the ends are those of the sentence.
        frame = [[t for t in item[side].tolist() if not texts_of([t], SYMBOLS)] for side in ("source", "target")]
        assert frame[0] == frame[1]
        marked = [[SYMBOLS[t][0] for t in item[side].tolist() if t > EOS + 1] for side in ("source", "target")]
        assert marked[0].count("▁") == marked[1].count("▁")
    assert len(used) > 0.8 * 2 * 25 * 3, "candidates of every rank"


def test_pieces_can_be_the_units():
    data = csr.corpus(40, by_piece=True)
    entries = {**piece_lexicon("en", "de"), **piece_lexicon("de", "en")}
    total = 0
    for item in map(data.__getitem__, range(80)):
        before, after = ([SYMBOLS[token] for token in item[side].tolist()] for side in ("target", "source"))
        assert item["words"] == len(before) - 2, "all but </s> and the language"
        assert item["covered"] == sum(piece in entries for piece in before)
        changed = [(old, new) for old, new in zip(before, after) if old != new]
        assert len(before) == len(after) and len(changed) == item["switched"]
        assert all(new in entries[old] for old, new in changed)
        total += len(changed)
    assert total > 300


def test_candidates_are_drawn_equally_often():
    rows = {"en": [[*row[:-1] * 40, EOS] for row in sentences(SYMBOLS, "en", 40, 1)], "de": [[EOS]]}
    data = csr.build(rows, SYMBOLS, ratio=1.0)[0]
    ranks = np.zeros(3, dtype=int)
    entries = lexicon("en", "de")
    for item in data.__getitems__(range(40)):
        for old, new in zip(texts_of(item["target"], SYMBOLS), texts_of(item["source"], SYMBOLS)):
            ranks[entries[old].index(new)] += 1
    assert ranks.sum() > 15000
    assert ((ranks - ranks.mean()) ** 2 / ranks.mean()).sum() < 13.8, "0.001 of 2 degrees of freedom"


# ---- The law. ----


def test_the_share_is_35_percent_of_the_words_of_a_corpus():
    data = csr.corpus(1500)
    found = {name: sum(item[name] for item in data.__getitems__(range(len(data)))) for name in COUNTS}
    assert found["words"] == found["covered"] > 30000
    assert abs(found["switched"] / found["words"] - 0.35) < 0.002


def test_fewer_entries_give_as_many_as_there_are():
    data = csr.corpus(200, words=6)
    for item in data.__getitems__(range(len(data))):
        whole, part = divmod(round(0.35 * item["words"], 9), 1)
        most = int(whole) + (part > 0)
        assert min(int(whole), item["covered"]) <= item["switched"] <= min(most, item["covered"])
    items = data.__getitems__(range(len(data)))
    shares = [
        sum(item[name] for item in items) / sum(item["words"] for item in items) for name in ("covered", "switched")
    ]
    assert shares[1] < shares[0] < 0.2


# ---- The same item always. ----


def test_an_item_depends_on_seed_epoch_and_index_only():
    data, again = csr.corpus(), csr.corpus()
    forward = items(data)
    np.random.seed(99)
    torch.manual_seed(99)
    assert [plain(again[index]) for index in reversed(range(len(again)))][::-1] == forward
    assert [plain(item) for item in again.__getitems__([5, 3, 90, 5])] == [forward[place] for place in (5, 3, 90, 5)]
    other_seed = items(csr.corpus(seed=2))
    data.set_epoch(2)
    other_epoch = items(data)
    targets = [[item[2] for item in items] for items in (forward, other_seed, other_epoch)]
    assert targets[0] == targets[1] == targets[2]
    for other in (other_seed, other_epoch):
        assert sum(left[1] != right[1] for left, right in zip(forward, other)) > 90
    data.set_epoch(1)
    assert items(data) == forward


def test_workers_and_resumed_processes_draw_the_same_noise():
    """Through fairseq's iterator: 0, 1 and 4 workers, other batches, and a process that begins inside epoch 3."""
    found = {}
    for workers, size in ((0, 7), (1, 7), (4, 7), (0, 3)):
        data = csr.corpus(30)
        data.set_epoch(3)
        batches = data.batch_by_size(data.ordered_indices(), max_sentences=size)
        iterator = EpochBatchIterator(data, list, batches, num_workers=workers, epoch=3)
        found[workers, size] = {item["id"]: plain(item) for batch in iterator.next_epoch_itr() for item in batch}
    assert len(found[0, 7]) == 60
    assert all(value == found[0, 7] for value in found.values())

    data = csr.corpus(30)
    for epoch in (1, 2, 3):
        data.set_epoch(epoch)
    assert {item[0]: item for item in items(data)} == found[0, 7]


def test_torchs_loader_asks_for_whole_batches(monkeypatch):
    asked = []
    stock = CodeSwitchingDataset.__getitems__
    monkeypatch.setattr(
        CodeSwitchingDataset, "__getitems__", lambda self, rows: asked.append(len(rows)) or stock(self, rows)
    )
    data = csr.corpus(8)
    list(DataLoader(data, batch_sampler=[[0, 3, 5], [1, 2]], collate_fn=data.collater))
    assert asked == [3, 2]
    with pytest.raises(IndexError, match="index 16 of 16"):
        data[16]
    assert data.__getitems__([]) == [] and data.collater([]) == {}


# ---- Batches. ----


def test_a_batch_is_stocks_with_counts():
    data = csr.corpus(8)
    batch = data.collater(data.__getitems__([0, 1, 2]))
    rows = {item["id"]: item for item in map(data.__getitem__, range(3))}
    for place, number in enumerate(batch["id"].tolist()):
        source, target = rows[number]["source"].tolist(), rows[number]["target"].tolist()
        assert (
            batch["net_input"]["src_tokens"][place].tolist()
            == [PAD] * (len(batch["net_input"]["src_tokens"][0]) - len(source)) + source
        )
        padding = [PAD] * (len(batch["target"][0]) - len(target))
        assert batch["target"][place].tolist() == target + padding
        assert batch["net_input"]["prev_output_tokens"][place].tolist() == [target[-1], *target[:-1], *padding]
    assert batch["ntokens"] == sum(len(item["target"]) for item in rows.values())
    assert batch["switching"] == {name: sum(item[name] for item in rows.values()) for name in COUNTS}
    data.left_pad_source, data.left_pad_target = False, True
    batch = data.collater(data.__getitems__([0, 1, 2]))
    assert (batch["net_input"]["src_tokens"][-1, 0] != PAD) and (batch["net_input"]["src_tokens"][-1, -1] == PAD)
    assert (batch["target"][:, 0] == PAD).any() and (batch["target"][:, -1] != PAD).all()


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


def test_positions_are_limited_by_what_a_sentence_can_become():
    data = csr.corpus(60)
    kept, ignored = data.filter_indices_by_size(np.arange(len(data)), (25, 1000))
    assert kept.tolist() == np.flatnonzero(data.sizes <= 25).tolist() and len(ignored) + len(kept) == len(data)
    kept, _ = data.filter_indices_by_size(np.arange(len(data)), (1000, 25))
    assert kept.tolist() == np.flatnonzero(data.lengths <= 25).tolist()


def test_epochs_have_other_orders_and_as_many_batches():
    data = csr.corpus(100)
    orders, counts = [], []
    for epoch in range(1, 8):
        data.set_epoch(epoch)
        order = data.ordered_indices()
        assert sorted(order.tolist()) == list(range(200)) and (np.diff(data.lengths[order]) >= 0).all()
        orders.append(order.tolist())
        batches = data.batch_by_size(order, max_tokens=120)
        assert all(len(batch) * data.sizes[batch].max() <= 120 for batch in batches)
        counts.append(len(batches))
    assert len(set(map(tuple, orders))) == 7 and len(set(counts)) == 1
    assert not data.can_reuse_epoch_itr_across_epochs


def test_an_epoch_can_be_cut_at_random():
    data = csr.corpus(100)
    every = [batch.tolist() for batch in data.batch_by_size(data.ordered_indices(), max_sentences=5)]
    data.most_batches = 15
    cut = [batch.tolist() for batch in data.batch_by_size(data.ordered_indices(), max_sentences=5)]
    assert len(cut) == 15 and all(batch in every for batch in cut)
    places = [every.index(batch) for batch in cut]
    assert places == sorted(set(places)) and max(places) - min(places) > 20, "short and long ones"
    data.most_batches = 40
    assert [batch.tolist() for batch in data.batch_by_size(data.ordered_indices(), max_sentences=5)] == every
