"""The benchmark of code-switching restore gives both datasets the same sentences and batches. No time is asserted."""

import argparse
from pathlib import Path

from benchmarks.csr_data_path import compare, made_sentences, render, run, stock_pairs
from tests import csr_bins


def test_both_have_the_same_sentences(tmp_path: Path) -> None:
    restore = made_sentences(20, 40)
    stock = stock_pairs(tmp_path, restore)
    assert len(stock) == len(restore) == 40
    for item in range(40):
        wanted = restore[item]["target"].tolist()
        assert stock[item]["source"].tolist()[:-1] == stock[item]["target"].tolist()[:-1] == wanted[:-1]
        assert len(stock[item]["target"]) == len(wanted)
        assert restore[item]["covered"] == restore[item]["words"] and restore[item]["switched"] > 0
    batches = restore.batch_by_size(restore.ordered_indices(), max_tokens=300)
    assert run(stock, batches) == run(restore, batches) == restore.lengths.sum()


def test_a_table_of_made_and_of_read_sentences(tmp_path: Path) -> None:
    made = csr_bins.write(tmp_path, (12, 2, 2))
    options = argparse.Namespace(data=None, rows=12, vocab=40, max_tokens=[200, 400], rounds=1)
    assert render({"results": compare(options)}).count("1.00 (1.00 to 1.00)") == 2
    options = argparse.Namespace(
        data=str(made.data),
        pair="en-de",
        langs="en,de",
        lexicon=str(made.lexicon),
        sentencepiece_model=str(made.model),
        max_tokens=[200],
        rounds=1,
    )
    results = compare(options)
    assert [row["sentences"] for row in results] == [24, 24]
