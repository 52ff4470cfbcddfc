"""Test relevance_ranking: batches of documents and queries, refused data, nDCG."""

import math

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from fairseq_plugins.understanding.inputs import InputFormat, InputOptions
from fairseq_plugins.understanding.ranking import QueryDataset, ndcg, xglue_ndcg
from tests import nlu_bins
from tests.unit.common.making import maker

GRADES = ["2", "0", "10"]
ROWS = nlu_bins.random_ranking(9, 2, GRADES)
make_task = maker("relevance_ranking", max_positions=20)


def batches(task, split, **limits):
    iterator = task.get_batch_iterator(task.dataset(split), max_positions=20, **limits)
    return list(iterator.next_epoch_itr(shuffle=False))


def test_validation_keeps_queries_together_and_training_does_not(path):
    for name in ("train.en", "train.de"):
        nlu_bins.write_ranking(path, name, ROWS, GRADES)
    task = make_task(path)
    task.load_dataset("train.en")
    queries = batches(task, "train.en", max_tokens=150)
    assert len(queries) > 1
    counts = np.unique([row[0] for row in ROWS], return_counts=True)[1]
    groups = np.concatenate([np.bincount(batch["group"]) for batch in queries])
    assert sorted(groups) == sorted(counts)
    targets = np.concatenate([batch["target"] for batch in queries])
    assert sorted(targets) == sorted(GRADES.index(grade) for *_, grade in ROWS)

    task.load_dataset("train.en,train.de", combine=True)
    documents = batches(task, "train.en,train.de", max_sentences=2)
    sizes = [len(batch["target"]) for batch in documents]
    assert set(sizes) <= {1, 2} and sum(sizes) == 2 * len(ROWS)
    assert all("group" not in batch for batch in documents)


@pytest.mark.parametrize(
    "grades",
    [["0", "good"], ["1.5", "0"], ["-1", "0"], ["1", "01"], ["2"], ["²", "0"]],
    ids=" ".join,
)
def test_grades_must_be_different_whole_numbers(tmp_path, grades):
    nlu_bins.write_ranking(tmp_path, "train.en", [("q", "w1", "w2", grades[0])], grades)
    with pytest.raises(ValueError, match="label/dict.txt: grades"):
        make_task(tmp_path)


def test_subsets_without_relevant_documents_or_queries_are_refused(tmp_path):
    nlu_bins.write_ranking(tmp_path, "test.en", [("q", "w1", "w2", "0")] * 3, ["1", "0"])
    with pytest.raises(ValueError, match="subset test.en: no document has a grade above 0"):
        make_task(tmp_path).load_dataset("test.en")
    nlu_bins.write_ranking(tmp_path, "test.en", [("q", "w1", "w2", "1")] * 3, ["1", "0"])
    (tmp_path / "group" / "test.en.txt").write_text("q\nr\nq\n")
    with pytest.raises(ValueError, match="line 3 of group: query q again"):
        make_task(tmp_path).load_dataset("test.en")
    (tmp_path / "group" / "test.en.txt").unlink()
    make_task(tmp_path).load_dataset("test.en", combine=True)  # training needs no queries
    with pytest.raises(ValueError, match="subset test.en: no file .*group/test.en.txt"):
        make_task(tmp_path).load_dataset("test.en")


# ---- Dataset of queries. ----


QUERIES = ["b", "b", "b", "a", "c", "c"]
DOCUMENTS = [3, 5, 2, 9, 1, 4]


def query_dataset(queries, lengths, max_positions=12):
    """Queries of one piece and documents of these lengths; the classes are 0, 1, 2 in turn."""
    texts = [
        nlu_bins.Rows([10 + number, nlu_bins.EOS] for number in range(len(lengths))),
        nlu_bins.Rows([20] * length + [nlu_bins.EOS] for length in lengths),
    ]
    labels = np.arange(len(lengths)) % 3
    options = InputOptions(InputFormat("bert", 0, 2), max_positions, nlu_bins.PAD, seed=1)
    return QueryDataset(texts, options, labels, queries)


def test_an_item_is_a_query_with_all_its_documents():
    data = query_dataset(QUERIES, DOCUMENTS)
    items = [data[index]["rows"] for index in range(len(data))]
    first_pieces = [[row["tokens"][1] for row in rows] for rows in items]
    assert first_pieces == [[10, 11, 12], [13], [14, 15]]
    assert [[row["target"] for row in rows] for rows in items] == [[0, 1, 2], [0], [1, 2]]
    assert data.sizes.tolist() == [3 * 9, 12, 2 * 8], "documents times the longest"
    assert (data.longest, data.cut_rows, data.cut_tokens) == (12, 1, 1)


def test_batches_hold_documents_of_similar_length():
    """Queries with one long document and with many short ones have the same size."""
    queries = ["a", *"bbbb", "c", *"dddd"]
    data = query_dataset(queries, [32, 5, 5, 5, 5, 32, 5, 5, 5, 5], max_positions=40)
    assert set(data.sizes.tolist()) == {36}
    order = data.ordered_indices()
    assert sorted(order.tolist()) == [0, 1, 2, 3]
    assert [set(batch) for batch in data.batch_by_size(order, max_tokens=72)] == [{1, 3}, {0, 2}]


def test_there_is_a_query_for_each_row():
    with pytest.raises(ValueError, match="group has 5 rows, input0 has 6 rows"):
        query_dataset(QUERIES[:5], DOCUMENTS)


# ---- nDCG by hand and by scikit-learn. ----


def test_ndcg_by_hand():
    """The grades in the order of the scores are 0, 3, 1."""
    gain, best_gain = 7 / math.log2(3) + 1 / 2, 7 + 1 / math.log2(3)
    assert ndcg([0.1, 0.9, 0.5], [1, 0, 3]) == pytest.approx(gain / best_gain)
    assert (ndcg([1.0, 2.0], [0, 0]), ndcg([1.0], [2])) == (None, 1.0)


@pytest.mark.parametrize("k", [None, 1, 4, 9])
def test_ndcg_with_ties_equals_scikit_learn(k):
    rng = np.random.default_rng(7)
    for _ in range(25):
        documents = int(rng.integers(2, 6))
        scores, grades = rng.integers(0, 3, documents) / 3, rng.integers(0, 4, documents)
        expected = None
        if grades.any():
            expected = pytest.approx(ndcg_score([2.0**grades - 1], [scores], k=k), rel=1e-12)
        assert ndcg(scores, grades, k) == expected


def test_xglue_ndcg_equals_scikit_learn_on_predicted_grades():
    rng = np.random.default_rng(5)
    for _ in range(25):
        documents = int(rng.integers(2, 9))
        labels, grades = rng.integers(0, 5, documents), rng.integers(0, 5, documents)
        expected = ndcg_score([grades], [labels])
        assert xglue_ndcg(labels, grades) == pytest.approx(expected, rel=1e-12)
    assert xglue_ndcg([1, 2], [0, 0]) == 0.0 == ndcg_score([[0, 0]], [[1, 2]])
    assert xglue_ndcg([1], [3]) is None
