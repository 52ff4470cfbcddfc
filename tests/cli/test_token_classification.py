"""Tagging with the stock commands: two processes train in two languages, one validates in others; scores by a slow loop."""

import sys
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils

from tests import nlu_bins
from tests.reference import span_loops

from .commands import checkpoint, logged

LIMIT = 11  # --max-positions: some sentences lose words
TASK = "--task token_classification --cpu --log-format json --num-workers 0"
TRAINING = f"""{TASK} --criterion token_classification --arch nlu_encoder --encoder-family xlmr --encoder-layers 1 --dropout 0
    --encoder-embed-dim 16 --encoder-ffn-embed-dim 16 --encoder-heads 2 --max-positions {LIMIT} --optimizer adam --lr 0.01
    --batch-size 8 --seed 3 --train-subset train.en,train.de --valid-subset valid.en,valid.de --max-epoch 4
    --no-epoch-checkpoints --best-checkpoint-metric f1 --maximize-best-checkpoint-metric --sampling-temperature 2"""
SETS = {
    "train.en": nlu_bins.tagged_sentences(80, 1),
    "train.de": nlu_bins.tagged_sentences(24, 2, shift=5),
    "valid.en": nlu_bins.tagged_sentences(30, 3),
    "valid.de": nlu_bins.tagged_sentences(20, 4, shift=5),
    "test.fr": [
        [(pieces, None if tag == "B-LOC" else tag) for pieces, tag in words]
        for words in nlu_bins.tagged_sentences(20, 5, shift=8)
    ],
}


def by_hand(path, name):
    """Scores of a checkpoint's own predictions, one sentence after the other."""
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    task.load_dataset(name)
    data, predicted, gold = task.dataset(name), [], []
    for row, words in enumerate(SETS[name]):
        net_input = data.collater([data[row]])["net_input"]
        with torch.no_grad():
            logits, _ = model.eval()(**net_input, classification_head_name="token_classification_head")
        predicted.append([task.labels[number] for number in logits.argmax(-1)])
        gold.append([tag for _, tag in words][: len(predicted[-1])])
        pieces = [len(pieces) for pieces, _ in words]
        assert len(predicted[-1]) == sum(sum(pieces[:number]) < LIMIT - 2 for number in range(len(words)))
    assert sum(map(len, gold)) < sum(map(len, SETS[name])), "some words are cut off"
    return span_loops.scores(predicted, gold)


@pytest.mark.slow
def test_best_f1_in_two_processes_and_scores_in_other_languages(run_cli, user_dir, decode, tmp_path):
    data, run = tmp_path / "bin", tmp_path / "run"
    for name, sentences in SETS.items():
        nlu_bins.write_tagged(data, name, sentences)
    train = [Path(sys.executable).with_name("fairseq-train"), data, "--user-dir", user_dir, "--save-dir", run]
    trained = run_cli("torch.distributed.run", "--standalone", "--nproc_per_node", 2, *train, *TRAINING.split())
    scores = logged(trained, "valid.en_f1")
    assert len(scores) == len(logged(trained, "train_f1")) == len(logged(trained, "valid.de_precision")) == 4
    assert 30 < max(scores) and len(set(scores)) > 1
    best = checkpoint(run / "checkpoint_best.pt")["extra_state"]
    assert best["best"] == best["val_loss"] == max(scores) == logged(trained, "valid.en_best_f1")[-1]

    for file, names in (("checkpoint_last.pt", ["valid.en", "valid.de"]), ("checkpoint_best.pt", ["test.fr"])):
        done = decode(data, run / file, f"{TASK} --valid-subset {','.join(names)} --batch-size 7", command="validate")
        for name in names:
            wanted = by_hand(run / file, name)
            assert 0 < wanted["f1"] < 100
            for score, value in wanted.items():
                found = logged(done, f"{name}_{score}")
                assert found == [pytest.approx(value, abs=0.0051)]
                assert name == "test.fr" or logged(trained, f"{name}_{score}")[-1:] == found
    unseen = sum(tag is None for words in SETS["test.fr"] for _, tag in words)
    assert 0 < unseen and "words have a tag that label/dict.txt lacks: they are left out" in done.stderr + done.stdout
    assert "more are cut off with their pieces" in done.stderr + done.stdout
