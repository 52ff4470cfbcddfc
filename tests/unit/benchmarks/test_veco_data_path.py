"""The benchmark of VECO's data gives every dataset the same segments and batches. No time is asserted."""

from pathlib import Path

from fairseq.data import Dictionary

from benchmarks.veco_data_path import LANGUAGE_PAIRS, MASKED_LM, OURS, cases, make_text, our_texts


def test_all_have_the_same_tokens(tmp_path: Path) -> None:
    make_text(tmp_path, 60, 40)
    ours = our_texts(str(tmp_path), "en-de", "en", 256)
    assert 60 < len(ours) < 90 and 0 < ours.first_pair
    batches = ours.batch_by_size(ours.ordered_indices(), max_tokens=600)
    calls = cases(tmp_path, ours, Dictionary.load(str(tmp_path / "dict.en.txt")))
    lengths = sum(stream.lengths.sum(axis=0) for stream in ours.streams)
    assert calls[OURS](batches) == calls[MASKED_LM](batches) == lengths.sum()
    assert calls[LANGUAGE_PAIRS](batches) == lengths[1] - len(ours), "y without <s>"
