"""What a study of a collection scores and predicts, by the test files that are there."""

import json

import pytest

from examples.recipes.runs import Runs
from examples.recipes.scored import has_labels
from examples.recipes.studies import STUDIES, read_study
from tests.conftest import ROOT
from tests.unit.recipes.test_studies import options_of

LABELLED = {
    "xnli": 'a\t"b ""c"""\tneutral',
    "pawsx": "a\tb\t1",
    "panx": "New York\tB-LOC",
    "udpos": "the DET",
}
BARE = {"xnli": "a\tb", "pawsx": 'a\t"b\t c"', "panx": "York", "udpos": "the"}


def write_questions(path, answer):
    path.parent.mkdir(parents=True, exist_ok=True)
    question = {"id": "1", "question": "q?", "answers": [{"answer_start": 0, "text": answer}]}
    document = {"paragraphs": [{"context": "dog", "qas": [question]}]}
    path.write_text(json.dumps({"version": "1", "data": [document]}))


def write(folder, rows):
    """Write the test and dev files of XTREME in two languages; SQuAD's dev has English alone."""
    for task, row in rows.items():
        (folder / task).mkdir()
        for language in ("en", "de"):
            (folder / task / f"test-{language}.tsv").write_text(f"{row}\n")
            (folder / task / f"dev-{language}.tsv").write_text(f"{LABELLED[task]}\n")
    for language in ("en", "de"):
        write_questions(folder / f"xquad/xquad.{language}.json", "dog" if rows is LABELLED else "")
    write_questions(folder / "squad/dev-v1.1.json", "dog")


def subsets_of(folder, task, arm="transfer"):
    runs = Runs(read_study(STUDIES / "xtreme.yaml"), ROOT, str(folder), {})
    (job,) = [job for job in runs.study.final() if (job.pair, job.arm.name) == (task, arm)]
    return runs, options_of(runs.output(job, "test"))


@pytest.mark.parametrize("task", [*LABELLED, "xquad"])
def test_labelled_tests_are_scored_and_others_predicted(tmp_path, task):
    for name, rows in (("labelled", LABELLED), ("bare", BARE)):
        (tmp_path / name).mkdir()
        write(tmp_path / name, rows)
    runs, options = subsets_of(tmp_path / "labelled", task)
    assert options["--valid-subset"] == "test.en,test.de"
    assert options["--predictions"] == f"predictions/transfer-0/seed1/{task}"
    assert options["--predictions-format"] == "xtreme"
    (note,) = [note for note in runs.scored if note.startswith(f"xtreme_{task}: ")]
    assert ": scored on test; 2 of " in note and "no file of " in note
    runs, options = subsets_of(tmp_path / "bare", task)
    valid = "valid.en" if task == "xquad" else "valid.en,valid.de"
    assert options["--valid-subset"] == f"{valid},test.en,test.de"
    assert any("scored on valid, for test files have no labels" in note for note in runs.scored)


def test_one_test_file_without_labels_decides_for_all(tmp_path):
    write(tmp_path, LABELLED)
    (tmp_path / "xnli/test-de.tsv").write_text("a\tb\n")
    _, options = subsets_of(tmp_path, "xnli", "translate-train-all")
    assert options["--valid-subset"] == "valid.en,valid.de,test.en,test.de"


def test_without_files_all_languages_are_named(tmp_path):
    runs, options = subsets_of(tmp_path, "panx")
    assert len(options["--valid-subset"].split(",")) == 40
    assert "xtreme_panx: scored on test" in runs.scored
    assert not any("xglue" in note for note in runs.scored), "of other studies"
    assert has_labels(tmp_path / "missing", 3)
