"""XTREME's collection as its scripts leave it: prepared, trained, and predicted into its files."""

import json
import re

import pytest

from tests import nlu_bins
from tests.unit.recipes.test_scored import BARE, LABELLED, write, write_questions

from .commands import logged

TINY = """--arch nlu_encoder --encoder-family xlmr --encoder-layers 1 --encoder-embed-dim 16 --encoder-ffn-embed-dim 16
    --encoder-heads 2 --max-source-positions 80 --max-positions 80 --train-subset train.en --valid-subset valid.en --max-update 2"""
TASKS = {  # verb of data_prep, task, criterion
    "xnli": ("sentences", "cross_lingual_classification", "sentence_prediction"),
    "udpos": ("tags", "token_classification", "token_classification"),
    "xquad": ("questions", "span_qa", "span_qa"),
}


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """XTREME with two rows in each file, and the labels of the tests taken out."""
    folder = tmp_path_factory.mktemp("xtreme")
    write(folder, BARE)
    for task in ("xnli", "udpos"):
        (folder / task / "train-en.tsv").write_text(f"{LABELLED[task]}\n\n"[: -1 if task == "xnli" else None] * 2)
        for language in ("en", "de"):
            row = BARE[task] + ("\n" if task == "xnli" else "\ncat\n\n")
            (folder / task / f"test-{language}.tsv").write_text(row * 2)
    write_questions(folder / "squad/train-v1.1.json", "dog")
    return folder


@pytest.mark.parametrize("task", TASKS)
def test_bare_test_files_become_a_submission(collection, run_cli, train, decode, tmp_path, task):
    verb, name, criterion = TASKS[task]
    model, dictionary = nlu_bins.model_and_dictionary(tmp_path / "pieces")
    line = f"nlu {verb} {tmp_path / 'bin'} --layout xtreme-{task} --folder {collection} --sentencepiece {model}"
    run_cli("data_prep", *line.split(), "--dict", dictionary)
    options = f"--task {name} --criterion {criterion}"
    train(tmp_path / "bin", tmp_path / "run", f"{options} {TINY}")
    line = f"{options} --valid-subset valid.en,test.en,test.de --batch-size 4 --log-format json"
    output = tmp_path / "submission" / task
    more = ["--predictions", output, "--predictions-format", "xtreme"]
    done = decode(tmp_path / "bin", tmp_path / "run/checkpoint_last.pt", line, *more, command="validate")
    assert logged(done, "valid.en_loss") and not re.search(r'"test\.(en|de)_', done.stdout + done.stderr)
    ending = "json" if task == "xquad" else "tsv"
    names = {f"{split}.{ending}" for split in ("valid-en", "test-en", "test-de")}
    assert {file.name for file in output.iterdir()} == names
    text = (output / f"test-de.{ending}").read_text()
    if task == "xquad":
        assert list(json.loads(text)) == ["1"]
    elif task == "xnli":
        assert text == "neutral\n" * 2
    else:
        assert text == "DET\nDET\n\n" * 2, "a tag for each word, an empty line after each sentence"
