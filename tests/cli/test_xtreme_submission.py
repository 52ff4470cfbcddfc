"""Test XTREME's collection from its files to a submission: preparation, training, prediction."""

import json

import pytest

from tests import nlu_bins
from tests.unit.recipes.test_scored import BARE, LABELLED, write, write_questions

from .commands import logged, output_of

TINY = """--arch nlu_encoder --encoder-family xlmr --encoder-layers 1 --encoder-embed-dim 16
    --encoder-ffn-embed-dim 16 --encoder-heads 2 --max-source-positions 80 --max-positions 80
    --train-subset train.en --valid-subset valid.en --max-update 2"""
TASKS = {  # verb of data_prep, task, criterion
    "xnli": ("sentences", "cross_lingual_classification", "sentence_prediction"),
    "udpos": ("tags", "token_classification", "token_classification"),
    "xquad": ("questions", "span_qa", "span_qa"),
}


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """Write XTREME with two rows per file, without the labels of its test sets."""
    folder = tmp_path_factory.mktemp("xtreme")
    write(folder, BARE)
    (folder / "xnli" / "train-en.tsv").write_text(f"{LABELLED['xnli']}\n" * 2)
    (folder / "udpos" / "train-en.tsv").write_text(f"{LABELLED['udpos']}\n\n" * 2)
    for language in ("en", "de"):
        (folder / "xnli" / f"test-{language}.tsv").write_text(f"{BARE['xnli']}\n" * 2)
        (folder / "udpos" / f"test-{language}.tsv").write_text(f"{BARE['udpos']}\ncat\n\n" * 2)
    write_questions(folder / "squad/train-v1.1.json", "dog")
    return folder


@pytest.mark.parametrize("task", TASKS)
def test_unlabelled_test_files_become_a_submission(
    collection, run_cli, train, decode, tmp_path, task
):
    verb, name, criterion = TASKS[task]
    data, run, output = tmp_path / "bin", tmp_path / "run", tmp_path / "submission" / task
    model, dictionary = nlu_bins.model_and_dictionary(tmp_path / "pieces")
    line = f"""nlu {verb} {data} --layout xtreme-{task} --folder {collection}
        --sentencepiece {model} --dict {dictionary}"""
    run_cli("data_prep", *line.split())
    options = f"--task {name} --criterion {criterion}"
    train(data, run, f"{options} {TINY}")
    line = f"""{options} --valid-subset valid.en,test.en,test.de --batch-size 4
        --log-format json --predictions {output} --predictions-format xtreme"""
    process = decode(data, run / "checkpoint_last.pt", line, command="validate")
    assert logged(process, "valid.en_loss")
    for language in ("en", "de"):
        assert f'"test.{language}_' not in output_of(process)

    ending = "json" if task == "xquad" else "tsv"
    names = {f"{split}.{ending}" for split in ("valid-en", "test-en", "test-de")}
    assert {file.name for file in output.iterdir()} == names
    text = (output / f"test-de.{ending}").read_text()
    if task == "xquad":
        assert list(json.loads(text)) == ["1"]
    elif task == "xnli":
        assert text == "neutral\n" * 2
    else:
        assert text == "DET\nDET\n\n" * 2, "a tag per word, an empty line after each sentence"
