"""relevance_ranking: documents in training, whole queries otherwise, and grades that are numbers."""

import math

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from fairseq_plugins.understanding.inputs import InputFormat, InputOptions
from fairseq_plugins.understanding.ranking import QueryDataset, ndcg, xglue_ndcg
from tests import nlu_bins as builders
from tests.unit.common.making import maker

GRADES = ["2", "0", "10"]
ROWS = builders.random_ranking(9, 2, GRADES)
setup = maker("relevance_ranking", max_positions=20)


@pytest.fixture(scope="module")
def folder(path):
    for name in ("train.en", "train.de"):
        builders.write_ranking(path, name, ROWS, GRADES)
    return path


def batches(task, split, **limits):
    iterator = task.get_batch_iterator(task.dataset(split), max_positions=20, **limits)
    return list(iterator.next_epoch_itr(shuffle=False))


def test_validation_keeps_queries_whole(folder):
    task = setup(folder)
    task.load_dataset("train.en")
    found = batches(task, "train.en", max_tokens=150)
    assert len(found) > 1
    counts = np.unique([row[0] for row in ROWS], return_counts=True)[1]
    groups = np.concatenate([np.bincount(batch["group"]) for batch in found])
    assert sorted(groups) == sorted(counts)
    classes = {name: number for number, name in enumerate(GRADES)}
    assert sorted(np.concatenate([batch["target"] for batch in found])) == sorted(classes[row[3]] for row in ROWS)


def test_training_takes_documents_apart(folder):
    """So that a long query needs no large batch; several languages mix."""
    task = setup(folder)
    task.load_dataset("train.en,train.de", combine=True)
    found = batches(task, "train.en,train.de", max_sentences=2)
    assert {len(batch["target"]) for batch in found} <= {1, 2}
    assert sum(len(batch["target"]) for batch in found) == 2 * len(ROWS)
    assert all("group" not in batch for batch in found)


def test_other_symbols_and_bad_groups_are_refused(tmp_path):
    for grades in (["0", "good"], ["1.5", "0"], ["-1", "0"], ["1", "01"], ["2"], ["²", "0"]):
        builders.write_ranking(tmp_path, "train.en", [("q", "w1", "w2", grades[0])], grades)
        with pytest.raises(ValueError, match="label/dict.txt: grades .*; valid: two or more different whole numbers"):
            setup(tmp_path)
    builders.write_ranking(tmp_path, "test.en", [("q", "w1", "w2", "0")] * 3, ["1", "0"])
    with pytest.raises(ValueError, match="subset test.en: no document has a grade above 0"):
        setup(tmp_path).load_dataset("test.en")
    builders.write_ranking(tmp_path, "test.en", [("q", "w1", "w2", "1")] * 3, ["1", "0"])
    (tmp_path / "group" / "test.en.txt").write_text("q\nr\nq\n")
    with pytest.raises(ValueError, match="line 3 of group: query q again"):
        setup(tmp_path).load_dataset("test.en")
    (tmp_path / "group" / "test.en.txt").unlink()
    setup(tmp_path).load_dataset("test.en", combine=True)
    with pytest.raises(ValueError, match="subset test.en: no file .*group/test.en.txt with the query of each row"):
        setup(tmp_path).load_dataset("test.en")


# ---- Dataset. ----


QUERIES = ["b", "b", "b", "a", "c", "c"]
DOCUMENTS = [3, 5, 2, 9, 1, 4]


def dataset(queries, documents, max_positions=12):
    texts = [
        builders.Rows([10 + number, builders.EOS] for number in range(len(documents))),
        builders.Rows([20] * length + [builders.EOS] for length in documents),
    ]
    labels = np.arange(len(documents)) % 3
    options = InputOptions(InputFormat("bert", 0, 2), max_positions, builders.PAD, seed=1)
    return QueryDataset(texts, options, labels, queries)


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
    with pytest.raises(ValueError, match="group has 5 rows, input0 has 6 rows; valid: equal numbers"):
        dataset(QUERIES[:5], DOCUMENTS)


# ---- nDCG: by hand, and scikit-learn's. ----


def test_by_hand():
    """Grades in the order of the scores: 0, 3, 1."""
    gains = 7 / math.log2(3), 1 / 2
    assert ndcg([0.1, 0.9, 0.5], [1, 0, 3]) == pytest.approx(sum(gains) / (7 + 1 / math.log2(3)))
    assert (ndcg([1.0, 2.0], [0, 0]), ndcg([1.0], [2])) == (None, 1.0)


@pytest.mark.parametrize("k", [None, 1, 2, 4, 9])
def test_ties_are_the_mean_over_their_orders(k):
    rng = np.random.default_rng(7)
    for _ in range(25):
        documents = int(rng.integers(2, 6))
        scores, grades = rng.integers(0, 3, documents) / 3, rng.integers(0, 4, documents)
        found = ndcg(scores, grades, k)
        assert (found is None) == (not grades.any())
        if found is not None:
            assert found == pytest.approx(ndcg_score([2.0**grades - 1], [scores], k=k), rel=1e-12)


def test_xglues_rules_are_scikit_learns_on_predicted_grades():
    rng = np.random.default_rng(5)
    for _ in range(25):
        documents = int(rng.integers(2, 9))
        labels, grades = rng.integers(0, 5, documents), rng.integers(0, 5, documents)
        assert xglue_ndcg(labels, grades) == pytest.approx(ndcg_score([grades], [labels]), rel=1e-12)
    assert xglue_ndcg([1, 2], [0, 0]) == 0.0 == ndcg_score([[0, 0]], [[1, 2]])
    assert xglue_ndcg([1], [3]) is None
