"""The benchmark of code-switching restore gives both datasets the same sentences and batches. No time is asserted."""

from pathlib import Path

from benchmarks.csr_data_path import made_sentences, run, stock_pairs


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
