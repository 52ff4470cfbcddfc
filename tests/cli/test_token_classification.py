"""Test tagging with the stock commands: two processes, two languages, scores by a slow loop."""

import pytest
import torch
from fairseq import checkpoint_utils

from tests import nlu_bins
from tests.reference import span_loops

from .commands import checkpoint, logged

LIMIT = 11  # --max-positions: some sentences lose words
TASK = "--task token_classification --cpu --log-format json --num-workers 0"
TRAINING = f"""{TASK} --criterion token_classification --arch nlu_encoder --encoder-family xlmr
    --encoder-layers 1 --dropout 0 --encoder-embed-dim 16 --encoder-ffn-embed-dim 16
    --encoder-heads 2 --max-positions {LIMIT} --optimizer adam --lr 0.01 --batch-size 8 --seed 3
    --train-subset train.en,train.de --valid-subset valid.en,valid.de --max-epoch 4
    --no-epoch-checkpoints --best-checkpoint-metric f1 --maximize-best-checkpoint-metric
    --sampling-temperature 2"""
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


def slow_scores(path, name):
    """Score the predictions of a checkpoint, sentence by sentence."""
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    model.eval()
    task.load_dataset(name)
    data, predicted, gold = task.dataset(name), [], []
    for row, words in enumerate(SETS[name]):
        net_input = data.collater([data[row]])["net_input"]
        with torch.no_grad():
            logits, _ = model(**net_input, classification_head_name="token_classification_head")
        predicted.append([task.labels[number] for number in logits.argmax(-1)])
        gold.append([tag for _, tag in words][: len(predicted[-1])])
        lengths = [len(pieces) for pieces, _ in words]
        starts = [sum(lengths[:number]) for number in range(len(words))]
        assert len(predicted[-1]) == sum(start < LIMIT - 2 for start in starts)
    assert sum(map(len, gold)) < sum(map(len, SETS[name])), "some words are cut off"
    return span_loops.scores(predicted, gold)


@pytest.mark.slow
def test_tagging_in_two_processes_and_in_an_unseen_language(torchrun, user_dir, decode, tmp_path):
    data, run = tmp_path / "bin", tmp_path / "run"
    for name, sentences in SETS.items():
        nlu_bins.write_tagged(data, name, sentences)
    line = f"{data} --user-dir {user_dir} --save-dir {run} {TRAINING}"
    log = torchrun(2, *line.split())
    scores = logged(log, "valid.en_f1")
    assert len(scores) == 4
    assert len(logged(log, "train_f1")) == len(logged(log, "valid.de_precision")) == 4
    assert max(scores) > 30
    assert len(set(scores)) > 1
    best = checkpoint(run / "checkpoint_best.pt")["extra_state"]
    assert best["best"] == best["val_loss"] == max(scores) == logged(log, "valid.en_best_f1")[-1]

    for file, names in (
        ("checkpoint_last.pt", ["valid.en", "valid.de"]),
        ("checkpoint_best.pt", ["test.fr"]),
    ):
        line = f"{TASK} --valid-subset {','.join(names)} --batch-size 7"
        validation = decode(data, run / file, line, command="validate")
        for name in names:
            expected = slow_scores(run / file, name)
            assert 0 < expected["f1"] < 100
            for score, percent in expected.items():
                (validated,) = logged(validation, f"{name}_{score}")
                assert validated == pytest.approx(percent, abs=0.0051)
                if name != "test.fr":
                    assert logged(log, f"{name}_{score}")[-1] == validated
