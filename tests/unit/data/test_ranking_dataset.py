"""Queries with their documents: none is torn apart, and sizes say what a batch needs."""

import numpy as np
import pytest
import torch

from fairseq_plugins.data.nlu_inputs import InputFormat
from fairseq_plugins.data.ranking_dataset import QueryDataset
from tests import nlu_bins as builders

QUERIES = ["b", "b", "b", "a", "c", "c"]
DOCUMENTS = [3, 5, 2, 9, 1, 4]


def dataset(queries, documents, max_positions=12):
    texts = [
        [torch.tensor([10 + number, builders.EOS]) for number in range(len(documents))],
        [torch.tensor([20] * length + [builders.EOS]) for length in documents],
    ]
    labels = np.arange(len(documents)) % 3
    layout = dict(max_positions=max_positions, pad=builders.PAD, seed=1)
    sizes = [np.array([len(row) for row in text]) for text in texts]
    return QueryDataset(texts, sizes, InputFormat("bert", 0, 2), labels=labels, queries=queries, **layout)


def test_an_item_is_a_query_with_all_its_documents():
    found = dataset(QUERIES, DOCUMENTS)
    items = [found[index]["rows"] for index in range(len(found))]
    assert [[row["tokens"][1] for row in rows] for rows in items] == [[10, 11, 12], [13], [14, 15]]
    assert [[row["target"] for row in rows] for rows in items] == [[0, 1, 2], [0], [1, 2]]
    assert found.sizes.tolist() == [3 * 9, 12, 2 * 8], "documents x the longest"
    assert (found.longest, found.cut_rows, found.cut_tokens) == (12, 1, 1)


def test_batches_hold_documents_of_like_length():
    """Two queries of equal size: one long document, many short ones; beside each other a batch would be mostly padding."""
    queries = ["a", *"bbbb", "c", *"dddd"]
    found = dataset(queries, [32, 5, 5, 5, 5, 32, 5, 5, 5, 5], max_positions=40)
    assert set(found.sizes.tolist()) == {36}
    assert [set(batch) for batch in found.batch_by_size(found.ordered_indices(), max_tokens=72)] == [{1, 3}, {0, 2}]
    assert sorted(found.ordered_indices().tolist()) == [0, 1, 2, 3]


def test_queries_must_be_adjacent_and_as_many_as_rows():
    with pytest.raises(ValueError, match="line 5 of group: query b again; valid: its rows are adjacent"):
        dataset(["b", "b", "a", "c", "b"], DOCUMENTS[:5])
    with pytest.raises(ValueError, match="group has 5 lines, input0 6 rows; valid: as many"):
        dataset(QUERIES[:5], DOCUMENTS)
