"""relevance_ranking: documents in training, whole queries otherwise, and grades that are numbers."""

import numpy as np
import pytest

from tests import nlu_bins as builders
from tests.unit.tasks.making import maker

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
